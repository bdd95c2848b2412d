"""The jobs of Runs: submit, take, write, wait, wake, end (spec/protocol.md §6).

Each function is a transaction, or a part of one: load, decide, write. What a lease may write is checked
here, inside the very transaction that writes. The async calls are in commit_runs.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from lineloop.harness.journal import (
    ATTEMPT,
    REFERENCE,
    SUBMITTED,
    TOOL_DISPATCHED,
)
from lineloop.harness.port import (
    Entry,
    Invoke,
    Lease,
    PersonQuestion,
    RunChange,
    Written,
)
from lineloop.kit import json
from lineloop.kit.clock import rfc3339
from lineloop.kit.database import Tx
from lineloop.kit.records import record
from lineloop.protocol.actors import RUNTIME, Actor
from lineloop.protocol.content import envelope_of
from lineloop.protocol.envelopes import FromAgent, inventory_request, tool_invoke
from lineloop.protocol.errors import InvalidRequest
from lineloop.protocol.machines import RUN, RunEvent, RunPhase
from lineloop.protocol.messages import MessageStatus, Purpose
from lineloop.protocol.patches import empty_content
from lineloop.protocol.questions import QuestionKind, QuestionTerms
from lineloop.protocol.tools import ToolKey
from lineloop.server.commit.asking import OpenQuestion, open_question_in
from lineloop.server.commit.context import CommitContext
from lineloop.server.commit.locking import SLOTS, lock_conversation, lock_conversations, lock_run
from lineloop.server.commit.participation import conversation_not_found
from lineloop.server.commit.speaking import SpeakCommand, speak_in
from lineloop.server.commit.streaming import AppendCommand, append_in
from lineloop.server.commit_run_ends import (
    RunHints,
    add_entries_in,
    end_run_in,
    envelope_head,
    speak_envelope_in,
)
from lineloop.server.decide.access import Grant
from lineloop.server.decide.questions import QuestionFacts
from lineloop.server.decide.runs import (
    UNTIL_ANSWER,
    decide_claim,
    decide_events,
    decide_fence,
    decide_repeat_submit,
    decide_submit,
    decide_suspend,
    wakes_run,
)
from lineloop.server.records import QuestionRow, StoredMessage
from lineloop.server.run_records import RunRow
from lineloop.server.store import consumers, conversations, messages, runs


@record
class SubmitRun:
    """A Run to accept. `actor` is the output's, `prompter` whose inventory and policy apply.

    `speaker` is the credential that submits, None the server itself; it names the recipient by its own right.
    """

    run_id: str
    message_id: str
    conversation_id: str
    prompter: Actor
    actor: Actor
    recipient: Actor | None
    idempotency_key: str
    effect_key: str
    target: str
    request: dict[str, Any]
    digest: str
    timeout_ms: int | None
    speaker: Grant | None


def submit_run_in(
    tx: Tx, ctx: CommitContext, hints: RunHints, command: SubmitRun, *, targets: Collection[str], slots: int
) -> tuple[RunRow, bool]:
    """Stores the Run and its output message, or answers the one under its key; True when it is new (L79,
    L80).

    Raises conversation_not_found, not_participant, key_conflict, harness_target_unknown,
    harness_capacity_exceeded.
    """
    lock_conversation(tx, ctx, command.conversation_id)
    tx.lock(SLOTS)
    existing = runs.by_key(tx, command.conversation_id, command.prompter, command.idempotency_key)
    if existing is not None:
        decide_repeat_submit(existing, command.digest)
        return existing, False
    conversation = conversations.get(tx, command.conversation_id)
    if conversation is None:
        raise conversation_not_found(command.conversation_id)
    timeout_ms = decide_submit(
        target=command.target,
        targets=targets,
        live=runs.count_live(tx),
        slots=slots,
        timeout_ms=command.timeout_ms,
    )
    output = {"run_id": command.run_id, "effect_key": command.effect_key, "target": command.target}
    meta = {**(command.request.get("meta") or {}), "output": output}
    speak_in(
        tx,
        ctx,
        SpeakCommand(
            message_id=command.message_id,
            conversation_id=command.conversation_id,
            actor=command.actor,
            key=command.run_id,
            content={**empty_content(), "meta": meta},
            target=command.recipient,
            status=MessageStatus.STREAMING,
            purpose=Purpose.RUN,
            run_id=command.run_id,
            speaker=command.speaker,
        ),
    )
    run = _accepted(ctx, command, conversation.root_id, timeout_ms)
    runs.insert(tx, run, json.dumps(command.request))
    facts = {
        "target": command.target,
        "effect_key": command.effect_key,
        "idempotency_key": command.idempotency_key,
        "prompter": str(command.prompter),
    }
    submitted = Entry(SUBMITTED, facts, "1", {"text": command.request["text"]})
    add_entries_in(tx, ctx, run, [submitted], attempt=0)
    tx.after_commit(hints.tell_runnable)
    return run, True


def _accepted(ctx: CommitContext, command: SubmitRun, root_id: str, timeout_ms: int) -> RunRow:
    """The new Run; its deadline is fixed here and never again."""
    now = ctx.clock.now_ms()
    return RunRow(
        id=command.run_id,
        conversation_id=command.conversation_id,
        root_id=root_id,
        actor=command.actor,
        idempotency_key=command.idempotency_key,
        digest=command.digest,
        effect_key=command.effect_key,
        target=command.target,
        prompter=command.prompter,
        request=command.request,
        message_id=command.message_id,
        phase=RUN.initial,
        runnable=True,
        wakes=0,
        retries=0,
        ledger_seq=0,
        submitting=None,
        cancel_requested_at=None,
        deadline_at=now + timeout_ms,
        lease_holder=None,
        lease_token=0,
        lease_until=0,
        result=None,
        error=None,
        created_at=now,
    )


def claim_runs_in(
    tx: Tx, ctx: CommitContext, holder: str, limit: int, lease_ms: int
) -> list[tuple[RunRow, Lease, RunPhase]]:
    """Take the oldest Runs that nobody holds and that may go on."""
    now = ctx.clock.now_ms()
    claimed: list[tuple[RunRow, Lease, RunPhase]] = []
    for run in _ready_in(tx, ctx, now, limit):
        phase = decide_claim(run, now)
        if phase is None:
            continue
        if not runs.take(tx, run, phase=phase, holder=holder, until=now + lease_ms, now=now):
            continue
        lease = Lease(run.id, holder, run.lease_token + 1)
        attempt = Entry(ATTEMPT, {"phase": str(phase), "holder": holder}, str(lease.token))
        add_entries_in(tx, ctx, run, [attempt], attempt=lease.token)
        claimed.append((run, lease, phase))
    return claimed


def _ready_in(tx: Tx, ctx: CommitContext, now: int, limit: int) -> list[RunRow]:
    """The oldest Runs that may go on, as they stand now that nobody else writes to them."""
    found = runs.ready(tx, now, limit)
    if not tx.shared:
        return found
    lock_conversations(tx, ctx, {run.root_id for run in found})
    return [run for one in found if (run := runs.get(tx, one.id)) is not None]


def write_run_in(tx: Tx, ctx: CommitContext, hints: RunHints, lease: Lease, change: RunChange) -> Written:
    """One commit of a Run's holder. Raises lease_lost; then nothing of it is written."""
    lock_run(tx, ctx, lease.run_id)
    run = decide_fence(runs.get(tx, lease.run_id), holder=lease.holder, token=lease.token)
    entries = _dispatch_in(tx, ctx, run, change)
    stored = add_entries_in(tx, ctx, run, entries, attempt=lease.token)
    revision = append_in(tx, ctx, AppendCommand(run.message_id, change.patches, run_id=run.id)).revision
    if change.answered:
        runs.drop_waits(tx, run.id, change.answered)
    phase = decide_events(run.phase, change.events)
    submitting = lease.token if change.submitting else run.submitting
    if any(entry.type == REFERENCE for entry in entries):
        submitting = None
    if phase is not run.phase or submitting != run.submitting:
        runs.set_progress(tx, run.id, phase=phase, submitting=submitting)
    suspended = False
    if change.finish is not None:
        end_run_in(tx, ctx, run, phase, change.finish, attempt=lease.token)
        tx.after_commit(hints.tell_runnable)
    elif change.retry_in_ms is not None:
        runs.schedule_retry(tx, run.id, ctx.clock.now_ms() + change.retry_in_ms)
    elif change.suspend_at is not None and decide_suspend(run, change.suspend_at):
        runs.suspend(tx, run.id, RUN.next(phase, RunEvent.WAIT))
        suspended = True
    return Written(revision, run.wakes, suspended, run.cancel_requested_at is not None, stored)


