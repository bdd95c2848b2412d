"""Jobs about who takes part: joining, process conversations, devices (spec/protocol.md §2.4, §5).

Each function is a part of a transaction: it loads, decides and writes with the given `tx`.
"""

from __future__ import annotations

from lineloop.kit.database import Tx
from lineloop.kit.records import record
from lineloop.protocol.actors import RUNTIME, USER, Actor
from lineloop.protocol.errors import ErrorCode, Forbidden, NotFound
from lineloop.server.commit.context import CommitContext
from lineloop.server.commit.locking import user_lock
from lineloop.server.decide.access import Grant, is_pattern
from lineloop.server.decide.membership import decide_naming
from lineloop.server.records import Conversation, is_operator
from lineloop.server.store import consumers, conversations, identities, membership, messages
from lineloop.server.wakeup.bus import ConsumersChanged, ParticipantJoined, ParticipantsChanged


@record
class CreateConversation:
    """`owner` is who opens it. A person's active device takes part from the start."""

    conversation_id: str
    name: str
    owner: Actor


def conversation_not_found(conversation_id: str) -> NotFound:
    return NotFound(
        "no such conversation",
        code=ErrorCode.CONVERSATION_NOT_FOUND,
        detail={"conversation_id": conversation_id},
    )


def create_conversation_in(
    tx: Tx, ctx: CommitContext, command: CreateConversation
) -> tuple[Conversation, bool]:
    """Stores a root conversation; the same id again answers what is stored, and False."""
    if command.owner.kind == USER:
        tx.lock(user_lock(command.owner.key))
    tx.lock(command.conversation_id)
    existing = conversations.get(tx, command.conversation_id)
    if existing is not None:
        return existing, False
    conversation = Conversation(
        id=command.conversation_id,
        name=command.name,
        owner=command.owner,
        parent_id=None,
        root_id=command.conversation_id,
        last_ordinal=0,
        last_offset=0,
        change=0,
        created_at=ctx.clock.now_ms(),
    )
    conversations.insert(tx, conversation)
    join_in(tx, ctx, conversation, command.owner, by=None)
    if command.owner.kind == USER:
        device = identities.active_device(tx, command.owner.key)
        if device is not None:
            enter_in(tx, ctx, conversation, Actor(RUNTIME, device))
    notify_in(tx, ctx, conversation.id)
    return conversation, True


def join_in(
    tx: Tx, ctx: CommitContext, conversation: Conversation, actor: Actor, *, by: Grant | None
) -> bool:
    """Makes `actor` a participant. True when it is new here.

    `by` is the credential that names it, None the server itself, which brings in nobody's device. Every way
    of taking part that a caller can name goes through here. Who was taken out comes back by invitation only.
    Raises not_participant.
    """
    if ctx.members.knows(conversation, actor):
        return False
    _require_reachable(tx, conversation, actor, by)
    if membership.is_removed(tx, conversation.root_id, actor):
        raise _takes_no_part(actor)
    return enter_in(tx, ctx, conversation, actor)


def _require_reachable(tx: Tx, conversation: Conversation, actor: Actor, by: Grant | None) -> None:
    """Who takes part in the root conversation may be named in it and in its process conversations. A
    device is brought in by the person to whom it and the conversation belong; a device that nobody
    registered is none. Whom else one may bring in is decided by `decide_naming`.

    Anybody else could otherwise bring a person's device into a conversation of their own, or a stranger
    into somebody else's. Raises not_participant.
    """
    if consumers.get(tx, conversation.root_id, actor) is not None:
        return
    if actor.kind != RUNTIME:
        _require_namable(tx, conversation, actor, by)
        return
    owner = conversation.owner
    if is_pattern(actor):
        allowed = False  # a token for many devices is none of them
    elif by is not None and by.is_admin:
        allowed = identities.is_known_device(tx, actor)
    else:
        is_owner = by is not None and owner.kind == USER and by.allows(owner)
        allowed = is_owner and identities.is_device_of(tx, owner.key, actor)
    if not allowed:
        raise _takes_no_part(actor)


