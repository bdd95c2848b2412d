"""The jobs of reading with a cursor: poll and commit (spec/protocol.md §5)."""

from __future__ import annotations

from lineloop.kit.database import Tx
from lineloop.kit.records import record
from lineloop.protocol.actors import Actor
from lineloop.protocol.errors import ErrorCode, Forbidden
from lineloop.protocol.messages import Purpose
from lineloop.server.commit.context import CommitContext
from lineloop.server.commit.locking import lock_conversation
from lineloop.server.commit.participation import conversation_not_found, notify_in
from lineloop.server.commit.visibility import sees
from lineloop.server.decide.access import Grant
from lineloop.server.decide.cursors import Cursor, decide_commit, decide_poll_start
from lineloop.server.records import Consumer, StoredMessage, is_operator
from lineloop.server.store import consumers, conversations, messages


@record
class PollCommand:
    """`after` None resumes from what was committed; `limit` at most; no purposes means all of them.

    `reader` is the credential that polls, None the server itself.
    """

    conversation_id: str
    actor: Actor
    after: int | None
    limit: int
    purposes: tuple[Purpose, ...] = ()
    reader: Grant | None = None


@record
class PollAnswer:
    """`position` is the offset of the last message given, or where the poll started."""

    messages: list[StoredMessage]
    position: int
    committed: int
    recorded: int

    def to_json(self) -> str:
        items = ",".join(message.to_json() for message in self.messages)
        return f'{{"messages":[{items}],"position":{self.position},"committed":{self.committed}}}'


@record
class CommitCommand:
    """`pushed` is the offset up to which the actor's link has delivered: that counts as polled.

    `reader` is the credential that commits, None the server itself.
    """

    conversation_id: str
    actor: Actor
    position: int
    pushed: int = 0
    reader: Grant | None = None


def require_consumer_in(tx: Tx, command: PollCommand | CommitCommand) -> Consumer:
    """Raises not_participant where the reader sees the conversation, else conversation_not_found (L46)."""
    actor, reader = command.actor, command.reader
    consumer = consumers.get(tx, command.conversation_id, actor)
    if consumer is None:
        found = conversations.get(tx, command.conversation_id)
        if found is None or (reader is not None and not sees(tx, found, reader)):
            raise conversation_not_found(command.conversation_id)
        raise Forbidden(f"{actor} does not take part in this conversation", code=ErrorCode.NOT_PARTICIPANT)
    return consumer


def read_inbox(tx: Tx, command: PollCommand) -> PollAnswer:
    """The reading half of a poll; records nothing (L45, L49, L50, L52, L56)."""
    consumer = require_consumer_in(tx, command)
    start = decide_poll_start(_cursor(consumer), command.after)
    found: list[StoredMessage] = []
    if consumer.end_offset > start:
        found = messages.inbox(tx, command.conversation_id, command.actor, after=start, limit=command.limit)
    position = start
    if found:
        assert found[-1].offset is not None
        position = found[-1].offset
    if command.purposes:
        # What was passed over counts as given: the position covers it.
        found = [message for message in found if message.purpose in command.purposes]
    return PollAnswer(found, position, consumer.committed, consumer.position)


def record_position_in(tx: Tx, ctx: CommitContext, conversation_id: str, actor: Actor, position: int) -> None:
    """The writing half: the position never goes back."""
    lock_conversation(tx, ctx, conversation_id)
    if consumers.set_polled(tx, conversation_id, actor, position) and is_operator(actor.kind):
        notify_in(tx, ctx, conversation_id)


def commit_in(tx: Tx, ctx: CommitContext, command: CommitCommand) -> None:
    """Records that everything up to `position` is done with. Repeating it, or less, is harmless.

    Raises conversation_not_found, not_participant, position_conflict (L51).
    """
    lock_conversation(tx, ctx, command.conversation_id)
    consumer = require_consumer_in(tx, command)
    committed = decide_commit(_cursor(consumer), command.position, command.pushed)
    if committed is None:
        return
    consumers.set_committed(tx, command.conversation_id, command.actor, committed)
    # Only a commit that touches what could wake somebody is worth a new resource.
    if is_operator(command.actor.kind) and consumer.committed < consumer.wake_offset:
        notify_in(tx, ctx, command.conversation_id)


def _cursor(consumer: Consumer) -> Cursor:
    return Cursor(consumer.end_offset, consumer.position, consumer.committed)