def _dispatch_in(tx: Tx, ctx: CommitContext, run: RunRow, change: RunChange) -> list[Entry]:
    """Send invokes and questions; the entries of this change, with the ids of the messages that they
    became.
    """
    sends: dict[str | None, Invoke | PersonQuestion] = {**dict(change.invokes), **dict(change.questions)}
    entries: list[Entry] = []
    for entry in change.entries:
        send = sends.get(entry.key) if entry.type == TOOL_DISPATCHED else None
        if send is None:
            entries.append(entry)
        elif not runs.has_entry(tx, run.id, entry.type, entry.key):
            message_id = (
                _invoke_in(tx, ctx, run, send)
                if isinstance(send, Invoke)
                else _question_in(tx, ctx, run, send)
            )
            facts = {**entry.facts, "message_id": message_id}
            entries.append(Entry(entry.type, facts, entry.key, entry.content, entry.native_id))
    return entries


def _invoke_in(tx: Tx, ctx: CommitContext, run: RunRow, invoke: Invoke) -> str:
    payload = invoke.payload
    key = ToolKey(payload["app_scope"], payload["method"], payload["contract_version"])
    envelope = tool_invoke(
        envelope_head(ctx, run),
        key,
        payload["params"],
        call_id=invoke.call_id,
        inventory_revision=invoke.inventory_revision,
    )
    message_id = speak_envelope_in(tx, ctx, run, invoke.message_key, invoke.device, envelope)
    runs.add_wait(tx, run.id, message_id, invoke.until)
    return message_id


