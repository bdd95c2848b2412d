"""The job of speaking: one message, its place, its readers (spec/protocol.md §2).

`speak_in` is a part of a transaction; others compose it with their own writes. It trusts that the content was
judged (`validate_content`) and that the caller may act as the actor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lineloop.kit import json
from lineloop.kit.database import Tx
from lineloop.kit.records import record
from lineloop.protocol.actors import Actor
from lineloop.protocol.attachments import Attachment
from lineloop.protocol.content import derive_purpose, envelope_of
from lineloop.protocol.errors import InvalidRequest
from lineloop.protocol.messages import MessageStatus, Purpose
from lineloop.server.commit.attaching import refer_in
from lineloop.server.commit.context import CommitContext, OpenStream
from lineloop.server.commit.locking import lock_conversation
from lineloop.server.commit.participation import (
    conversation_not_found,
    ensure_process_conversation_in,
    join_in,
)
from lineloop.server.commit.visibility import require_entry
from lineloop.server.decide.access import Grant
from lineloop.server.decide.messages import (
    Spoken,
    decide_repeat,
    joins_by_speaking,
    needs_process_conversation,
    shape_of,
)
from lineloop.server.records import Conversation, StoredMessage
from lineloop.server.store import consumers, conversations, messages
from lineloop.server.wakeup.bus import ConsumersChanged, MessageChanged, Recipient


@record
class QuestionPart:
    """What makes a message a question: digest of its parameters, deadline (UTC ms), facts as JSON text."""

    digest: str
    due_at: int
    facts: str


@record
class SpeakCommand:
    """One message to create, or to find again by (conversation, actor, key).

    `message_id` is used when it is new, `content_json` is the text of `content` where the caller has
    it. `speaker` is the credential that speaks, None the server itself;
    it must see the conversation, and brings in whom it names by its own right. The engine alone sets
    `run_id`, `on_behalf_of` and the purposes run, question and answer.
    """

    message_id: str
    conversation_id: str
    actor: Actor
    key: str
    content: dict[str, Any]
    speaker: Grant | None
    target: Actor | None = None
    reply_to_id: str | None = None
    status: MessageStatus = MessageStatus.COMPLETED
    purpose: Purpose | None = None
    run_id: str | None = None
    on_behalf_of: Actor | None = None
    question: QuestionPart | None = None
    content_json: str | None = None
    attachments: Sequence[Attachment] = ()


@record
class SpeakAnswer:
    """The stored message; `created` is False when the key existed."""

    message: StoredMessage
    created: bool


def speak_in(tx: Tx, ctx: CommitContext, command: SpeakCommand) -> SpeakAnswer:
    """Creates the message or returns the one under its key (L16, L17).

    Raises conversation_not_found, not_participant, key_conflict, blob_unknown; InvalidRequest when the
    purpose does not fit the content.
    """
    lock_conversation(tx, ctx, command.conversation_id)
    purpose = command.purpose or derive_purpose(command.actor, command.content)
    deliverable = command.status.ended
    wakes = deliverable and not purpose.carries_envelope
    conversation = conversations.take_ordinal(
        tx, command.conversation_id, command.actor, command.key, deliverable=deliverable, notify=wakes
    )
    if conversation is None:
        return _said_in(tx, ctx, command)
    if command.speaker is not None:
        require_entry(tx, ctx, conversation, command.actor, command.speaker)
        _require_answered(tx, conversation, command.reply_to_id)
    if command.attachments:
        refer_in(tx, ctx, command.message_id, conversation.id, command.attachments, command.speaker)
    _take_part(tx, ctx, conversation, command, purpose)
    message = _message(tx, ctx, conversation, command, purpose)
    part = command.question
    if part is None:
        messages.insert(tx, message)
    else:
        messages.insert(tx, message, digest=part.digest, due_at=part.due_at, question=part.facts)
    if message.offset is None:
        _open_stream(ctx, message, command.content)
        recipients = _nobody
    else:
        recipients = deliver_in(
            tx, conversation.id, message.offset, target=command.target, speaker=command.actor, wakes=wakes
        )
    for hook in ctx.hooks.message_saved:
        hook(tx, message)

    def hint() -> MessageChanged:
        return MessageChanged(
            message.id,
            conversation.id,
            conversation.root_id,
            message.change,
            message.offset,
            message,
            recipients(),
        )

    publish_in(tx, ctx, conversation.id, hint, wakes=wakes)
    return SpeakAnswer(message, created=True)


def _nobody() -> list[Recipient]:
    return []


def _require_answered(tx: Tx, conversation: Conversation, reply_to_id: str | None) -> None:
    """What is answered lies in the same conversation, its root or beside it. Raises InvalidRequest."""
    if reply_to_id is not None and messages.root_of(tx, reply_to_id) != conversation.root_id:
        raise InvalidRequest("there is no such message to answer here", pointer="/reply_to_id")


def _said_in(tx: Tx, ctx: CommitContext, command: SpeakCommand) -> SpeakAnswer:
    """The message that stands under the key already."""
    existing = messages.by_key(tx, command.conversation_id, command.actor, command.key)
    if existing is None:
        raise conversation_not_found(command.conversation_id)
    if command.speaker is not None:
        conversation = conversations.get(tx, command.conversation_id)
        assert conversation is not None
        require_entry(tx, ctx, conversation, command.actor, command.speaker)
    decide_repeat(Spoken(existing.target, existing.reply_to_id), command.target, command.reply_to_id)
    return SpeakAnswer(existing, created=False)


def deliver_in(
    tx: Tx, conversation_id: str, offset: int, *, target: Actor | None, speaker: Actor, wakes: bool
) -> Callable[[], list[Recipient]]:
    """Moves the inbox ends of everyone to whom the ended message goes; who, is told after the commit."""
    delivered = consumers.deliver(
        tx, conversation_id, offset=offset, wakes=wakes, target=target, speaker=speaker
    )
    return lambda: [Recipient(one.kind, one.key, one.previous) for one in delivered()]


def publish_in(
    tx: Tx, ctx: CommitContext, conversation_id: str, hint: Callable[[], MessageChanged], *, wakes: bool
) -> None:
    """Hints for inboxes and viewers, and for the resource when operators must be woken, after the commit."""
    tx.after_commit(lambda: ctx.bus.publish(hint()))
    if wakes:
        tx.after_commit(lambda: ctx.bus.publish(ConsumersChanged(conversation_id)))


def _take_part(
    tx: Tx, ctx: CommitContext, conversation: Conversation, command: SpeakCommand, purpose: Purpose
) -> None:
    """Who is spoken to takes part from now on, and so does who speaks."""
    actor, target = command.actor, command.target
    if joins_by_speaking(actor.kind, is_root=conversation.is_root):
        join_in(tx, ctx, conversation, actor, by=command.speaker)
    if target is None:
        return
    join_in(tx, ctx, conversation, target, by=command.speaker)
    needed = needs_process_conversation(
        is_root=conversation.is_root, owner=conversation.owner, target=target, purpose=purpose
    )
    if needed and not ctx.members.has_process(conversation, target):
        ensure_process_conversation_in(tx, ctx, conversation, target)


def _message(
    tx: Tx, ctx: CommitContext, conversation: Conversation, command: SpeakCommand, purpose: Purpose
) -> StoredMessage:
    change = (
        conversation.change if conversation.is_root else conversations.take_change(tx, conversation.root_id)
    )
    now = ctx.clock.now_ms()
    behalf = command.on_behalf_of
    return StoredMessage(
        id=command.message_id,
        conversation_id=conversation.id,
        root_id=conversation.root_id,
        actor_kind=command.actor.kind,
        actor_key=command.actor.key,
        target_kind=command.target.kind if command.target else "",
        target_key=command.target.key if command.target else "",
        key=command.key,
        reply_to_id=command.reply_to_id,
        purpose=purpose,
        status=command.status,
        revision=0,
        ordinal=conversation.last_ordinal,
        offset=conversation.last_offset if command.status.ended else None,
        change=change,
        run_id=command.run_id,
        on_behalf_kind=behalf.kind if behalf else None,
        on_behalf_key=behalf.key if behalf else None,
        call_id=_call_id(command.content) if purpose is Purpose.ENVELOPE else None,
        created_at=now,
        updated_at=now,
        content_json=command.content_json or json.dumps(command.content),
    )


def _call_id(content: dict[str, Any]) -> str | None:
    """The call that an envelope belongs to, so that its story can be read by call."""
    envelope = envelope_of(content) or {}
    correlation = envelope.get("correlation")
    call_id = correlation.get("call_id") if isinstance(correlation, dict) else None
    return call_id if isinstance(call_id, str) else None


def _open_stream(ctx: CommitContext, message: StoredMessage, content: dict[str, Any]) -> None:
    size = len(message.content_json.encode())
    ctx.roots.keep(message.id, message.root_id)
    ctx.streams.put(message.id, OpenStream(0, shape_of(content), snapshot_bytes=size, log_bytes=0))
