"""The rules of Runs, without any storage."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lineloop.protocol.actors import Actor
from lineloop.protocol.errors import ErrorCode, LoopError
from lineloop.protocol.machines import MessageStatus, RunEvent, RunPhase
from lineloop.server.decide.runs import (
    decide_claim,
    decide_end_without_holder,
    decide_fence,
    decide_finish,
    decide_submit,
    decide_suspend,
    request_digest,
    wakes_run,
)
from lineloop.server.run_records import RunRow

NOW = 1_000_000
RUN = RunRow(
    id="run_1",
    conversation_id="con_1",
    root_id="con_1",
    actor=Actor("harness", "demo"),
    idempotency_key="k",
    digest="d",
    effect_key="e",
    target="demo",
    prompter=Actor("operator", "assistant"),
    request={"text": "hello"},
    message_id="msg_1",
    phase=RunPhase.PENDING,
    runnable=True,
    wakes=0,
    retries=0,
    ledger_seq=0,
    submitting=None,
    cancel_requested_at=None,
    deadline_at=NOW + 60_000,
    lease_holder=None,
    lease_token=0,
    lease_until=0,
    result=None,
    error=None,
    created_at=NOW,
)
HELD = replace(RUN, phase=RunPhase.RUNNING, lease_holder="a", lease_token=3, lease_until=NOW + 1)


@pytest.mark.parametrize(
    ("run", "phase"),
    [
        (RUN, RunPhase.STARTING),
        (replace(RUN, phase=RunPhase.WAITING_INPUT), RunPhase.RUNNING),
        (replace(RUN, phase=RunPhase.RUNNING), RunPhase.RUNNING),
        (replace(RUN, phase=RunPhase.WAITING_INPUT, runnable=False), None),
        (replace(RUN, phase=RunPhase.SUCCEEDED), None),
        (replace(RUN, cancel_requested_at=NOW), None),
        (replace(RUN, deadline_at=NOW), None),
        (HELD, None),
        (replace(HELD, lease_until=NOW), RunPhase.RUNNING),
    ],
)
def test_only_a_free_and_runnable_run_is_taken_up(run: RunRow, phase: RunPhase | None) -> None:
    assert decide_claim(run, NOW) is phase


@pytest.mark.parametrize(
    ("run", "holder", "token"),
    [
        (None, "a", 3),
        (HELD, "b", 3),
        (HELD, "a", 2),
        (replace(HELD, lease_token=4), "a", 3),
        (replace(HELD, phase=RunPhase.CANCELLED), "a", 3),
    ],
)
def test_a_write_without_the_current_lease_is_refused(run: RunRow | None, holder: str, token: int) -> None:
    with pytest.raises(LoopError) as caught:
        decide_fence(run, holder=holder, token=token)
    assert caught.value.code is ErrorCode.LEASE_LOST
    assert decide_fence(HELD, holder="a", token=3) is HELD


@pytest.mark.parametrize(
    ("run", "event"),
    [
        (RUN, None),
        (replace(RUN, deadline_at=NOW), RunEvent.TIME_OUT),
        (replace(RUN, cancel_requested_at=NOW - 5, deadline_at=NOW), RunEvent.CANCEL),
        (replace(HELD, deadline_at=NOW), None),
        (replace(RUN, phase=RunPhase.FAILED, deadline_at=NOW), None),
    ],
)
def test_maintenance_ends_what_is_due_and_held_by_nobody(run: RunRow, event: RunEvent | None) -> None:
    assert decide_end_without_holder(run, NOW) is event


@pytest.mark.parametrize(
    ("event", "phase", "status", "code"),
    [
        (RunEvent.SUCCEED, RunPhase.SUCCEEDED, MessageStatus.COMPLETED, None),
        (RunEvent.CANCEL, RunPhase.CANCELLED, MessageStatus.CANCELLED, "run_cancelled"),
        (RunEvent.TIME_OUT, RunPhase.TIMED_OUT, MessageStatus.FAILED, "run_timed_out"),
        (RunEvent.LOSE, RunPhase.UNKNOWN, MessageStatus.FAILED, "run_outcome_unknown"),
        (RunEvent.FAIL, RunPhase.FAILED, MessageStatus.FAILED, "run_failed"),
    ],
)
def test_an_end_gives_run_and_message_their_states(
    event: RunEvent, phase: RunPhase, status: MessageStatus, code: str | None
) -> None:
    for before in (RunPhase.STARTING, RunPhase.RUNNING):
        ended = decide_finish(before, event, None)
        assert (ended.phase, ended.status, (ended.error or {}).get("code")) == (phase, status, code)
    with pytest.raises(LoopError):
        decide_finish(phase, event, None)


def test_a_wait_begins_only_when_nothing_arrived_since_the_run_looked() -> None:
    assert decide_suspend(replace(HELD, wakes=2), 2)
    assert not decide_suspend(replace(HELD, wakes=3), 2)
    assert not decide_suspend(replace(HELD, wakes=2, cancel_requested_at=NOW), 2)


@pytest.mark.parametrize(
    ("until", "kind", "stage", "expected"),
    [
        ("result", "lineup.tool.result", None, True),
        ("result", "lineup.tool.error", None, True),
        ("result", "lineup.tool.progress", "started", False),
        ("started_or_result", "lineup.tool.progress", "started", True),
        ("started_or_result", "lineup.tool.accepted", "accepted", False),
        ("started_or_result", "lineup.tool.accepted", "starting", True),
        ("started_or_result", "lineup.tool.progress", "progress", False),
    ],
)
def test_a_run_is_woken_by_what_it_waits_for_or_has_words_for(
    until: str, kind: str, stage: str | None, expected: bool
) -> None:
    payload = {"stage": stage} if stage else {}
    assert wakes_run(until, {"type": kind, "payload": payload}) is expected


def test_the_digest_depends_on_the_request_and_not_on_its_keys() -> None:
    body = {"text": "a", "idempotency_key": "k", "conversation_id": "c"}
    assert request_digest(body) == request_digest({"text": "a", "idempotency_key": "other"})
    assert request_digest(body) != request_digest({"text": "b"})


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"target": "nobody"}, ErrorCode.HARNESS_TARGET_UNKNOWN),
        ({"live": 3}, ErrorCode.HARNESS_CAPACITY_EXCEEDED),
        ({"timeout_ms": 0}, ErrorCode.INVALID_REQUEST),
        ({"timeout_ms": 10**12}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_run_that_cannot_be_accepted_is_refused_with_its_code(
    changes: dict[str, object], code: ErrorCode
) -> None:
    facts: dict[str, object] = {
        "target": "demo",
        "targets": ["demo"],
        "live": 2,
        "slots": 3,
        "timeout_ms": None,
    }
    with pytest.raises(LoopError) as caught:
        decide_submit(**{**facts, **changes})  # pyright: ignore[reportArgumentType]
    assert caught.value.code is code
