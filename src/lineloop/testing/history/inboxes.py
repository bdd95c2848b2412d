"""Rules of inboxes: what is polled or pushed is everything, in offset order; cursors only move forward."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from lineloop.testing.history.operations import Committed, Delivered, Ended, History, Outcome, Polled, Spoke
from lineloop.testing.history.reading import Reading, Stored
from lineloop.testing.history.verdicts import Rule, Violation

Place = tuple[str, str]
"""(conversation id, actor)"""


@dataclass(slots=True)
class _Inbox:
    """What is deliverable to one actor in one conversation, in offset order."""

    offsets: list[int] = field(default_factory=list[int])
    ids: list[str] = field(default_factory=list[str])

    def between(self, after: int, upto: int) -> list[tuple[int, str]]:
        first, last = bisect_right(self.offsets, after), bisect_right(self.offsets, upto)
        return list(zip(self.offsets[first:last], self.ids[first:last], strict=True))

    def before(self, offset: int) -> int:
        """The offset that comes directly before; 0 when there is none."""
        index = bisect_right(self.offsets, offset - 1)
        return self.offsets[index - 1] if index else 0


def inbox_violations(history: History, reading: Reading, *, healed: bool) -> Iterator[Violation]:
    inboxes = _inboxes(history, reading)
    yield from _polls(history, inboxes, _known_since(history, reading.by_id()))
    yield from _pushes(history, inboxes)
    yield from _cursors_in_time(history)
    yield from _cursors_at_the_end(history, reading)
    if healed:
        for cursor in reading.cursors:
            inbox = inboxes.get((cursor.conversation_id, cursor.actor))
            if inbox is not None and inbox.offsets and cursor.committed < inbox.offsets[-1]:
                words = f"committed {cursor.committed} of {inbox.offsets[-1]}"
                yield Violation(Rule.STUCK, f"{cursor.actor} in {cursor.conversation_id}", words)


def _inboxes(history: History, reading: Reading) -> dict[Place, _Inbox]:
    """For everybody who polled, was pushed to or commits."""
    places: set[Place] = set()
    for kind in (Polled, Committed, Delivered):
        places.update((one.conversation_id, one.actor) for one in history.of(kind))
    actors: defaultdict[str, list[str]] = defaultdict(list)
    for conversation_id, actor in places:
        actors[conversation_id].append(actor)
    inboxes = {place: _Inbox() for place in places}
    ended = [message for message in reading.messages if message.offset is not None]
    for message in sorted(ended, key=lambda one: one.offset or 0):
        for actor in actors[message.conversation_id]:
            if message.is_for(actor):
                inbox = inboxes[message.conversation_id, actor]
                inbox.offsets.append(message.offset or 0)
                inbox.ids.append(message.id)
    return inboxes


def _known_since(history: History, stored: Mapping[str, Stored]) -> dict[str, float]:
    """When each message was first known to be deliverable."""
    known: dict[str, float] = {}
    for one in history.operations:
        if not isinstance(one, Spoke | Ended) or one.outcome is not Outcome.DONE or not one.message_id:
            continue
        message = stored.get(one.message_id)
        if message is None or (isinstance(one, Spoke) and message.revision > 0):
            continue
        known[one.message_id] = min(known.get(one.message_id, one.ended), one.ended)
    return known


def _polls(
    history: History, inboxes: Mapping[Place, _Inbox], known: Mapping[str, float]
) -> Iterator[Violation]:
    for poll in history.of(Polled):
        subject = f"{poll.actor} in {poll.conversation_id}"
        inbox = inboxes[poll.conversation_id, poll.actor]
        start = poll.committed if poll.after is None else poll.after
        expected = inbox.between(start, poll.position)
        yield from _differences(expected, list(poll.got), subject)
        if not poll.full:
            newest = inbox.offsets[-1] if inbox.offsets else 0
            missed = [
                offset
                for offset, message_id in inbox.between(poll.position, newest)
                if known.get(message_id, poll.began) < poll.began
            ]
            if missed:
                yield Violation(Rule.STALE, subject, f"a poll ended at {poll.position} without {missed[:5]}")


def _differences(
    expected: list[tuple[int, str]], got: list[tuple[int, str]], subject: str
) -> Iterator[Violation]:
    """What an actor was given against what it should have been given up to the same offset."""
    if expected == got:
        return
    offsets = [offset for offset, _ in got]
    if offsets != sorted(offsets):
        yield Violation(Rule.REORDERED, subject, f"given {offsets[:20]}")
    if len(set(got)) != len(got):
        yield Violation(Rule.DOUBLED, subject, f"given {offsets[:20]}")
    if missing := [one for one in expected if one not in got]:
        yield Violation(Rule.LATE, subject, f"passed over {missing[:3]}")
    if strange := [one for one in got if one not in expected]:
        yield Violation(Rule.INVENTED, subject, f"given {strange[:3]}")


def _pushes(history: History, inboxes: Mapping[Place, _Inbox]) -> Iterator[Violation]:
    """Per connection everything in order from the first one on, and that one follows what was committed."""
    sessions: defaultdict[tuple[str, str], list[Delivered]] = defaultdict(list)
    for push in history.of(Delivered):
        sessions[push.session, push.conversation_id].append(push)
    tried: defaultdict[Place, int] = defaultdict(int)
    for commit in history.of(Committed):
        place = (commit.conversation_id, commit.actor)
        tried[place] = max(tried[place], commit.position)
    for (session, conversation_id), pushes in sessions.items():
        actor = pushes[0].actor
        inbox = inboxes[conversation_id, actor]
        subject = f"{actor} in {conversation_id} on link {session}"
        first = inbox.before(pushes[0].offset)
        if first > tried[conversation_id, actor]:
            yield Violation(Rule.LATE, subject, f"began behind {first}, which nobody committed")
        got = [(push.offset, push.message_id) for push in pushes]
        yield from _differences(inbox.between(first, got[-1][0]), got, subject)


def _cursors_in_time(history: History) -> Iterator[Violation]:
    """What a poll says is committed is never less than what was known before the poll began."""
    facts: defaultdict[Place, list[tuple[float, int]]] = defaultdict(list)
    polls: defaultdict[Place, list[Polled]] = defaultdict(list)
    for one in history.operations:
        if isinstance(one, Committed) and one.outcome is Outcome.DONE:
            facts[one.conversation_id, one.actor].append((one.ended, one.position))
        elif isinstance(one, Polled):
            place = (one.conversation_id, one.actor)
            facts[place].append((one.ended, one.committed))
            polls[place].append(one)
    for place, asked in polls.items():
        known = sorted(facts[place])
        highest = index = 0
        for poll in sorted(asked, key=lambda one: one.began):
            while index < len(known) and known[index][0] < poll.began:
                highest = max(highest, known[index][1])
                index += 1
            if poll.committed < highest:
                words = f"committed {poll.committed} after {highest}"
                yield Violation(Rule.CURSOR_BACK, f"{place[1]} in {place[0]}", words)


def _cursors_at_the_end(history: History, reading: Reading) -> Iterator[Violation]:
    done: defaultdict[Place, int] = defaultdict(int)
    tried: defaultdict[Place, int] = defaultdict(int)
    for commit in history.of(Committed):
        place = (commit.conversation_id, commit.actor)
        if commit.outcome is not Outcome.REFUSED:
            tried[place] = max(tried[place], commit.position)
        if commit.outcome is Outcome.DONE:
            done[place] = max(done[place], commit.position)
    cursors = {(cursor.conversation_id, cursor.actor): cursor for cursor in reading.cursors}
    for place, position in done.items():
        cursor = cursors.get(place)
        subject = f"{place[1]} in {place[0]}"
        if cursor is None:
            yield Violation(Rule.LOST, subject, f"no cursor, though {position} was committed")
        elif cursor.committed < position:
            yield Violation(Rule.CURSOR_BACK, subject, f"committed {position}, is {cursor.committed}")
    for place, cursor in cursors.items():
        if cursor.committed > max(tried[place], 0) or cursor.committed > cursor.end_offset:
            words = f"committed {cursor.committed}; tried {tried[place]}, end {cursor.end_offset}"
            yield Violation(Rule.CURSOR_BEYOND, f"{place[1]} in {place[0]}", words)
