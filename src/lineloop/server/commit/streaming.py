"""The jobs of streaming: append, end, fold (spec/protocol.md §3).

An append checks the patch against the message's shape and writes one row of the log: its cost does not
grow with the message. The snapshot follows geometrically, in a job of its own. `append_in` and `end_in` are
parts of a transaction; the engine composes "result block + terminal phase" from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lineloop.kit import json
from lineloop.kit.database import Tx
from lineloop.kit.records import record
from lineloop.protocol.errors import ErrorCode, LimitExceeded, NotFound
from lineloop.protocol.messages import MessageStatus
from lineloop.protocol.patches import PatchOp, continues_text
from lineloop.server.commit.context import CommitContext, OpenStream
from lineloop.server.commit.locking import lock_message
from lineloop.server.commit.speaking import deliver_in, publish_in
from lineloop.server.commit.visibility import visible_conversation
from lineloop.server.decide.access import Grant
from lineloop.server.decide.messages import (
    StreamFacts,
    decide_append,
    decide_end,
    decide_writer,
    shape_of,
)
from lineloop.server.records import StoredMessage
from lineloop.server.store import conversations, messages, patches
from lineloop.server.wakeup.bus import MessageChanged, PatchesAppended

# A log outgrows its snapshot this many times before it is folded: most bytes of small patches are no content.
FOLD_RATIO = 3


@record
class AppendCommand:
    """Patches for an open message. `writer` None: the server itself; then controlled blocks are allowed.

    `run_id` names the run that writes; a run's message takes patches from nobody else.
    """

    message_id: str
    patches: Sequence[dict[str, Any]]
    writer: Grant | None = None
    run_id: str | None = None


@record
class EndCommand:
    """The end of an open message as the event `seq`; None: as whatever comes next (the server's own ends).

    The server alone gives `meta` with it, and another time than now (`at`, UTC ms).
    """

    message_id: str
    seq: int | None
    status: MessageStatus = MessageStatus.COMPLETED
    writer: Grant | None = None
    run_id: str | None = None
    meta: Mapping[str, Any] | None = None
    at: int | None = None


@record
class Progress:
    """Where a message stands; `revision` is the seq of its last event."""

    revision: int
    status: MessageStatus

    def to_wire(self) -> dict[str, Any]:
        return {"revision": self.revision, "status": self.status.value}


def message_not_found(message_id: str) -> NotFound:
    return NotFound("no such message", code=ErrorCode.MESSAGE_NOT_FOUND, detail={"message_id": message_id})


def append_in(tx: Tx, ctx: CommitContext, command: AppendCommand) -> Progress:
    """Logs the patches that are new, all or none. Repeating a patch is harmless (L20, L21).

    Takes no lock: of two that write the same seq the log's key lets one through, and the other looks again.
    Raises message_not_found, message_owned_by_run, Forbidden, sequence_conflict, message_ended,
    patch_invalid, block_protected, LimitExceeded (`message_bytes`).
    """
    head = _head(tx, command.message_id)
    if tx.shared:
        ctx.roots.keep(command.message_id, head.root_id)
    facts = StreamFacts(head.actor, head.status, head.revision, head.run_id)
    _require_seen(tx, command, head)
    decide_writer(facts, command.writer, command.run_id)
    seqs = [patch["seq"] for patch in command.patches if type(patch.get("seq")) is int]
    known = [seq for seq in seqs if seq <= head.revision]
    stored = {seq: json.loads(text) for seq, text in patches.some(tx, command.message_id, known).items()}
    stream = _stream(tx, ctx, command.message_id, head)
    appended = decide_append(
        facts, stream.shape, command.patches, stored=stored, by_engine=command.writer is None
    )
    if not appended.patches:
        return Progress(head.revision, head.status)
    now = ctx.clock.now_ms()
    size = 0
    texts: list[str] = []
    for patch in appended.patches:
        text = _patch_text(patch)
        size += len(text) if text.isascii() else len(text.encode())
        patches.append(tx, command.message_id, patch["seq"], text, now)
        texts.append(text)
    hint = PatchesAppended(command.message_id, head.root_id, appended.patches[0]["seq"], texts)
    tx.after_commit(lambda: ctx.bus.publish(hint))
    _grow(tx, ctx, command.message_id, stream, appended.state, appended.revision, size)
    return Progress(appended.revision, head.status)


def _patch_text(patch: dict[str, Any]) -> str:
    """The patch as JSON text; the words of an answer are written without the whole encoder."""
    if not continues_text(patch):
        return json.dumps(patch)
    block = patch["block"]
    return (
        f'{{"op":"append","seq":{patch["seq"]},"mask":"block.content",'
        f'"block":{{"id":{json.quoted(block["id"])},"content":{json.quoted(block["content"])}}}}}'
    )


def _require_seen(tx: Tx, command: AppendCommand | EndCommand, head: messages.MessageHead) -> None:
    """For who does not see the conversation there is no message either. Its own speaker does see it."""
    writer = command.writer
    if writer is None or writer.allows(head.actor):
        return
    if visible_conversation(tx, head.conversation_id, writer) is None:
        raise message_not_found(command.message_id)


def _head(tx: Tx, message_id: str) -> messages.MessageHead:
    head = messages.head(tx, message_id)
    if head is None:
        raise message_not_found(message_id)
    return head


def _stream(tx: Tx, ctx: CommitContext, message_id: str, head: messages.MessageHead) -> OpenStream:
    """The reducer state at the log's end: remembered, or rebuilt from snapshot and log after a restart."""
    stream = ctx.streams.get(message_id, head.revision)
    if stream is not None:
        return stream
    message = messages.get(tx, message_id)
    assert message is not None
    stream = OpenStream(
        head.revision,
        shape_of(json.loads(message.content_json)),
        snapshot_bytes=len(message.content_json.encode()),
        log_bytes=patches.weight_after(tx, message_id, head.snapshot_revision),
    )
    if not head.status.ended:
        ctx.streams.put(message_id, stream)
    return stream


def _grow(
    tx: Tx,
    ctx: CommitContext,
    message_id: str,
    stream: OpenStream,
    shape: Mapping[str, Any],
    revision: int,
    size: int,
) -> None:
    """Remembers the state after an append. Until the commit stands it is a guess, which `get` finds out."""
    log_bytes = stream.log_bytes + size
    spared = stream.spared_bytes
    if stream.snapshot_bytes + log_bytes - spared > ctx.limits.message_bytes:
        # The sum is an upper bound; only now it is worth knowing exactly.
        message = messages.get(tx, message_id)
        assert message is not None
        exact = len(message.content_json.encode())
        spared = stream.snapshot_bytes + log_bytes - exact
        if exact > ctx.limits.message_bytes:
            raise LimitExceeded(
                "the message is too large",
                detail={"limit": "message_bytes", "value": ctx.limits.message_bytes},
            )
    due = log_bytes > FOLD_RATIO * max(stream.snapshot_bytes, ctx.limits.fold_floor_bytes)
    fold = due and not stream.folding
    ctx.streams.put(
        message_id,
        OpenStream(revision, shape, stream.snapshot_bytes, log_bytes, spared, folding=stream.folding or fold),
    )
    if tx.shared:
        # Another server may go on from here with another patch under the same number.
        tx.if_undone(lambda: ctx.streams.drop(message_id))
    if fold:
        tx.after_commit(lambda: ctx.fold_due(message_id))


def end_in(tx: Tx, ctx: CommitContext, command: EndCommand) -> Progress:
    """Ends the message and makes it deliverable: it takes its offset now. Repeating it is harmless (L30).

    Raises message_not_found, message_owned_by_run, Forbidden, sequence_conflict, end_conflict.
    """
    lock_message(tx, ctx, command.message_id)
    head = _head(tx, command.message_id)
    facts = StreamFacts(head.actor, head.status, head.revision, head.run_id)
    _require_seen(tx, command, head)
    decide_writer(facts, command.writer, command.run_id)
    seq = command.seq if command.seq is not None else head.revision + 1
    if not decide_end(facts, seq, command.status):
        return Progress(head.revision, head.status)
    wakes = not head.purpose.carries_envelope
    conversation = conversations.take_offset(tx, head.conversation_id, notify=wakes)
    change = (
        conversation.change if conversation.is_root else conversations.take_change(tx, conversation.root_id)
    )
    now = command.at if command.at is not None else ctx.clock.now_ms()
    patch: dict[str, Any] = {"op": PatchOp.END.value, "seq": seq}
    if command.meta:
        patch["meta"] = dict(command.meta)
    patches.append(tx, command.message_id, seq, json.dumps(patch), now)
    stream = _stream(tx, ctx, command.message_id, head)
    ctx.streams.drop(command.message_id)
    messages.set_ended(
        tx,
        command.message_id,
        status=command.status,
        revision=seq,
        offset=conversation.last_offset,
        change=change,
        now=now,
    )
    recipients = deliver_in(
        tx,
        head.conversation_id,
        conversation.last_offset,
        target=head.target,
        speaker=head.actor,
        wakes=wakes,
    )
    message: StoredMessage | None = None
    if stream.snapshot_bytes + stream.log_bytes <= ctx.limits.fold_in_job_bytes:
        message = messages.get(tx, command.message_id)
        assert message is not None
        messages.set_snapshot(tx, command.message_id, content=message.content_json, revision=seq)
    else:
        # A large message ends without being read: folding follows, and who wants it reads it.
        tx.after_commit(lambda: ctx.fold_due(command.message_id))
    publish_in(
        tx,
        ctx,
        head.conversation_id,
        lambda: MessageChanged(
            command.message_id,
            head.conversation_id,
            head.root_id,
            change,
            conversation.last_offset,
            message,
            recipients(),
        ),
        wakes=wakes,
    )
    return Progress(seq, command.status)


def fold_in(tx: Tx, ctx: CommitContext, folded: StoredMessage) -> None:
    """Stores a snapshot folded outside of the writer. An older one than the stored changes nothing."""
    messages.set_snapshot(tx, folded.id, content=folded.content_json, revision=folded.revision)
    head = messages.head(tx, folded.id)
    stream = ctx.streams.get(folded.id, head.revision) if head else None
    if stream is not None:
        stream.snapshot_bytes = len(folded.content_json.encode())
        stream.log_bytes = patches.weight_after(tx, folded.id, folded.revision)
        stream.spared_bytes = 0
        stream.folding = False
