"""Runs as async calls: what HTTP submits and reads, and the runner's port (spec/protocol.md §6).

Decides which job runs on the writer and which on a reader, and under which fault label. The jobs are in
commit_run_jobs.py, the rules in decide/runs.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from lineloop.harness.adapters.port import RunRequest
from lineloop.harness.port import (
    Answers,
    Claim,
    DeviceInventory,
    Held,
    Lease,
    RunChange,
    StoredEntry,
    Written,
)
from lineloop.kit.clock import rfc3339
from lineloop.kit.database import Tx
from lineloop.protocol.actors import Actor
from lineloop.protocol.content import envelope_of
from lineloop.protocol.machines import RunPhase
from lineloop.protocol.runs import Run, RunResult
from lineloop.server.commit import Commits
from lineloop.server.commit_run_ends import (
    RunHints,
    cancel_run_in,
    end_due_runs_in,
    envelopes_of,
    run_not_found,
)
from lineloop.server.commit_run_jobs import (
    SubmitRun,
    claim_runs_in,
    message_saved,
    question_closed,
    request_inventory_in,
    submit_run_in,
    write_run_in,
)
from lineloop.server.decide.questions import QuestionFacts
from lineloop.server.run_records import RunRow
from lineloop.server.store import messages, questions, runs

SUBMIT = "harness.submit"
CLAIM = "harness.claim"
CANCEL = "harness.cancel"
DUE = "harness.due"


class RunCommits:
    """The `RunPort` of this server. Making one installs its hooks in the transactions of speaking and
    answering.
    """

    def __init__(self, commits: Commits, targets: Collection[str], *, slots: int) -> None:
        self._commits = commits
        self._targets = frozenset(targets)
        self._slots = slots
        self._hints = RunHints()
        commits.ctx.hooks.message_saved.append(message_saved(self._hints))
        commits.ctx.hooks.question_closed.append(question_closed(self._hints))
        commits.ctx.hooks.participant_removed.append(self._cancel_all_in)

    # --- for the edge ---------------------------------------------------------------------------------------

    async def submit(self, command: SubmitRun) -> tuple[RunRow, bool]:
        """Raises conversation_not_found, key_conflict, harness_target_unknown, harness_capacity_exceeded."""
        ctx, targets, slots = self._commits.ctx, self._targets, self._slots
        return await self._commits.write(
            lambda tx: submit_run_in(tx, ctx, self._hints, command, targets=targets, slots=slots), SUBMIT
        )

    async def get(self, run_id: str) -> RunRow:
        """Raises run_not_found (L83)."""
        run = await self._commits.read(lambda tx: runs.get(tx, run_id))
        if run is None:
            raise run_not_found(run_id)
        return run

    async def cancel(self, run_id: str) -> RunRow:
        """Raises run_not_found."""
        return await self._commits.write(
            lambda tx: cancel_run_in(tx, self._commits.ctx, self._hints, run_id), CANCEL
        )

    def _cancel_all_in(self, tx: Tx, root_id: str, prompter: Actor) -> None:
        """Whoever is taken out of a conversation has no Run going on in it."""
        for run_id in runs.open_of(tx, root_id, prompter):
            cancel_run_in(tx, self._commits.ctx, self._hints, run_id)

    async def ledger(self, run_id: str, *, after: int, limit: int) -> list[StoredEntry]:
        """Raises run_not_found."""
        await self.get(run_id)
        return await self._commits.read(lambda tx: runs.entries(tx, run_id, after=after, limit=limit))

    # --- the runner's port ----------------------------------------------------------------------------------

    def on_runnable(self, callback: Callable[[], None]) -> None:
        self._hints.runnable.append(callback)

    def on_cancelled(self, callback: Callable[[str], None]) -> None:
        self._hints.cancelled.append(callback)

    def forget(self, runnable: Callable[[], None], cancelled: Callable[[str], None]) -> None:
        """A runner that stopped hears no more."""
        self._hints.runnable = [known for known in self._hints.runnable if known != runnable]
        self._hints.cancelled = [known for known in self._hints.cancelled if known != cancelled]

    async def has_runnable(self) -> bool:
        now = self._commits.ctx.clock.now_ms()
        return await self._commits.read(lambda tx: runs.any_ready(tx, now))

    async def claim(self, holder: str, limit: int, lease_ms: int) -> list[Claim]:
        ctx = self._commits.ctx
        taken = await self._commits.write(lambda tx: claim_runs_in(tx, ctx, holder, limit, lease_ms), CLAIM)
        if not taken:
            return []
        return await self._commits.read(lambda tx: [_claim(tx, *one) for one in taken])

    async def renew(self, leases: Sequence[Lease], lease_ms: int) -> Held:
        now = self._commits.ctx.clock.now_ms()

        def look(tx: Tx) -> Held:
            lost: set[str] = set()
            cancelled: set[str] = set()
            for lease in leases:
                kept, wants_cancel = runs.held(tx, lease)
                if kept and lease_ms:
                    kept = runs.renew(tx, lease, until=now + lease_ms, now=now)
                if not kept:
                    lost.add(lease.run_id)
                elif wants_cancel:
                    cancelled.add(lease.run_id)
            return Held(frozenset(lost), frozenset(cancelled))

        return await (self._commits.write(look) if lease_ms else self._commits.read(look))

    async def release(self, leases: Sequence[Lease]) -> None:
        def give_back(tx: Tx) -> None:
            for lease in leases:
                runs.release(tx, lease)
            tx.after_commit(self._hints.tell_runnable)

        await self._commits.write(give_back)

    async def forget_leases(self) -> int:
        """At the start of the only server of a database: whoever held a lease is dead. Returns how many.

        Should it live after all, its next write is refused: a take-over has another token. Where several
        servers share a database nobody can tell: there a lease ends by its time.
        """
        return await self._commits.write(lambda tx: 0 if tx.shared else runs.release_all(tx))

    async def write(self, lease: Lease, change: RunChange, *, label: str) -> Written:
        ctx = self._commits.ctx
        return await self._commits.write(
            lambda tx: write_run_in(tx, ctx, self._hints, lease, change),
            label,
            self._commits.lane_of(lease.run_id),
        )

    async def end_due(self, limit: int) -> int:
        ctx = self._commits.ctx
        now = ctx.clock.now_ms()
        if not await self._commits.read(lambda tx: bool(runs.due(tx, now, 1))):
            return 0
        return await self._commits.write(lambda tx: end_due_runs_in(tx, ctx, limit), DUE)

    async def answers(self, run_id: str, invokes: Sequence[str], asked: Sequence[str]) -> Answers:
        def look(tx: Tx) -> Answers:
            # First the count, then the answers: one that comes in between is found again next time.
            wakes = runs.wakes(tx, run_id)
            envelopes = {message_id: envelopes_of(runs.replies(tx, message_id)) for message_id in invokes}
            closed: dict[str, dict[str, Any]] = {}
            for question_id in asked:
                row = questions.get(tx, question_id)
                if row is not None:
                    facts = QuestionFacts.from_stored(row.facts)
                    closed[question_id] = {
                        "state": str(facts.state),
                        "value": facts.value,
                        "reason": facts.reason,
                    }
            return Answers(wakes, envelopes, closed)

        return await self._commits.read(look)

    async def output_patches(self, message_id: str) -> list[dict[str, Any]]:
        return await self._commits.read(lambda tx: runs.patches(tx, message_id))

    async def inventory(self, root_id: str, operator: Actor) -> DeviceInventory | None:
        found = await self._commits.read(lambda tx: runs.newest_inventory(tx, root_id, operator))
        if found is None:
            return None
        device, content = found
        payload = (envelope_of(content) or {}).get("payload") or {}
        return DeviceInventory(device, str(payload.get("revision", "")), payload)

    async def request_inventory(self, root_id: str, operator: Actor, run_id: str, attempt: int) -> bool:
        ctx = self._commits.ctx
        return await self._commits.write(
            lambda tx: request_inventory_in(tx, ctx, run_id, operator, root_id=root_id, attempt=attempt)
        )


def to_run(row: RunRow) -> Run:
    """The Run as the wire knows it."""
    result = row.result
    return Run(
        id=row.id,
        message_id=row.message_id,
        conversation_id=row.conversation_id,
        phase=row.phase,
        deadline_at=rfc3339(row.deadline_at),
        error=row.error,
        result=None if result is None else RunResult(result["format"], result["content"]),
    )


def _claim(tx: Tx, run: RunRow, lease: Lease, phase: RunPhase) -> Claim:
    head = messages.head(tx, run.message_id)
    request = run.request
    return Claim(
        lease=lease,
        request=RunRequest(
            run_id=run.id,
            conversation_id=run.conversation_id,
            target=run.target,
            text=request["text"],
            actor=run.actor,
            prompter=run.prompter,
            deadline_ms=run.deadline_at,
            history=request.get("history") or [],
            tools=request.get("tools") or [],
            output_schema=request.get("output_schema"),
            meta=request.get("meta") or {},
        ),
        phase=phase,
        root_id=run.root_id,
        message_id=run.message_id,
        revision=head.revision if head else 0,
        wakes=run.wakes,
        entries=runs.entries(tx, run.id),
        submitting=run.submitting,
        cancel_requested=run.cancel_requested_at is not None,
        retries=run.retries,
    )
