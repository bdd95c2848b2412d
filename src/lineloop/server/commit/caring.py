"""The jobs of caring for a conversation: rename, archive, read positions (spec/protocol.md §2.6).

Whoever sees a conversation may name and archive it; it is one conversation, for all who take part. How far
somebody has read is theirs alone.
"""

from __future__ import annotations

from lineloop.kit.database import Tx
from lineloop.kit.records import record
from lineloop.protocol.actors import Actor
from lineloop.protocol.messages import ConversationInfo
from lineloop.server.commit.context import CommitContext
from lineloop.server.commit.locking import lock_conversation
from lineloop.server.commit.participation import conversation_not_found, notify_in
from lineloop.server.commit.visibility import visible_conversation
from lineloop.server.decide.access import Grant
from lineloop.server.decide.caring import Care, decide_care, decide_read_up_to, decide_reader
from lineloop.server.records import Conversation, ReadState
from lineloop.server.store import conversations, reading
from lineloop.server.wakeup.bus import ConversationTouched


@record
class ChangeConversation:
    """What is None stays as it is."""

    conversation_id: str
    by: Grant
    name: str | None = None
    archived: bool | None = None


def card_in(tx: Tx, conversation: Conversation, grant: Grant) -> ConversationInfo:
    """The conversation as this credential is shown it; with what is unread for who is one person."""
    said_at = reading.said_at(tx, conversation.id, conversation.last_ordinal)
    archived_at = conversation.archived_at
    if not conversation.is_root:
        root = conversations.get(tx, conversation.root_id)
        archived_at = root.archived_at if root is not None else None
    person = grant.person
    read = reading.state(tx, person, conversation.id, conversation.last_ordinal) if person else None
    return conversation.changed(archived_at=archived_at).to_info(said_at=said_at, read=read)


def change_conversation_in(tx: Tx, ctx: CommitContext, command: ChangeConversation) -> ConversationInfo:
    """Raises conversation_not_found, InvalidRequest. Repeating it is harmless."""
    lock_conversation(tx, ctx, command.conversation_id)
    conversation = _seen(tx, command.conversation_id, command.by)
    care = decide_care(
        Care(conversation.name, conversation.archived_at),
        is_root=conversation.is_root,
        name=command.name,
        archived=command.archived,
        now=ctx.clock.now_ms(),
    )
    if care is None:
        return card_in(tx, conversation, command.by)
    conversations.set_care(tx, conversation.id, name=care.name, archived_at=care.archived_at)
    changed = conversation.changed(name=care.name, archived_at=care.archived_at)
    touched = ConversationTouched(changed.root_id, changed.id)
    tx.after_commit(lambda: ctx.bus.publish(touched))
    if changed.name != conversation.name:
        notify_in(tx, ctx, changed.id)
    return card_in(tx, changed, command.by)


def mark_read_in(tx: Tx, ctx: CommitContext, conversation_id: str, ordinal: int, by: Grant) -> ReadState:
    """The person has read everything up to `ordinal`; never moves back.

    Raises Forbidden for who is no person, conversation_not_found.
    """
    person: Actor = decide_reader(by)
    conversation = _seen(tx, conversation_id, by)
    last = conversation.last_ordinal
    if reading.advance(tx, person, conversation_id, decide_read_up_to(ordinal, last)):
        touched = ConversationTouched(conversation.root_id, conversation_id, person.key)
        tx.after_commit(lambda: ctx.bus.publish(touched))
    return reading.state(tx, person, conversation_id, last)


def _seen(tx: Tx, conversation_id: str, grant: Grant) -> Conversation:
    conversation = visible_conversation(tx, conversation_id, grant)
    if conversation is None:
        raise conversation_not_found(conversation_id)
    return conversation
