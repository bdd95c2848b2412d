"""Rules of messages: nothing acknowledged is lost or changed, one per key, in order, nothing after an end."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from lineloop.kit.records import record
from lineloop.protocol.errors import PatchInvalid
from lineloop.protocol.patches import fold
from lineloop.testing.history.operations import Appended, Ended, History, Outcome, Spoke, fingerprint
from lineloop.testing.history.reading import Reading, Stored
from lineloop.testing.history.verdicts import Rule, Violation

SPOKEN = ("speech", "input")
"""Purposes that only a client's own speaking makes."""


def message_violations(history: History, reading: Reading, *, healed: bool) -> Iterator[Violation]:
    stored = reading.by_id()
    yield from _keys(history, reading)
    yield from _spoken(history, stored)
    yield from _streamed(history, stored)
    yield from _contents(history, reading)
    yield from _counters(reading)
    yield from _real_time(history, stored)
    if healed:
        for message in reading.messages:
            if not message.is_ended:
                yield Violation(Rule.STUCK, message.id, "still streaming")


def _keys(history: History, reading: Reading) -> Iterator[Violation]:
    """One message per (conversation, actor, key), and each with somebody who spoke it."""
    places = Counter((one.conversation_id, one.actor, one.key) for one in reading.messages)
    for place, count in places.items():
        if count > 1:
            yield Violation(Rule.DOUBLED, "/".join(place), f"{count} messages under one key")
    tried: set[tuple[str, str, str]] = set()
    answered: dict[tuple[str, str, str], str] = {}
    for spoke in history.of(Spoke):
        place = (spoke.conversation_id, spoke.actor, spoke.key)
        tried.add(place)
        if spoke.outcome is Outcome.DONE and spoke.message_id:
            first = answered.setdefault(place, spoke.message_id)
            if first != spoke.message_id:
                yield Violation(Rule.DOUBLED, "/".join(place), f"answered {first} and {spoke.message_id}")
    for message in reading.messages:
        place = (message.conversation_id, message.actor, message.key)
        if message.purpose in SPOKEN and place not in tried:
            yield Violation(Rule.INVENTED, message.id, f"nobody spoke {message.key!r}")


def _spoken(history: History, stored: Mapping[str, Stored]) -> Iterator[Violation]:
    for spoke in history.of(Spoke):
        if spoke.outcome is not Outcome.DONE or not spoke.message_id:
            continue
        message = stored.get(spoke.message_id)
        if message is None:
            yield Violation(Rule.LOST, spoke.message_id, f"{spoke.actor} spoke {spoke.key!r}")
            continue
        told = (spoke.conversation_id, spoke.actor, spoke.key, spoke.target)
        if told != (message.conversation_id, message.actor, message.key, message.target):
            yield Violation(Rule.CHANGED, message.id, f"spoken as {told}")
        if spoke.content is not None and spoke.content != fingerprint(message.content):
            yield Violation(Rule.CHANGED, message.id, "another content than was spoken")
        if spoke.ordinal is not None and spoke.ordinal != message.ordinal:
            yield Violation(Rule.CHANGED, message.id, f"ordinal {spoke.ordinal} is now {message.ordinal}")
        if spoke.offset is not None and spoke.offset != message.offset:
            yield Violation(Rule.CHANGED, message.id, f"offset {spoke.offset} is now {message.offset}")


def _streamed(history: History, stored: Mapping[str, Stored]) -> Iterator[Violation]:
    """Acknowledged patches and ends stand; nothing was accepted behind an end."""
    for append in history.of(Appended):
        if append.outcome is not Outcome.DONE:
            continue
        message = stored.get(append.message_id)
        if message is None or (append.seq > message.revision and not message.is_ended):
            yield Violation(Rule.LOST, append.message_id, f"patch {append.seq}")
        elif append.seq > message.revision:
            yield Violation(Rule.AFTER_END, message.id, f"patch {append.seq} after {message.revision}")
    for end in history.of(Ended):
        if end.outcome is not Outcome.DONE:
            continue
        message = stored.get(end.message_id)
        if message is None or not message.is_ended:
            yield Violation(Rule.LOST, end.message_id, f"ended as {end.seq}")
        elif message.status != end.status:
            yield Violation(Rule.TWO_OUTCOMES, message.id, f"ended {end.status}, is {message.status}")
        elif message.revision > end.seq:
            yield Violation(Rule.AFTER_END, message.id, f"ended as {end.seq}, is at {message.revision}")
        elif message.revision < end.seq:
            yield Violation(Rule.LOST, message.id, f"ended as {end.seq}, is at {message.revision}")


