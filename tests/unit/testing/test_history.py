"""The judge of histories: silent about a sound one, and loud about each way of breaking it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lineloop.testing.history import (
    Answered,
    Appended,
    Asked,
    Committed,
    Cursor,
    Delivered,
    Ended,
    History,
    Outcome,
    Polled,
    Reading,
    Rule,
    Seen,
    Sight,
    Spoke,
    Stored,
    StoredQuestion,
    Viewed,
    Watched,
    check,
    fingerprint,
)

DONE, UNKNOWN, REFUSED = Outcome.DONE, Outcome.UNKNOWN, Outcome.REFUSED
ROOT, PERSON, ECHO = "con_1", "user/local", "operator/echo"
EMPTY = {"version": "1.1", "biz": "chat", "meta": {}, "blocks": []}
SET = {"op": "set", "seq": 1, "block": {"id": "t", "type": "text", "content": "an"}}
APPEND = {"op": "append", "seq": 2, "mask": "block.content", "block": {"id": "t", "content": "swer"}}
HALF = {**EMPTY, "blocks": [{"id": "t", "type": "text", "content": "an"}]}
ANSWER = {**EMPTY, "blocks": [{"id": "t", "type": "text", "content": "answer"}]}
HELLO = {**EMPTY, "blocks": [{"id": "t", "type": "text", "content": "hello"}]}
CARD = {**EMPTY, "blocks": [{"id": "q", "type": "confirm", "state": "success"}]}


def message(name: str, ordinal: int, content: dict[str, Any], **changes: Any) -> Stored:
    made = Stored(
        id=name,
        conversation_id=ROOT,
        actor=PERSON,
        key=name,
        target=ECHO,
        reply_to_id=None,
        purpose="input",
        status="completed",
        revision=0,
        ordinal=ordinal,
        offset=ordinal,
        content=content,
    )
    return replace(made, **changes)


def story() -> tuple[History, Reading]:
    """The person speaks twice; echo streams an answer, asks, is answered; one viewer, one link, one poll."""
    spoke_in = Spoke(0, 1, DONE, ROOT, PERSON, "in", ECHO, fingerprint(HELLO), None, "in", 1, 1)
    spoke_out = Spoke(2, 3, DONE, ROOT, ECHO, "out", None, None, EMPTY, "out", 2, None)
    history = History(
        [
            Watched("viewer", ROOT),
            replace(spoke_in, ended=0.5, outcome=UNKNOWN, message_id=None, ordinal=None, offset=None),
            spoke_in,
            Viewed("viewer", "in", Sight.WHOLE, 0, fingerprint(HELLO), "completed"),
            Delivered(1.5, "link", ROOT, ECHO, 1, "in"),
            Polled(1.6, 1.7, ROOT, ECHO, None, ((1, "in"),), 1, 0),
            Committed(1.8, 1.9, DONE, ROOT, ECHO, 1),
            spoke_out,
            Viewed("viewer", "out", Sight.WHOLE, 0, fingerprint(EMPTY), "streaming"),
            Appended(3, 4, DONE, "out", 1, SET),
            Viewed("viewer", "out", Sight.PATCH, 1, fingerprint(SET)),
            Appended(4, 5, UNKNOWN, "out", 2, APPEND),
            Appended(5, 6, DONE, "out", 2, APPEND),
            Viewed("viewer", "out", Sight.PATCH, 2, fingerprint(APPEND)),
            Viewed("viewer", "out", Sight.MODEL, 2, fingerprint(ANSWER)),
            Ended(6, 7, DONE, "out", 3, "completed"),
            Appended(7, 8, REFUSED, "out", 4, {**APPEND, "seq": 4}),
            Viewed("viewer", "out", Sight.WHOLE, 3, fingerprint(ANSWER), "completed"),
            Asked(8, 9, DONE, ROOT, ECHO, "q", "question"),
            Viewed("viewer", "question", Sight.WHOLE, 0, fingerprint(EMPTY), "completed"),
            Seen(9, 10, "question", "question", "pending"),
            Answered(10, 11, DONE, "question", "success", "accepted"),
            Viewed("viewer", "question", Sight.WHOLE, 0, fingerprint(CARD), "completed"),
            Viewed("viewer", "reply", Sight.WHOLE, 0, fingerprint(HELLO), "completed"),
            Seen(11, 12, "question", "question", "success", "accepted", terminal=True),
            Seen(11, 12, "run", "run_1", "succeeded", terminal=True),
            Polled(12, 13, ROOT, ECHO, 1, ((4, "reply"),), 4, 1),
            Delivered(12, "link", ROOT, ECHO, 4, "reply"),
            Committed(13, 14, UNKNOWN, ROOT, ECHO, 4),
            Polled(14, 15, ROOT, ECHO, None, (), 4, 4),
        ]
    )
    reading = Reading(
        messages=[
            message("in", 1, HELLO),
            message("out", 2, ANSWER, actor=ECHO, target=None, purpose="speech", revision=3),
            message("question", 3, CARD, actor=ECHO, target=PERSON, purpose="question"),
            message("reply", 4, HELLO, purpose="answer", reply_to_id="question"),
        ],
        questions=[StoredQuestion("question", "success", "accepted")],
        cursors=[Cursor(ROOT, ECHO, 4, 4, 4)],
        roots={ROOT: ROOT},
        logs={"out": [SET, APPEND, {"op": "end", "seq": 3}]},
        runs={"run_1": "succeeded"},
    )
    return history, reading


def test_a_sound_history_has_no_violation() -> None:
    history, reading = story()
    assert check(history, reading) == []


Break = Callable[[History, Reading], None]


def stored(name: str, **changes: Any) -> Break:
    """Something else is stored of a message than was acknowledged."""

    def broken(_: History, reading: Reading) -> None:
        reading.messages = [replace(m, **changes) if m.id == name else m for m in reading.messages]

    return broken


def without(name: str) -> Break:
    def broken(_: History, reading: Reading) -> None:
        reading.messages = [m for m in reading.messages if m.id != name]

    return broken


def also(*added: Stored) -> Break:
    def broken(_: History, reading: Reading) -> None:
        reading.messages = [*reading.messages, *added]

    return broken


def told(*added: Any) -> Break:
    """A client was told something that cannot be."""
    return lambda history, _: history.operations.extend(added)


def instead(place: int, **changes: Any) -> Break:
    """One operation of the story came out differently."""

    def broken(history: History, _: Reading) -> None:
        history.operations[place] = replace(history.operations[place], **changes)

    return broken


def question(state: str, value: str | None = None) -> Break:
    def broken(_: History, reading: Reading) -> None:
        reading.questions = [StoredQuestion("question", state, value)]

    return broken


def cursor(**changes: int) -> Break:
    def broken(_: History, reading: Reading) -> None:
        reading.cursors = [replace(reading.cursors[0], **changes)]

    return broken


def run(phase: str) -> Break:
    def broken(_: History, reading: Reading) -> None:
        reading.runs = {"run_1": phase}

    return broken


def log(*patches: dict[str, Any]) -> Break:
    def broken(_: History, reading: Reading) -> None:
        reading.logs = {"out": list(patches)}

    return broken


def forgotten(*places: int) -> Break:
    """These operations of the story were never recorded."""

    def broken(history: History, _: Reading) -> None:
        gone = [story()[0].operations[place] for place in places]
        history.operations = [one for one in history.operations if one not in gone]

    return broken


def both(*breaks: Break) -> Break:
    def broken(history: History, reading: Reading) -> None:
        for one in breaks:
            one(history, reading)

    return broken


def places_of(kind: type) -> list[int]:
    return [index for index, one in enumerate(story()[0].operations) if isinstance(one, kind)]


def place_of(kind: type, nth: int = 0) -> int:
    return places_of(kind)[nth]


SECOND = replace(message("in", 5, HELLO), id="other")
BROKEN: dict[str, tuple[Rule, Break]] = {
    "an acknowledged message is gone": (Rule.LOST, without("in")),
    "an acknowledged patch is gone": (Rule.LOST, stored("out", revision=1, status="streaming", offset=None)),
    "an acknowledged end is gone": (Rule.LOST, stored("out", revision=2, status="streaming", offset=None)),
    "an end stands before the acknowledged one": (Rule.LOST, stored("out", revision=2)),
    "an acknowledged answer is gone": (Rule.LOST, question("pending")),
    "an answered question has no answer message": (Rule.LOST, without("reply")),
    "an acknowledged question is gone": (
        Rule.LOST,
        told(Asked(20, 21, DONE, ROOT, ECHO, "q2", "another")),
    ),
    "a cursor is gone": (Rule.LOST, lambda _, reading: setattr(reading, "cursors", [])),
    "a run that was seen is gone": (Rule.LOST, lambda _, reading: setattr(reading, "runs", {})),
    "a viewer saw what is not there": (
        Rule.LOST,
        told(Viewed("viewer", "x", Sight.WHOLE, 0, "", "completed")),
    ),
    "one key has two messages": (Rule.DOUBLED, also(SECOND)),
    "one key was answered with two messages": (
        Rule.DOUBLED,
        told(Spoke(20, 21, DONE, ROOT, PERSON, "in", ECHO, message_id="out")),
    ),
    "one effect key has two questions": (
        Rule.DOUBLED,
        told(Asked(20, 21, DONE, ROOT, ECHO, "q", "reply")),
    ),
    "a question has two answers": (
        Rule.DOUBLED,
        also(message("reply2", 5, HELLO, purpose="answer", reply_to_id="question")),
    ),
    "a message that nobody spoke": (Rule.INVENTED, also(message("stranger", 5, HELLO))),
    "a poll gave what is not the reader's": (
        Rule.INVENTED,
        instead(place_of(Polled), got=((1, "in"), (2, "out"))),
    ),
    "a timeout with an answer": (Rule.INVENTED, question("timeout")),
    "patches that nobody sent": (Rule.INVENTED, stored("out", revision=9)),
    "another content": (Rule.CHANGED, stored("in", content=ANSWER)),
    "another target": (Rule.CHANGED, stored("in", target="operator/other")),
    "another ordinal than was told": (Rule.CHANGED, instead(place_of(Spoke, 1), ordinal=7)),
    "another offset than was told": (Rule.CHANGED, instead(place_of(Spoke, 1), offset=7)),
    "content that its patches do not make": (Rule.CHANGED, stored("out", content=HALF)),
    "a log that was never sent": (Rule.CHANGED, log({**SET, "block": {"id": "z", "type": "text"}}, APPEND)),
    "a hole in the ordinals": (Rule.GAP, stored("reply", ordinal=9)),
    "an offset twice": (Rule.GAP, stored("reply", offset=3)),
    "an ended message without an offset": (Rule.GAP, stored("reply", offset=None)),
    "created first and behind": (Rule.REORDERED, instead(place_of(Spoke, 2), began=-2, ended=-1)),
    "ended first and behind": (Rule.REORDERED, instead(place_of(Ended), began=-2, ended=-1)),
    "a push out of order": (Rule.REORDERED, told(Delivered(20, "link", ROOT, ECHO, 1, "in"))),
    "a poll passed over a message": (Rule.LATE, instead(place_of(Polled, 1), after=0)),
    "a link began behind what was not committed": (
        Rule.LATE,
        both(forgotten(place_of(Delivered)), forgotten(*places_of(Committed))),
    ),
    "a poll that does not show what was acknowledged": (
        Rule.STALE,
        told(Polled(20, 21, ROOT, ECHO, 0, (), 0, 4)),
    ),
    "a commit that went back": (Rule.CURSOR_BACK, told(Polled(20, 21, ROOT, ECHO, 4, (), 4, 0))),
    "an acknowledged commit that is not there": (Rule.CURSOR_BACK, cursor(committed=0)),
    "a commit that nobody made": (Rule.CURSOR_BEYOND, cursor(committed=7)),
    "a commit beyond the end": (Rule.CURSOR_BEYOND, cursor(end_offset=3)),
    "another end than was acknowledged": (Rule.TWO_OUTCOMES, stored("out", status="failed")),
    "another answer than was acknowledged": (Rule.TWO_OUTCOMES, question("success", "declined")),
    "two runs' ends in one": (Rule.TWO_OUTCOMES, run("failed")),
    "a question open again": (Rule.TWO_OUTCOMES, told(Seen(20, 21, "question", "question", "pending"))),
    "a patch accepted after the end": (
        Rule.AFTER_END,
        told(Appended(20, 21, DONE, "out", 4, {**APPEND, "seq": 4})),
    ),
    "a patch shown after the end": (Rule.AFTER_END, told(Viewed("viewer", "out", Sight.PATCH, 4, ""))),
    "more stored than the end": (
        Rule.AFTER_END,
        both(
            stored("out", revision=4),
            told(Appended(8, 9, UNKNOWN, "out", 3, {**APPEND, "seq": 3})),
        ),
    ),
    "a patch that is not the next": (Rule.VIEW_GAP, instead(place_of(Viewed, 2), revision=2)),
    "a whole that is older": (
        Rule.VIEW_GAP,
        told(Viewed("viewer", "out", Sight.WHOLE, 2, fingerprint(ANSWER), "streaming")),
    ),
    "a patch that was not sent": (Rule.VIEW_DIFFERS, instead(place_of(Viewed, 2), digest="other")),
    "a model that is not the fold": (Rule.VIEW_DIFFERS, instead(place_of(Viewed, 4), digest="other")),
    "a whole that is not the fold": (Rule.VIEW_DIFFERS, instead(place_of(Viewed, 5), digest="other")),
    "an open question": (Rule.STUCK, question("pending")),
    "a stream that never ended": (Rule.STUCK, stored("out", revision=2, status="streaming", offset=None)),
    "a run that never ended": (Rule.STUCK, run("running")),
    "an inbox that is not done with": (Rule.STUCK, cursor(committed=1)),
    "a viewer without the newest": (
        Rule.STUCK,
        forgotten(place_of(Viewed, 8)),
    ),
    "a viewer with an old card": (Rule.STUCK, instead(place_of(Viewed, 7), digest=fingerprint(EMPTY))),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_history_is_found(name: str) -> None:
    rule, broken = BROKEN[name]
    history, reading = story()
    broken(history, reading)
    assert rule in {violation.rule for violation in check(history, reading)}


def test_each_rule_has_a_history_that_breaks_it() -> None:
    assert {rule for rule, _ in BROKEN.values()} == set(Rule)


def test_what_still_waits_is_no_violation_before_healing() -> None:
    history, reading = story()
    question("pending")(history, reading)
    cursor(committed=1)(history, reading)
    waiting = {violation.rule for violation in check(history, reading, healed=False)}
    assert Rule.STUCK not in waiting
