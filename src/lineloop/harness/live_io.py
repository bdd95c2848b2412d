"""The door of one Run's adapter: words, journal entries and tool calls on the way to storage
(spec/protocol.md §6.3).

Decides what goes into one commit, what a replay skips, and when a Run gives back its slot to wait. Whether
a write is still allowed is decided by the storage (the lease), when a Run is stopped by the runner.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lineloop.harness.adapters.port import (
    Json,
    Narrate,
    Replay,
    RunFailed,
    ToolCall,
    ToolResult,
    ToolSpec,
)
from lineloop.harness.journal import (
    REFERENCE,
    SUBMITTING,
    TOOL_DISPATCHED,
    TOOL_RECEIPT,
    TOOL_RESULT,
    TOOLS,
    Journal,
)
from lineloop.harness.port import (
    Claim,
    DeviceInventory,
    Entry,
    Finish,
    Invoke,
    PersonQuestion,
    RunChange,
    RunPort,
)
from lineloop.harness.tools import (
    INVENTORY,
    MAX_INVENTORY_REFRESHES,
    Toolset,
    build_invoke,
    build_question,
    build_toolset,
    read_answer,
    read_receipts,
    read_result,
    refuse_call,
    stale_revision,
    tool_block,
)
from lineloop.kit import json
from lineloop.kit.clock import Clock
from lineloop.protocol.errors import ErrorCode, LoopError
from lineloop.protocol.machines import RunEvent, RunPhase

INVENTORY_WAIT_SECONDS = 3.0
_POLL_SECONDS = 0.05
_INLINE_WAIT_SECONDS = 0.2

STEP = "harness.step"
TOOL_DISPATCH = "harness.tool_dispatch"
TOOL_ANSWER = "harness.tool_result"
FINISH = "harness.finish"


class Suspended(BaseException):
    """Leaves the adapter while the Run waits: its lease and slot are given back, an answer brings it back."""


class Stopped(BaseException):
    """Leaves the adapter after a stop: nothing more is written for it."""


@dataclass(slots=True)
class _Outgoing:
    entries: list[Entry] = field(default_factory=list[Entry])
    invokes: list[tuple[str, Invoke]] = field(default_factory=list[tuple[str, Invoke]])
    questions: list[tuple[str, PersonQuestion]] = field(default_factory=list[tuple[str, PersonQuestion]])
    answered: list[str] = field(default_factory=list[str])


class LiveIO:
    """A `RunIO` over a claimed Run."""

    def __init__(self, claim: Claim, replay: Replay, port: RunPort, clock: Clock) -> None:
        self.request = claim.request
        self.lease = claim.lease
        self.journal = Journal(claim.entries)
        self.cancelled = False
        self._claim = claim
        self._replay = replay
        self._port = port
        self._clock = clock
        self._revision = claim.revision
        self._wakes = claim.wakes
        self._must_enter_running = claim.phase is RunPhase.STARTING
        self._queue: list[Json] = []
        self._prefix: list[Json] = []
        self._pending: list[Entry] = []
        self._toolset: Toolset | None = None
        self._closed = False

    @property
    def remaining_seconds(self) -> float:
        return max(0.0, (self.request.deadline_ms - self._clock.now_ms()) / 1000)

    def close(self) -> None:
        """Refuse every further write of the adapter."""
        self._closed = True

    async def enter_running(self) -> None:
        """Note before the adapter is called that it is: for harnesses that cannot continue."""
        await self._commit(_Outgoing(), STEP)

    async def load_prefix(self) -> None:
        """Before an exact replay: what was applied, to be compared and skipped."""
        if self._replay is Replay.EXACT and self._claim.revision:
            self._prefix = [_bare(patch) for patch in await self._port.output_patches(self._claim.message_id)]

    async def emit(self, patch: Json) -> None:
        """Raises RunFailed when an exact replay says something else than before (L85)."""
        if self._prefix:
            expected = self._prefix.pop(0)
            if expected != _bare(patch):
                raise RunFailed("run_failed", "the replay differs from what was already said")
            return
        self._queue.append(_bare(patch))

    async def flush(self) -> None:
        if self._queue or self._pending:
            await self._commit(_Outgoing(), STEP)

    def recorded(self, entry_type: str, key: str) -> Json | None:
        return self.journal.content(entry_type, key)

    async def record(self, entry_type: str, key: str, facts: Json, content: Any = None) -> None:
        if self.journal.find(entry_type, key) is None:
            self._pending.append(Entry(entry_type, facts, key, content))

    async def reference(self, native_id: str, facts: Json) -> None:
        if any(known.native_id == native_id for known in self.journal.references):
            return
        await self._commit(_Outgoing([Entry(REFERENCE, facts, native_id=native_id)]), STEP)

    async def submitting(self) -> None:
        entry = Entry(SUBMITTING, {}, key=str(self.lease.token))
        await self._commit(_Outgoing([entry]), STEP, submitting=True)

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)

    async def tools(self) -> Sequence[ToolSpec]:
        return (await self._tools()).specs

    async def finish(self, finish: Finish) -> None:
        """The end, in one commit with everything still queued. Works after `close`: the runner ends, not
        the adapter.
        """
        self._closed = False
        await self._commit(_Outgoing(), FINISH, finish=finish)

    async def call(self, calls: Sequence[ToolCall], narrate: Narrate) -> list[ToolResult]:
        toolset = await self._tools()
        done: dict[str, ToolResult] = {}
        for call in calls:
            recorded = self.journal.content(TOOL_RESULT, call.key)
            if recorded is not None:
                done[call.key] = ToolResult.from_json(recorded)
        await self._replay_blocks(toolset, calls)
        fresh = [c for c in calls if c.key not in done and self.journal.find(TOOL_DISPATCHED, c.key) is None]
        if fresh:
            await self._dispatch(toolset, fresh, done, waits=len(done) + len(fresh) == len(calls))
        while len(done) < len(calls):
            await self._collect(toolset, [call for call in calls if call.key not in done], done, narrate)
        return [done[call.key] for call in calls]

    async def _tools(self) -> Toolset:
        if self._toolset is None:
            recorded = self.recorded(TOOLS, "1")
            if recorded is None:
                found = None
                if INVENTORY in self.request.tools:
                    found = await self._find_inventory(None)
                toolset = build_toolset(self.request.tools, found)
                await self.record(TOOLS, "1", {"count": len(toolset.specs)}, toolset.to_json())
                self._toolset = toolset
            else:
                self._toolset = Toolset.from_json(recorded)
        return self._toolset

    async def _find_inventory(self, not_revision: str | None) -> DeviceInventory | None:
        """The newest inventory, another one than `not_revision`; asks the device and waits a little when
        needed.
        """
        root_id, operator = self._claim.root_id, self.request.prompter
        found = await self._port.inventory(root_id, operator)
        if found is not None and found.revision != not_revision:
            return found
        asked = await self._port.request_inventory(root_id, operator, self.request.run_id, self.lease.token)
        if not asked:
            return None
        give_up_at = self._clock.monotonic() + min(INVENTORY_WAIT_SECONDS, self.remaining_seconds)
        while self._clock.monotonic() < give_up_at:
            await self._clock.sleep(_POLL_SECONDS)
            found = await self._port.inventory(root_id, operator)
            if found is not None and found.revision != not_revision:
                return found
        return None

    async def _dispatch(
        self, toolset: Toolset, calls: Sequence[ToolCall], done: dict[str, ToolResult], *, waits: bool
    ) -> None:
        """Send what can be sent, in one commit; with nothing to answer here, the same commit starts the
        wait.
        """
        out = _Outgoing()
        for call in calls:
            spec = toolset.named(call.name)
            refused = refuse_call(toolset, call)
            if refused is not None:
                done[call.key] = refused
                out.entries.append(_result_entry(refused))
                await self.emit(_set(tool_block(spec, call, "error", refused.content)))
                continue
            assert spec is not None
            facts: Json = {
                "call_id": f"{self.request.run_id}/{call.key}",
                "name": call.name,
                "title": spec.title,
            }
            if spec.is_human:
                out.questions.append((call.key, build_question(call, self.request.run_id)))
                facts["kind"] = "question"
            else:
                invoke = build_invoke(toolset, call, self.request.run_id)
                out.invokes.append((call.key, invoke))
                facts |= {
                    "kind": "invoke",
                    "app_scope": spec.app_scope,
                    "app_title": spec.app_title,
                    "method": spec.method,
                    "until": invoke.until,
                }
            out.entries.append(Entry(TOOL_DISPATCHED, facts, call.key, {"arguments": call.arguments}))
            await self.emit(_set(tool_block(spec, call, "dispatched")))
        await self._commit(out, TOOL_DISPATCH, suspends=waits and not any(call.key in done for call in calls))

    async def _collect(
        self, toolset: Toolset, calls: Sequence[ToolCall], done: dict[str, ToolResult], narrate: Narrate
    ) -> None:
        """Take in what came back, say what there is to say about the rest, and wait unless all is done."""
        dispatched = {call.key: self.journal.latest(TOOL_DISPATCHED, call.key) for call in calls}
        sent = {key: entry.facts for key, entry in dispatched.items() if entry is not None}
        answers = await self._port.answers(
            self.request.run_id,
            [facts["message_id"] for facts in sent.values() if facts["kind"] == "invoke"],
            [facts["message_id"] for facts in sent.values() if facts["kind"] == "question"],
        )
        self._wakes = answers.wakes
        out = _Outgoing()
        for call in calls:
            facts = sent[call.key]
            message_id: str = facts["message_id"]
            if facts["kind"] == "question":
                result = read_answer(call, answers.questions.get(message_id, {"state": "pending"}))
            else:
                envelopes = answers.envelopes.get(message_id, [])
                result = read_result(call, facts["until"], envelopes)
                if result is not None and stale_revision(result):
                    result = await self._refresh(toolset, call, facts, result, out)
                if result is None:
                    await self._narrate(call, read_receipts(envelopes), narrate, out)
            if result is not None:
                done[call.key] = result
                out.answered.append(message_id)
                out.entries.append(_result_entry(result))
                spec = toolset.named(call.name)
                await self.emit(_set(tool_block(spec, call, str(result.outcome), result.content)))
        await self._commit(out, TOOL_ANSWER, suspends=any(call.key not in done for call in calls))

    async def _refresh(
        self, toolset: Toolset, call: ToolCall, facts: Json, refused: ToolResult, out: _Outgoing
    ) -> ToolResult | None:
        """Send a call anew under the device's current inventory: the refusal left its call id free."""
        refresh = int(facts.get("refresh", 0)) + 1
        used = str(facts.get("revision", toolset.revision))
        found = await self._find_inventory(used) if refresh <= MAX_INVENTORY_REFRESHES else None
        if found is None:
            return refused
        invoke = build_invoke(toolset, call, self.request.run_id, inventory=found, refresh=refresh)
        key = f"{call.key}/{refresh}"
        out.invokes.append((key, invoke))
        out.answered.append(str(facts["message_id"]))
        again = {**facts, "refresh": refresh, "revision": found.revision}
        out.entries.append(Entry(TOOL_DISPATCHED, again, key, {"arguments": call.arguments}))
        return None

    async def _narrate(
        self, call: ToolCall, receipts: Sequence[Json], narrate: Narrate, out: _Outgoing
    ) -> None:
        for receipt in receipts:
            stage = str(receipt.get("stage", ""))
            key = f"{call.key}/{stage}"
            if stage == "progress" or self.journal.find(TOOL_RECEIPT, key) is not None:
                continue
            words = narrate(call, receipt)
            out.entries.append(Entry(TOOL_RECEIPT, {"stage": stage}, key, {"words": words}))
            if words:
                await self.emit(_set(_note(call, stage, words)))

    async def _replay_blocks(self, toolset: Toolset, calls: Sequence[ToolCall]) -> None:
        """An exact replay says everything again, in the recorded order, so that what follows can be
        compared.
        """
        if self._replay is not Replay.EXACT:
            return
        by_key = {call.key: call for call in calls}
        for entry in self.journal.of_calls(list(by_key)):
            call = by_key[str(entry.key).partition("/")[0]]
            spec = toolset.named(call.name)
            if entry.type == TOOL_DISPATCHED and entry.key == call.key:
                await self.emit(_set(tool_block(spec, call, "dispatched")))
            elif entry.type == TOOL_RECEIPT and entry.content["words"]:
                await self.emit(_set(_note(call, str(entry.facts["stage"]), entry.content["words"])))
            elif entry.type == TOOL_RESULT:
                result = ToolResult.from_json(entry.content)
                await self.emit(_set(tool_block(spec, call, str(result.outcome), result.content)))

    async def _commit(
        self,
        out: _Outgoing,
        label: str,
        *,
        suspends: bool = False,
        submitting: bool = False,
        finish: Finish | None = None,
    ) -> None:
        """One transaction with everything queued. Raises Stopped after `close`, Suspended when the Run now
        waits.
        """
        if self._closed:
            raise Stopped
        can_leave = suspends and self._replay is not Replay.NONE
        if suspends and not can_leave and not (out.entries or self._queue):
            await self._clock.sleep(_INLINE_WAIT_SECONDS)
            return
        change = RunChange(
            entries=(*self._pending, *out.entries),
            patches=[{**patch, "seq": self._revision + place} for place, patch in enumerate(self._queue, 1)],
            invokes=tuple(out.invokes),
            questions=tuple(out.questions),
            answered=tuple(out.answered),
            events=(RunEvent.RUN,) if self._must_enter_running else (),
            submitting=submitting,
            suspend_at=self._wakes if can_leave else None,
            finish=finish,
        )
        written = await self._port.write(self.lease, change, label=label)
        self._must_enter_running = False
        self._queue.clear()
        self._pending.clear()
        self._revision = written.revision
        for entry in written.entries:
            self.journal.add(entry)
        if written.suspended:
            raise Suspended


def _note(call: ToolCall, stage: str, words: str) -> Json:
    return {"id": f"note-{call.key}-{stage}", "type": "text", "content": words}


def _set(block: Json) -> Json:
    return {"op": "set", "block": block}


def _bare(patch: Json) -> Json:
    """The patch as the adapter meant it: without place and time. What cannot be JSON is refused here."""
    try:
        return json.loads(
            json.dumps({name: value for name, value in patch.items() if name not in ("seq", "ts")})
        )
    except ValueError as error:
        raise LoopError(f"a patch is JSON: {error}", code=ErrorCode.PATCH_INVALID) from error


def _result_entry(result: ToolResult) -> Entry:
    facts: Json = {"outcome": str(result.outcome)}
    if "code" in result.content:
        facts["code"] = result.content["code"]
    return Entry(TOOL_RESULT, facts, result.key, result.to_json())