def _contents(history: History, reading: Reading) -> Iterator[Violation]:
    """The content is what the log makes of what the stream began with; the log is what the writer sent."""
    logs = sent_logs(history)
    for message in reading.messages:
        log = logs.get(message.id)
        if log is None:
            continue
        for patch in reading.logs.get(message.id, ()):
            seq = patch["seq"]
            if patch["op"] != "end" and fingerprint(patch) != fingerprint(log.patches.get(seq)):
                yield Violation(Rule.CHANGED, message.id, f"stored patch {seq} is not what was sent")
        last = message.revision - 1 if message.is_ended else message.revision
        if any(seq not in log.patches for seq in range(1, last + 1)):
            yield Violation(Rule.INVENTED, message.id, f"revision {message.revision} was never sent")
            continue
        try:
            made = fold(log.initial, [log.patches[seq] for seq in range(1, last + 1)])
        except PatchInvalid as error:
            yield Violation(Rule.CHANGED, message.id, f"its own patches do not apply: {error.message}")
            continue
        if made != message.content:
            yield Violation(Rule.CHANGED, message.id, f"not the fold of its patches up to {last}")


@record
class SentLog:
    """What a writer sent for one stream: where it began, and its patches by seq."""

    initial: Mapping[str, Any]
    patches: Mapping[int, Mapping[str, Any]]


def sent_logs(history: History) -> dict[str, SentLog]:
    """By message, for streams whose beginning was acknowledged."""
    patches: defaultdict[str, dict[int, Mapping[str, Any]]] = defaultdict(dict)
    for append in history.of(Appended):
        if append.outcome is not Outcome.REFUSED:
            patches[append.message_id][append.seq] = append.patch
    return {
        spoke.message_id: SentLog(spoke.initial, patches[spoke.message_id])
        for spoke in history.of(Spoke)
        if spoke.message_id and spoke.initial is not None
    }


def _counters(reading: Reading) -> Iterator[Violation]:
    """Per conversation ordinals and offsets are 1, 2, 3, …; only what streams has no offset."""
    ordinals: defaultdict[str, list[int]] = defaultdict(list)
    offsets: defaultdict[str, list[int]] = defaultdict(list)
    for message in reading.messages:
        ordinals[message.conversation_id].append(message.ordinal)
        if message.is_ended != (message.offset is not None):
            yield Violation(Rule.GAP, message.id, f"{message.status} with offset {message.offset}")
        if message.offset is not None:
            offsets[message.conversation_id].append(message.offset)
    for name, counters in (("ordinals", ordinals), ("offsets", offsets)):
        for conversation_id, numbers in counters.items():
            if sorted(numbers) != list(range(1, len(numbers) + 1)):
                yield Violation(Rule.GAP, conversation_id, f"{name}: {_first_gap(numbers)}")


def _first_gap(numbers: list[int]) -> str:
    counts = Counter(numbers)
    twice = [number for number, count in counts.items() if count > 1]
    missing = [number for number in range(1, max(numbers) + 1) if number not in counts]
    return f"missing {missing[:5]}, twice {twice[:5]}"


@record
class _Span:
    """First moment at which it may have happened, and first at which it was known to have."""

    began: float
    known: float
    place: int
    message_id: str


def _real_time(history: History, stored: Mapping[str, Stored]) -> Iterator[Violation]:
    """What was acknowledged before the other was first tried stands before it."""
    creations = _spans(history.of(Spoke))
    ends = _spans(history.of(Ended))
    ordinals: defaultdict[str, list[_Span]] = defaultdict(list)
    offsets: defaultdict[str, list[_Span]] = defaultdict(list)
    for message in stored.values():
        created = creations.get(message.id)
        if created is not None:
            ordinals[message.conversation_id].append(_Span(*created, message.ordinal, message.id))
        is_stream = message.revision > 0
        delivered = ends.get(message.id) if is_stream else created
        if delivered is not None and message.offset is not None:
            offsets[message.conversation_id].append(_Span(*delivered, message.offset, message.id))
    for name, groups in (("ordinal", ordinals), ("offset", offsets)):
        for spans in groups.values():
            yield from _disorder(spans, name)


def _spans(operations: Iterator[Spoke] | Iterator[Ended]) -> dict[str, tuple[float, float]]:
    """By message: the first attempt's beginning and the first acknowledgement."""
    began: dict[object, float] = {}
    known: dict[str, tuple[object, float]] = {}
    for one in operations:
        if one.outcome is Outcome.REFUSED:
            continue
        place: object = (
            (one.conversation_id, one.actor, one.key) if isinstance(one, Spoke) else one.message_id
        )
        began[place] = min(began.get(place, one.began), one.began)
        if one.outcome is Outcome.DONE and one.message_id:
            _, before = known.get(one.message_id, (place, one.ended))
            known[one.message_id] = (place, min(before, one.ended))
    return {message_id: (began[place], ended) for message_id, (place, ended) in known.items()}


def _disorder(spans: list[_Span], name: str) -> Iterator[Violation]:
    by_known = sorted(spans, key=lambda span: span.known)
    highest, index = None, 0
    for span in sorted(spans, key=lambda one: one.began):
        while index < len(by_known) and by_known[index].known < span.began:
            if highest is None or by_known[index].place > highest.place:
                highest = by_known[index]
            index += 1
        if highest is not None and highest.place > span.place:
            words = f"{name} {span.place}, though {highest.message_id} had {highest.place} before it began"
            yield Violation(Rule.REORDERED, span.message_id, words)
