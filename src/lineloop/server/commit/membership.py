"""The jobs of membership: bring somebody in, take somebody out (spec/protocol.md §2.9).

Whoever is taken out leaves nothing open behind: its streams and questions end, its Runs are asked to stop, in
the same commit. What it had read is kept, so that it goes on from there should it be invited again.
"""

from __future__ import annotations

from lineloop.kit.database import Tx
from lineloop.kit.records import record
from lineloop.protocol.actors import RUNTIME, USER, Actor
from lineloop.protocol.content import error_meta
from lineloop.protocol.errors import ErrorCode, NotFound
from lineloop.protocol.messages import MessageStatus
from lineloop.server.commit.asking import fail_question_in
from lineloop.server.commit.context import CommitContext
from lineloop.server.commit.locking import lock_conversation
from lineloop.server.commit.participation import conversation_not_found, enter_in, join_in, notify_in
from lineloop.server.commit.streaming import EndCommand, end_in
from lineloop.server.commit.visibility import visible_conversation
from lineloop.server.decide.access import Grant
from lineloop.server.decide.membership import decide_invitation, decide_removal, goes_with
from lineloop.server.records import Conversation
from lineloop.server.store import consumers, conversations, identities, membership
from lineloop.server.store.membership import Participant
from lineloop.server.wakeup.bus import ParticipantsChanged

REMOVED = "participant_removed"


@record
class ChangeMembership:
    """`actor` is invited or taken out, `by` is the credential that asks."""

    conversation_id: str
    actor: Actor
    by: Grant


def list_participants(tx: Tx, root_id: str, *, after: str, limit: int) -> tuple[Actor, list[Participant]]:
    """The owner of a root conversation, and who takes part in it, by name. Raises conversation_not_found."""
    root = conversations.get(tx, root_id)
    if root is None:
        raise conversation_not_found(root_id)
    return root.owner, membership.page(tx, root_id, after=after, limit=limit)


def invite_in(tx: Tx, ctx: CommitContext, command: ChangeMembership) -> tuple[Participant, bool]:
    """Makes the actor take part; True when it did not before. Repeating it is harmless.

    Raises conversation_not_found, not_participant (a device of somebody else), Forbidden, InvalidRequest.
    """
    lock_conversation(tx, ctx, command.conversation_id)
    conversation, actor = _seen(tx, command), command.actor
    decide_invitation(actor, command.by, owner=conversation.owner, is_root=conversation.is_root)
    is_back = _bring_back_in(tx, ctx, conversation, actor)
    joined = join_in(tx, ctx, conversation, actor, by=command.by)
    line = membership.one(tx, conversation.id, actor)
    assert line is not None
    return line, joined or is_back


def _bring_back_in(tx: Tx, ctx: CommitContext, root: Conversation, actor: Actor) -> bool:
    """Who was taken out with the actor comes back with it, and goes on from what it had committed."""
    found = [
        one
        for one in membership.removed(tx, root.id)
        if goes_with(one.actor, actor) or _is_device_of(tx, actor, one.actor)
    ]
    for one in found:
        membership.forget(tx, one.conversation_id, one.actor)
        place = conversations.get(tx, one.conversation_id)
        assert place is not None
        enter_in(tx, ctx, place, one.actor, committed=one.committed)
        if one.process_conversation_id is not None:
            consumers.link_process_conversation(tx, place.id, one.actor, one.process_conversation_id)
    return bool(found)


def remove_in(tx: Tx, ctx: CommitContext, command: ChangeMembership) -> None:
    """Takes the actor out, an operator with its roles, a person with their devices. Repeating it is harmless.

    Raises conversation_not_found, NotFound (it never took part), Forbidden, InvalidRequest.
    """
    lock_conversation(tx, ctx, command.conversation_id)
    named = command.actor
    if command.by.allows(named) and membership.is_removed(tx, command.conversation_id, named):
        return  # Who left sees nothing here any more, and may say so again.
    root = _seen(tx, command)
    decide_removal(named, command.by, owner=root.owner, is_root=root.is_root)
    going = [
        (place, actor)
        for place, actor in membership.members(tx, root.id)
        if goes_with(actor, named)
        or (_is_device_of(tx, named, actor) and not _is_device_of(tx, root.owner, actor))
    ]
    if not going:
        if membership.is_removed(tx, root.id, named):
            return
        raise NotFound(f"{named} does not take part in this conversation", detail={"actor": str(named)})
    actors = list(dict.fromkeys(actor for _, actor in going))
    for actor in actors:
        _end_all_in(tx, ctx, root.id, actor)
    now = ctx.clock.now_ms()
    for place, actor in going:
        membership.take_out(tx, place, actor, now)
    membership.note(tx, root.id, named, now)
    conversations.somebody_left(tx, root.id)
    for place in dict.fromkeys(place for place, _ in going):
        notify_in(tx, ctx, place)
    changed = ParticipantsChanged(
        root.id,
        sorted(conversations.highest_ordinals(tx, root.id)),
        [(actor.kind, actor.key) for actor in actors],
        consumers.runtimes(tx, root.id),
    )
    tx.after_commit(lambda: ctx.bus.publish(changed))


def _end_all_in(tx: Tx, ctx: CommitContext, root_id: str, actor: Actor) -> None:
    """Nothing of the actor, and nothing that waits for it, stays open."""
    for hook in ctx.hooks.participant_removed:
        hook(tx, root_id, actor)
    for question_id in membership.open_questions_of(tx, root_id, actor):
        fail_question_in(tx, ctx, question_id, REMOVED)
    meta = error_meta(ErrorCode.WRITER_GONE, "The writer of this message left the conversation.")
    for message_id in membership.open_streams_of(tx, root_id, actor):
        end_in(tx, ctx, EndCommand(message_id, None, MessageStatus.FAILED, meta=meta))


def _is_device_of(tx: Tx, person: Actor, actor: Actor) -> bool:
    return person.kind == USER and actor.kind == RUNTIME and identities.is_device_of(tx, person.key, actor)


def _seen(tx: Tx, command: ChangeMembership) -> Conversation:
    conversation = visible_conversation(tx, command.conversation_id, command.by)
    if conversation is None:
        raise conversation_not_found(command.conversation_id)
    return conversation