def _require_namable(tx: Tx, conversation: Conversation, actor: Actor, by: Grant | None) -> None:
    """Raises not_participant."""
    if by is None or by.is_admin:
        return
    root = conversation if conversation.is_root else conversations.get(tx, conversation.root_id)
    assert root is not None
    operator = actor.operator_key
    is_beside = operator is not None and any(
        one.actor.operator_key == operator for one in consumers.of_conversation(tx, root.id)
    )
    decide_naming(actor, by, owner=root.owner, is_beside=is_beside)


def _takes_no_part(actor: Actor) -> Forbidden:
    return Forbidden(f"{actor} does not take part in this conversation", code=ErrorCode.NOT_PARTICIPANT)


def enter_in(
    tx: Tx, ctx: CommitContext, conversation: Conversation, actor: Actor, *, committed: int = 0
) -> bool:
    """What was said to everyone before waits for the newcomer too, except for a device: it starts with what
    comes next. Who was here before goes on from what it `committed`.
    """
    conversation_id = conversation.id
    end = messages.inbox_end(tx, conversation_id, actor)
    seen = end if actor.kind == RUNTIME else committed
    now = ctx.clock.now_ms()
    joined = consumers.join(tx, conversation_id, actor, now=now, end_offset=end, wake_offset=end, seen=seen)
    tx.after_commit(lambda: ctx.members.add(conversation, actor))
    if joined:
        _tell_devices(tx, ctx, conversation_id, actor)
        changed = ParticipantsChanged(conversation.root_id, [conversation_id])
        tx.after_commit(lambda: ctx.bus.publish(changed))
        notify_in(tx, ctx, conversation_id)
    return joined


def _tell_devices(tx: Tx, ctx: CommitContext, conversation_id: str, actor: Actor) -> None:
    """A device learns of operators beside it, also of those that were there first."""
    if is_operator(actor.kind):
        devices = consumers.runtimes(tx, conversation_id)
        hint = ParticipantJoined(conversation_id, actor.kind, actor.key, devices)
        if devices:
            tx.after_commit(lambda: ctx.bus.publish(hint))
    elif actor.kind == RUNTIME:
        for _, kind, key in consumers.operators_beside(tx, actor, conversation_id):
            one = ParticipantJoined(conversation_id, kind, key, [actor.key])
            tx.after_commit(lambda one=one: ctx.bus.publish(one))


def ensure_process_conversation_in(tx: Tx, ctx: CommitContext, parent: Conversation, actor: Actor) -> str:
    """The id of the process conversation of `actor` under `parent`; made when there is none (L3, L5, L6)."""
    known = conversations.process_conversation_id(tx, parent.id, actor)
    process_id = known or ctx.ids.make("con")
    if known is None:
        process = Conversation(
            id=process_id,
            name=str(actor),
            owner=actor,
            parent_id=parent.id,
            root_id=parent.root_id,
            last_ordinal=0,
            last_offset=0,
            change=0,
            created_at=ctx.clock.now_ms(),
        )
        conversations.insert(tx, process, actor)
        notify_in(tx, ctx, parent.id)
    consumers.link_process_conversation(tx, parent.id, actor, process_id)
    tx.after_commit(lambda: ctx.members.add(parent, actor, process=True))
    return process_id


def activate_device_in(tx: Tx, ctx: CommitContext, user_key: str, device_key: str) -> bool:
    """The first device of a person takes part in all their root conversations. True when it was the first."""
    tx.lock(user_lock(user_key))
    identities.insert_user(tx, user_key, cookie=None, secret=None, now=ctx.clock.now_ms())
    if not identities.set_first_device(tx, user_key, device_key):
        return False
    for conversation_id in conversations.roots_owned_by(tx, user_key):
        tx.lock(conversation_id)
        conversation = conversations.get(tx, conversation_id)
        if conversation is not None:
            enter_in(tx, ctx, conversation, Actor(RUNTIME, device_key))
    return True


def notify_in(tx: Tx, ctx: CommitContext, conversation_id: str) -> None:
    """Marks the conversation's resource as out of date, in this very transaction."""
    conversations.mark_to_notify(tx, conversation_id)
    tx.after_commit(lambda: ctx.bus.publish(ConsumersChanged(conversation_id)))
