"""The Conversation resource: merging and waking (spec/protocol.md §9)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lineloop.protocol.actors import Actor
from lineloop.protocol.resources import (
    Participant,
    conversation_predicate,
    conversation_spec,
    conversation_status,
    participant,
)

ME = Actor("operator", "echo")
OTHER = Actor("operator", "other")
MINE = Participant(ME, "process-1", end_offset=5, position=5, committed=5)
THEIRS = Participant(OTHER, "process-2", end_offset=9, position=0, committed=0)


def resource(*lines: Participant) -> dict[str, Any]:
    return {
        "spec": conversation_spec(name="n", owner=Actor("user", "ann"), parent_id=None, participants=lines),
        "status": conversation_status(lines),
    }


@pytest.mark.requirement("L60")
def test_a_participant_is_merged_from_spec_and_status() -> None:
    assert participant(resource(THEIRS, MINE), ME) == MINE


@pytest.mark.requirement("L60")
def test_an_absent_participant_is_not_found() -> None:
    assert participant(resource(THEIRS), ME) is None
    assert participant({}, ME) is None
    assert participant({"spec": {"participants": None}, "status": None}, ME) is None


@pytest.mark.requirement("L60")
def test_a_participant_that_never_polled_has_zeros() -> None:
    fresh = {"spec": {"participants": [{"kind": "operator", "key": "echo"}]}}
    assert participant(fresh, ME) == Participant(ME, None, 0, 0, 0)


def woken(old: Participant | None, new: Participant | None) -> bool:
    before = resource(THEIRS, *([old] if old else [])) if old is not None else None
    return conversation_predicate(ME)(before, resource(THEIRS, *([new] if new else [])))


@pytest.mark.requirement("L58")
@pytest.mark.parametrize(
    ("old", "new", "wakes"),
    [
        (MINE, replace(MINE, end_offset=6), True),
        (MINE, MINE, False),
        (replace(MINE, end_offset=9, position=0), replace(MINE, end_offset=9, position=9), False),
        (replace(MINE, end_offset=9, committed=2), replace(MINE, end_offset=9, committed=5), True),
        (replace(MINE, committed=2), MINE, False),
        (None, replace(MINE, end_offset=6), True),
        (None, MINE, False),
        (None, None, False),
    ],
    ids=[
        "my end offset grew",
        "nothing changed",
        "only my position changed",
        "my commit left a backlog",
        "my commit drained the inbox",
        "first sight with uncommitted input",
        "first sight without input",
        "I take no part",
    ],
)
def test_the_predicate_wakes_for_what_is_mine_to_do(
    old: Participant | None, new: Participant | None, wakes: bool
) -> None:
    assert woken(old, new) is wakes


@pytest.mark.requirement("L58")
def test_another_actors_signal_does_not_wake_me() -> None:
    busy = replace(MINE, end_offset=9)
    before, after = resource(THEIRS, busy), resource(replace(THEIRS, end_offset=99), busy)
    assert not conversation_predicate(ME)(before, after)
    assert conversation_predicate(OTHER)(before, after)


@pytest.mark.requirement("L59")
def test_learning_my_process_conversation_wakes_me_when_there_is_a_backlog() -> None:
    waiting = replace(MINE, conversation_id=None, end_offset=6)
    assert woken(waiting, replace(waiting, conversation_id="process-1"))
    drained = replace(MINE, conversation_id=None)
    assert not woken(drained, MINE)


@pytest.mark.requirement("L58")
def test_joining_with_a_backlog_wakes_me() -> None:
    assert conversation_predicate(ME)(resource(THEIRS), resource(THEIRS, replace(MINE, end_offset=6)))
