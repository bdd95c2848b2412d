"""Rows of cursors: who takes part where, what waits for it, what it has seen. SQL only."""

from __future__ import annotations

from collections.abc import Callable

from lineloop.kit.database import Row, Tx
from lineloop.kit.records import record
from lineloop.protocol.actors import Actor
from lineloop.server.records import Consumer

_GET = "SELECT * FROM consumers WHERE conversation_id = :conversation_id AND kind = :kind AND key = :key"
_OF_CONVERSATION = (
    "SELECT * FROM consumers WHERE conversation_id = :conversation_id ORDER BY joined_at, kind, key"
)
_JOIN = """
INSERT INTO consumers (conversation_id, kind, key, process_conversation_id, end_offset, wake_offset, position,
    committed, joined_at)
VALUES (:conversation_id, :kind, :key, :process_conversation_id, :end_offset, :wake_offset, :seen, :seen,
    :now)
ON CONFLICT (conversation_id, kind, key) DO NOTHING
"""
_LINK_PROCESS = """
UPDATE consumers SET process_conversation_id = :process_conversation_id
WHERE conversation_id = :conversation_id AND kind = :kind AND key = :key AND process_conversation_id IS NULL
"""
_DELIVER_TO_TARGET = """
UPDATE consumers SET previous_end_offset = end_offset, end_offset = :offset,
    wake_offset = CASE WHEN :wakes = 1 THEN :offset ELSE wake_offset END
WHERE conversation_id = :conversation_id AND kind = :kind AND key = :key
RETURNING kind, key, previous_end_offset
"""
_DELIVER_TO_OTHERS = """
UPDATE consumers SET previous_end_offset = end_offset, end_offset = :offset,
    wake_offset = CASE WHEN :wakes = 1 THEN :offset ELSE wake_offset END
WHERE conversation_id = :conversation_id AND NOT (kind = :kind AND key = :key)
RETURNING kind, key, previous_end_offset
"""
_POLLED = """
UPDATE consumers SET position = :position
WHERE conversation_id = :conversation_id AND kind = :kind AND key = :key AND position < :position
"""
_COMMITTED = """
UPDATE consumers SET committed = :committed,
    position = CASE WHEN position < :committed THEN :committed ELSE position END
WHERE conversation_id = :conversation_id AND kind = :kind AND key = :key AND committed < :committed
"""
_BACKLOG = """
SELECT conversation_id, committed, end_offset FROM consumers
WHERE kind = :kind AND key = :key AND end_offset > committed ORDER BY conversation_id
"""
_RUNTIMES = "SELECT key FROM consumers WHERE conversation_id = :conversation_id AND kind = 'runtime'"
_OPERATORS_BESIDE = """
SELECT o.conversation_id, o.kind, o.key FROM consumers AS r JOIN consumers AS o
    ON o.conversation_id = r.conversation_id AND (o.kind = 'operator' OR o.kind LIKE 'operator/%')
WHERE r.kind = :kind AND r.key = :key AND (:conversation_id = '' OR r.conversation_id = :conversation_id)
ORDER BY o.conversation_id, o.joined_at
"""


@record
class Delivered:
    """A message became deliverable to this actor; `previous` is the offset of what it could read before."""

    kind: str
    key: str
    previous: int


def _consumer(row: Row) -> Consumer:
    return Consumer(
        conversation_id=row["conversation_id"],
        kind=row["kind"],
        key=row["key"],
        process_conversation_id=row["process_conversation_id"],
        end_offset=row["end_offset"],
        wake_offset=row["wake_offset"],
        position=row["position"],
        committed=row["committed"],
    )


def get(tx: Tx, conversation_id: str, actor: Actor) -> Consumer | None:
    row = tx.one(_GET, {"conversation_id": conversation_id, "kind": actor.kind, "key": actor.key})
    return _consumer(row) if row else None


def of_conversation(tx: Tx, conversation_id: str) -> list[Consumer]:
    return [_consumer(row) for row in tx.all(_OF_CONVERSATION, {"conversation_id": conversation_id})]


def join(
    tx: Tx, conversation_id: str, actor: Actor, *, now: int, end_offset: int, wake_offset: int, seen: int = 0
) -> bool:
    """True when the actor is new here. `seen` is what it need not be told any more."""
    params = {
        "conversation_id": conversation_id,
        "kind": actor.kind,
        "key": actor.key,
        "process_conversation_id": None,
        "end_offset": end_offset,
        "wake_offset": wake_offset,
        "seen": seen,
        "now": now,
    }
    return tx.run(_JOIN, params) == 1


def link_process_conversation(tx: Tx, conversation_id: str, actor: Actor, process_id: str) -> None:
    params = {
        "conversation_id": conversation_id,
        "kind": actor.kind,
        "key": actor.key,
        "process_conversation_id": process_id,
    }
    tx.put(_LINK_PROCESS, params)


def deliver(
    tx: Tx, conversation_id: str, *, offset: int, wakes: bool, target: Actor | None, speaker: Actor
) -> Callable[[], list[Delivered]]:
    """Moves the end offset of the target, or of everyone but the speaker; whose, is told after the commit."""
    to = target or speaker
    params = {
        "conversation_id": conversation_id,
        "kind": to.kind,
        "key": to.key,
        "offset": offset,
        "wakes": int(wakes),
    }
    rows = tx.later(_DELIVER_TO_TARGET if target else _DELIVER_TO_OTHERS, params)
    return lambda: [Delivered(row[0], row[1], row[2]) for row in rows()]


def set_polled(tx: Tx, conversation_id: str, actor: Actor, position: int) -> bool:
    params = {"conversation_id": conversation_id, "kind": actor.kind, "key": actor.key, "position": position}
    return tx.run(_POLLED, params) == 1


def set_committed(tx: Tx, conversation_id: str, actor: Actor, committed: int) -> bool:
    params = {
        "conversation_id": conversation_id,
        "kind": actor.kind,
        "key": actor.key,
        "committed": committed,
    }
    return tx.run(_COMMITTED, params) == 1


def backlog(tx: Tx, actor: Actor) -> list[tuple[str, int, int]]:
    """Where something waits for `actor`: (conversation, committed, end offset)."""
    return [(row[0], row[1], row[2]) for row in tx.all(_BACKLOG, {"kind": actor.kind, "key": actor.key})]


def runtimes(tx: Tx, conversation_id: str) -> list[str]:
    """Keys of the devices that take part."""
    return [row[0] for row in tx.all(_RUNTIMES, {"conversation_id": conversation_id})]


def operators_beside(tx: Tx, runtime: Actor, conversation_id: str = "") -> list[tuple[str, str, str]]:
    """Operators in the conversations of a device: (conversation, kind, key); empty id = all of them."""
    params = {"kind": runtime.kind, "key": runtime.key, "conversation_id": conversation_id}
    return [(row[0], row[1], row[2]) for row in tx.all(_OPERATORS_BESIDE, params)]