def _question_in(tx: Tx, ctx: CommitContext, run: RunRow, question: PersonQuestion) -> str:
    """Ask the person whose conversation it is, as the prompting operator: that is who wants to know."""
    person = runs.root_owner(tx, run.root_id)
    if person is None:
        raise conversation_not_found(run.root_id)
    terms = QuestionTerms(
        kind=QuestionKind(question.kind),
        text=question.text,
        choices=question.choices,
        allow_other=question.allow_other,
    )
    answer = open_question_in(
        tx,
        ctx,
        OpenQuestion(
            message_id=ctx.ids.make("msg"),
            conversation_id=run.root_id,
            actor=run.prompter,
            to=person,
            effect_key=question.call_id,
            terms=terms,
            timeout_ms=max(1, run.deadline_at - ctx.clock.now_ms()),
            speaker=None,
        ),
    )
    runs.add_wait(tx, run.id, answer.question.id, UNTIL_ANSWER)
    return answer.question.id


def message_saved(hints: RunHints) -> Callable[[Tx, StoredMessage], None]:
    """The hook of speaking: a device's envelope makes the Run that waits for it runnable, in its
    transaction.
    """

    def saved(tx: Tx, message: StoredMessage) -> None:
        if (
            message.reply_to_id is None
            or message.actor_kind != RUNTIME
            or not message.purpose.carries_envelope
        ):
            return
        waiting = runs.waits_on(tx, message.reply_to_id)
        if not waiting:
            return
        invoke = messages.head(tx, message.reply_to_id)
        if invoke is None or invoke.target != message.actor:
            return
        envelope = envelope_of(message.content) or {}
        for run_id, until in waiting:
            if wakes_run(until, envelope) and runs.wake(tx, run_id):
                tx.after_commit(hints.tell_runnable)

    return saved


def question_closed(hints: RunHints) -> Callable[[Tx, QuestionRow, QuestionFacts], None]:
    """The hook of questions: whatever the outcome, the Run that asked goes on, in this transaction."""

    def closed(tx: Tx, question: QuestionRow, facts: QuestionFacts) -> None:
        for run_id, _ in runs.waits_on(tx, question.id):
            if not facts.is_open and runs.wake(tx, run_id):
                tx.after_commit(hints.tell_runnable)

    return closed


def request_inventory_in(
    tx: Tx, ctx: CommitContext, run_id: str, operator: Actor, *, root_id: str, attempt: int
) -> bool:
    """Ask every device of the conversation for what it offers this operator. False when
    there is no device.
    """
    lock_conversation(tx, ctx, root_id)
    devices = consumers.runtimes(tx, root_id)
    run = runs.get(tx, run_id)
    if run is None:
        raise InvalidRequest("no such run")
    for device in devices:
        envelope = inventory_request(
            FromAgent(ctx.ids.make("env"), rfc3339(ctx.clock.now_ms()), operator, root_id)
        )
        key = f"{run_id}/inventory/{attempt}/{device}"
        speak_envelope_in(tx, ctx, run, key, Actor(RUNTIME, device), envelope)
    return bool(devices)
