"""Rules of Runs: submit, drive, wait, end (spec/protocol.md §6). Pure.

Decides what a command makes of a stored Run and raises the coded error when it may not be. Leaves ids,
counters and rows to `commit_runs`, and what an adapter does to the harness.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from lineloop.harness.model_targets import harness_of, targets_of
from lineloop.kit import json
from lineloop.kit.records import record
from lineloop.protocol.errors import CapacityExceeded, Conflict, ErrorCode, InvalidRequest, LoopError
from lineloop.protocol.machines import RUN, MessageStatus, RunEvent, RunPhase
from lineloop.protocol.runs import message_status_of
from lineloop.server.run_records import RunRow

MAX_TIMEOUT_MS = 7 * 24 * 3600 * 1000
DEFAULT_TIMEOUT_MS = 30 * 60 * 1000
MAX_RETRIES = 3

UNTIL_RESULT = "result"
UNTIL_STARTED = "started_or_result"
UNTIL_ANSWER = "answer"
UNTIL_INVENTORY = "inventory"

_FINAL_TYPES = frozenset({"lineup.tool.result", "lineup.tool.error"})
# Receipts that a waiting Run may have words for. The rest is told by the next one that counts.
_SPOKEN_STAGES = frozenset({"starting"})


def request_digest(body: Mapping[str, Any]) -> str:
    """What makes two submissions the same request: everything but the keys that identify them."""
    facts = {
        name: value for name, value in body.items() if name not in ("idempotency_key", "conversation_id")
    }
    return hashlib.sha256(json.canonical(facts)).hexdigest()


def decide_repeat_submit(existing: RunRow, digest: str) -> None:
    """A known key answers with its Run when the request is the same (L80, L88). Raises key_conflict."""
    if existing.digest != digest:
        raise Conflict(
            "this key was used for another request",
            code=ErrorCode.KEY_CONFLICT,
            detail={"run_id": existing.id},
            pointer="/idempotency_key",
        )


def decide_submit(
    *, target: str, targets: Collection[str], live: int, slots: int, timeout_ms: int | None
) -> int:
    """The time-out of a new Run in milliseconds. `targets` are names as `harness_of` gives them.

    Raises harness_target_unknown, harness_capacity_exceeded.
    """
    if harness_of(target) not in targets:
        raise InvalidRequest(
            f"this server has no harness {target!r}",
            code=ErrorCode.HARNESS_TARGET_UNKNOWN,
            detail={"targets": targets_of(targets)},
            pointer="/target",
        )
    timeout = DEFAULT_TIMEOUT_MS if timeout_ms is None else timeout_ms
    if not 1 <= timeout <= MAX_TIMEOUT_MS:
        raise InvalidRequest(f"timeout_ms is 1 to {MAX_TIMEOUT_MS}", pointer="/timeout_ms")
    if live >= slots:
        raise CapacityExceeded(f"all {slots} run slots are taken", detail={"slots": slots})
    return timeout


def decide_fence(run: RunRow | None, *, holder: str, token: int) -> RunRow:
    """The Run, if this lease still writes it. Raises lease_lost: someone took over, or it has ended."""
    if run is None or run.lease_holder != holder or run.lease_token != token or RUN.is_terminal(run.phase):
        raise LoopError("the lease on this run is gone", code=ErrorCode.LEASE_LOST)
    return run


def decide_claim(run: RunRow, now: int) -> RunPhase | None:
    """The phase of a Run when it is taken up, or None when it may not be taken: held, waiting, ended or
    due.
    """
    if RUN.is_terminal(run.phase) or run.is_held(now) or not run.runnable:
        return None
    if run.cancel_requested_at is not None or run.deadline_at <= now:
        return None
    if run.phase is RunPhase.PENDING:
        return RUN.next(run.phase, RunEvent.START)
    if run.phase is RunPhase.WAITING_INPUT:
        return RUN.next(run.phase, RunEvent.RESUME)
    return run.phase


def decide_events(phase: RunPhase, events: Iterable[RunEvent]) -> RunPhase:
    """The phase after events, each legal. Raises IllegalTransition."""
    for event in events:
        phase = RUN.next(phase, event)
    return phase


def decide_suspend(run: RunRow, wakes_seen: int) -> bool:
    """Whether a Run may give its lease back and wait: not when an answer came after it last looked."""
    return run.wakes == wakes_seen and run.cancel_requested_at is None


def decide_end_without_holder(run: RunRow, now: int) -> RunEvent | None:
    """How maintenance ends a Run that nobody holds: cancelled or timed out, else not at all (L82, L92)."""
    if RUN.is_terminal(run.phase) or run.is_held(now):
        return None
    if run.cancel_requested_at is not None:
        return RunEvent.CANCEL
    return RunEvent.TIME_OUT if run.deadline_at <= now else None


_END_ERRORS: dict[RunEvent, tuple[ErrorCode, str]] = {
    RunEvent.CANCEL: (ErrorCode.RUN_CANCELLED, "The run was cancelled."),
    RunEvent.TIME_OUT: (ErrorCode.RUN_TIMED_OUT, "The run's time ran out."),
    RunEvent.LOSE: (ErrorCode.RUN_OUTCOME_UNKNOWN, "The run's outcome cannot be known; it was not repeated."),
    RunEvent.FAIL: (ErrorCode.RUN_FAILED, "The run failed."),
}


@record
class RunEnded:
    """Facts of an end: the phase, the output's status, the error that both carry (None after success)."""

    phase: RunPhase
    status: MessageStatus
    error: dict[str, Any] | None


def decide_finish(phase: RunPhase, event: RunEvent, error: Mapping[str, Any] | None) -> RunEnded:
    """The end of a Run. A success from `starting` passes through `running`. Raises IllegalTransition."""
    if event is RunEvent.SUCCEED and phase is RunPhase.STARTING:
        phase = RUN.next(phase, RunEvent.RUN)
    after = RUN.next(phase, event)
    if event is RunEvent.SUCCEED:
        return RunEnded(after, message_status_of(after), None)
    code, message = _END_ERRORS[event]
    return RunEnded(after, message_status_of(after), dict(error or {"code": str(code), "message": message}))


def wakes_run(until: str, envelope: Mapping[str, Any]) -> bool:
    """Whether a saved envelope makes a Run that waits `until` runnable."""
    kind = envelope.get("type")
    if until == UNTIL_INVENTORY or kind in _FINAL_TYPES:
        return True
    payload = envelope.get("payload")
    stage = payload.get("stage") if isinstance(payload, dict) else None
    return stage in _SPOKEN_STAGES or (until == UNTIL_STARTED and stage == "started")
