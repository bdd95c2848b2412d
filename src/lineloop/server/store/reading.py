"""How far people have read, and what is unread beyond it. SQL only.

A position belongs to one person and one conversation; it only moves on.
"""

from __future__ import annotations

from lineloop.kit.database import Tx
from lineloop.protocol.actors import USER, Actor
from lineloop.server.records import ReadState

# Counting goes no further back than this many messages; so a list of conversations has a bounded cost.
MAX_UNREAD = 200

_POSITION = "SELECT ordinal FROM read_positions WHERE user_key = :user AND conversation_id = :conversation"
_ADVANCE = """
INSERT INTO read_positions (user_key, conversation_id, ordinal) VALUES (:user, :conversation, :ordinal)
ON CONFLICT (user_key, conversation_id) DO UPDATE SET ordinal = excluded.ordinal
WHERE read_positions.ordinal < excluded.ordinal
"""
_UNREAD = """
SELECT count(*) FROM (
    SELECT purpose, actor_kind, actor_key FROM messages
    WHERE conversation_id = :conversation AND ordinal > :after ORDER BY ordinal DESC LIMIT :limit
) AS newest
WHERE purpose NOT IN ('envelope', 'inventory') AND NOT (actor_kind = :kind AND actor_key = :user)
"""
_SAID_AT = "SELECT created_at FROM messages WHERE conversation_id = :conversation AND ordinal = :ordinal"


def state(tx: Tx, person: Actor, conversation_id: str, last_ordinal: int) -> ReadState:
    """`person` is of kind user. `last_ordinal` is the conversation's highest."""
    row = tx.one(_POSITION, {"user": person.key, "conversation": conversation_id})
    ordinal: int = row[0] if row else 0
    return ReadState(ordinal, _unread(tx, person, conversation_id, ordinal) if ordinal < last_ordinal else 0)


def _unread(tx: Tx, person: Actor, conversation_id: str, after: int) -> int:
    row = tx.one(
        _UNREAD,
        {
            "conversation": conversation_id,
            "after": after,
            "limit": MAX_UNREAD,
            "kind": USER,
            "user": person.key,
        },
    )
    return row[0] if row else 0


def advance(tx: Tx, person: Actor, conversation_id: str, ordinal: int) -> bool:
    """Whether the position moved; it never moves back."""
    return bool(tx.run(_ADVANCE, {"user": person.key, "conversation": conversation_id, "ordinal": ordinal}))


def said_at(tx: Tx, conversation_id: str, ordinal: int) -> int | None:
    """When the message of that ordinal was created; None when there is none (any more)."""
    row = tx.one(_SAID_AT, {"conversation": conversation_id, "ordinal": ordinal})
    return row[0] if row else None
