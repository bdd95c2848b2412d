"""The jobs that end a Run, and what all jobs of Runs share (spec/protocol.md §6.2).

An end is whole: open calls are settled, open questions closed, the result or the error is written, the
message ends and the phase is final, in one commit. Who may still write is decided by the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lineloop.harness.adapters.port import ToolCall, ToolOutcome, ToolResult
from lineloop.harness.journal import (
    CANCEL_REQUESTED,
    ENDED,
    TOOL_DISPATCHED,
    TOOL_RESULT,
)
from lineloop.harness.port import (
    Entry,
    Finish,
    StoredEntry,
)
from lineloop.harness.tools import read_result, tool_block
from lineloop.kit.clock import rfc3339
from lineloop.kit.database import Tx
from lineloop.protocol.actors import HARNESS, Actor
from lineloop.protocol.content import envelope_content, envelope_of, result_block
from lineloop.protocol.envelopes import FromAgent, tool_cancel
from lineloop.protocol.errors import ErrorCode, NotFound
from lineloop.protocol.machines import RUN, RunEvent, RunPhase
from lineloop.server.commit.asking import fail_question_in
from lineloop.server.commit.context import CommitContext
from lineloop.server.commit.locking import lock_conversations, lock_run
from lineloop.server.commit.speaking import SpeakCommand, speak_in
from lineloop.server.commit.streaming import AppendCommand, EndCommand, append_in, end_in
from lineloop.server.decide.runs import (
    UNTIL_ANSWER,
    decide_end_without_holder,
    decide_finish,
)
from lineloop.server.run_records import RunRow
from lineloop.server.store import messages, runs

_STARTED_OR_ENDED = frozenset({ToolOutcome.STARTED, ToolOutcome.RESULT, ToolOutcome.ERROR})


@dataclass(slots=True)
class RunHints:
    """Who is told, after the commit, that there is something to drive or to stop."""

    runnable: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])
    cancelled: list[Callable[[str], None]] = field(default_factory=list[Callable[[str], None]])

    def tell_runnable(self) -> None:
        for callback in self.runnable:
            callback()

    def tell_cancelled(self, run_id: str) -> None:
        for callback in self.cancelled:
            callback(run_id)


def run_not_found(run_id: str) -> NotFound:
    return NotFound("no such run", code=ErrorCode.RUN_NOT_FOUND, detail={"run_id": run_id})


def engine_actor(run_id: str) -> Actor:
    """As whom a Run speaks to devices."""
    return Actor(HARNESS, f"run-{run_id}")


def add_entries_in(
    tx: Tx, ctx: CommitContext, run: RunRow, entries: Sequence[Entry], *, attempt: int
) -> list[StoredEntry]:
    """Append to the ledger what is new; returns that."""
    seq = runs.ledger_seq(tx, run.id)
    stored: list[StoredEntry] = []
    now = ctx.clock.now_ms()
    for entry in entries:
        added = runs.add_entry(tx, run.id, entry, seq=seq + 1, attempt=attempt, at=now)
        if added is not None:
            seq += 1
            stored.append(added)
    if stored:
        runs.set_ledger_seq(tx, run.id, seq)
    return stored


def envelope_head(ctx: CommitContext, run: RunRow) -> FromAgent:
    return FromAgent(ctx.ids.make("env"), rfc3339(ctx.clock.now_ms()), run.prompter, run.root_id)


def speak_envelope_in(
    tx: Tx, ctx: CommitContext, run: RunRow, key: str, device: Actor, envelope: dict[str, Any]
) -> str:
    spoken = speak_in(
        tx,
        ctx,
        SpeakCommand(
            message_id=ctx.ids.make("msg"),
            conversation_id=run.root_id,
            actor=engine_actor(run.id),
            key=key,
            content=envelope_content(envelope),
            target=device,
            on_behalf_of=run.prompter,
            speaker=None,
        ),
    )
    return spoken.message.id


def end_run_in(
    tx: Tx, ctx: CommitContext, run: RunRow, phase: RunPhase, finish: Finish, *, attempt: int
) -> None:
    """The end, whole: open calls settled, questions closed, result block or error, message ended, phase final
    — one commit (L98).
    """
    ended = decide_finish(phase, finish.event, finish.error)
    entries, patches = _settle_calls_in(tx, ctx, run)
    if finish.result is not None:
        block = result_block(finish.result["format"], finish.result["content"])
        patches.append({"op": "set", "block": block})
    if ended.error is not None:
        public = {"code": ended.error["code"], "message": ended.error["message"]}
        patches.append({"op": "error", "meta": {"error": public}})
    head = messages.head(tx, run.message_id)
    assert head is not None
    numbered = [{**patch, "seq": head.revision + place} for place, patch in enumerate(patches, 1)]
    append_in(tx, ctx, AppendCommand(run.message_id, numbered, run_id=run.id))
    end_in(tx, ctx, EndCommand(run.message_id, None, ended.status, run_id=run.id))
    facts = {"phase": str(ended.phase), **finish.facts}
    add_entries_in(tx, ctx, run, [*entries, Entry(ENDED, facts, "1", ended.error)], attempt=attempt)
    runs.set_ended(
        tx, run.id, phase=ended.phase, result=finish.result, error=ended.error, now=ctx.clock.now_ms()
    )
    asked = runs.waits_until(tx, run.id, UNTIL_ANSWER)
    runs.drop_waits(tx, run.id)  # first: what is closed now wakes nobody
    for question_id in asked:
        fail_question_in(tx, ctx, question_id, f"run_{ended.phase}")


def _settle_calls_in(tx: Tx, ctx: CommitContext, run: RunRow) -> tuple[list[Entry], list[dict[str, Any]]]:
    """Every call that has no result gets one, so that a later turn reads a whole story.

    What came back but was not taken in counts as it is. A call that has not started is taken back on the
    device; a started operation goes on.
    """
    entries: list[Entry] = []
    patches: list[dict[str, Any]] = []
    recorded = runs.entries(tx, run.id)
    answered = {entry.key for entry in recorded if entry.type == TOOL_RESULT}
    for entry in recorded:
        key = str(entry.key)
        if entry.type != TOOL_DISPATCHED or "/" in key or key in answered:
            continue
        call = ToolCall(key, str(entry.facts["name"]), (entry.content or {}).get("arguments", {}))
        latest = max(
            (e for e in recorded if e.type == TOOL_DISPATCHED and str(e.key).partition("/")[0] == key),
            key=lambda e: e.seq,
        )
        result = _come_back_in(tx, call, latest)
        if result is None:
            result = ToolResult(key, ToolOutcome.CANCELLED, {"code": "cancelled", "message": "the run ended"})
            if latest.facts["kind"] == "invoke":
                _cancel_call_in(tx, ctx, run, latest)
        entries.append(
            Entry(TOOL_RESULT, {"outcome": str(result.outcome), "at_end": True}, key, result.to_json())
        )
        block = tool_block(None, call, str(result.outcome), result.content)
        patches.append({"op": "set", "block": {**block, "title": entry.facts.get("title", call.name)}})
    return entries, patches


def _come_back_in(tx: Tx, call: ToolCall, dispatched: StoredEntry) -> ToolResult | None:
    if dispatched.facts["kind"] != "invoke":
        return None
    envelopes = envelopes_of(runs.replies(tx, dispatched.facts["message_id"]))
    result = read_result(call, dispatched.facts["until"], envelopes)
    return result if result is not None and result.outcome in _STARTED_OR_ENDED else None


def _cancel_call_in(tx: Tx, ctx: CommitContext, run: RunRow, dispatched: StoredEntry) -> None:
    invoke = messages.head(tx, dispatched.facts["message_id"])
    if invoke is None or invoke.target is None:
        return
    call_id = dispatched.facts["call_id"]
    envelope = tool_cancel(envelope_head(ctx, run), app_scope=dispatched.facts["app_scope"], call_id=call_id)
    speak_envelope_in(tx, ctx, run, f"{call_id}/cancel", invoke.target, envelope)


def envelopes_of(contents: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [envelope for content in contents if (envelope := envelope_of(content)) is not None]


def cancel_run_in(tx: Tx, ctx: CommitContext, hints: RunHints, run_id: str) -> RunRow:
    """Note the wish; end the Run at once when nobody drives it, else tell the one who does (L82).

    A Run that has ended stays as it is. Raises run_not_found.
    """
    lock_run(tx, ctx, run_id)
    run = runs.get(tx, run_id)
    if run is None:
        raise run_not_found(run_id)
    now = ctx.clock.now_ms()
    if RUN.is_terminal(run.phase) or not runs.request_cancel(tx, run_id, now):
        return run
    add_entries_in(tx, ctx, run, [Entry(CANCEL_REQUESTED, {}, "1")], attempt=run.lease_token)
    if run.is_held(now):
        tx.after_commit(lambda: hints.tell_cancelled(run_id))
    else:
        end_run_in(tx, ctx, run, run.phase, Finish(RunEvent.CANCEL), attempt=run.lease_token)
    after = runs.get(tx, run_id)
    assert after is not None
    return after


def end_due_runs_in(tx: Tx, ctx: CommitContext, limit: int) -> int:
    """End what is cancelled or overdue and held by nobody; how many (L92)."""
    now = ctx.clock.now_ms()
    count = 0
    due = runs.due(tx, now, limit)
    lock_conversations(tx, ctx, {run.root_id for run in due})
    for run_id in dict.fromkeys(run.id for run in due):
        run = runs.get(tx, run_id)
        event = decide_end_without_holder(run, now) if run is not None else None
        if run is not None and event is not None:
            end_run_in(tx, ctx, run, run.phase, Finish(event), attempt=run.lease_token)
            count += 1
    return count
