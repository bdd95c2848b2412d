"""Rows of who takes part in a conversation, as people see it, and of who was taken out. SQL only."""

from __future__ import annotations

from lineloop.kit.database import Row, Tx
from lineloop.kit.records import record
from lineloop.protocol.actors import Actor

_NAME = "m.kind || '/' || m.key"
_COLUMNS = "m.kind, m.key, m.process_conversation_id, m.joined_at, a.display_name"
_FROM = "FROM consumers AS m LEFT JOIN actors AS a ON a.kind = m.kind AND a.key = m.key"
_PAGE = f"""
SELECT {_COLUMNS} {_FROM} WHERE m.conversation_id = :conversation_id AND {_NAME} > :after
ORDER BY {_NAME} LIMIT :limit
"""
_ONE = f"""
SELECT {_COLUMNS} {_FROM} WHERE m.conversation_id = :conversation_id AND m.kind = :kind AND m.key = :key
"""
# Who was taken out as an operator was so in all of its roles.
_IS_REMOVED = """
SELECT 1 FROM removed_participants WHERE conversation_id = :root_id AND ((kind = :kind AND key = :key)
    OR (kind = 'operator' AND key = :operator_key))
"""
_FAMILY_MEMBERS = """
SELECT m.conversation_id, m.kind, m.key
FROM consumers AS m JOIN conversations AS c ON c.id = m.conversation_id
WHERE c.id = :root_id OR c.parent_id = :root_id ORDER BY m.conversation_id, m.kind, m.key
"""
_FAMILY_REMOVED = """
SELECT r.conversation_id, r.kind, r.key, r.process_conversation_id, r.committed
FROM removed_participants AS r JOIN conversations AS c ON c.id = r.conversation_id
WHERE c.id = :root_id OR c.parent_id = :root_id ORDER BY r.conversation_id, r.kind, r.key
"""
_NOTE = """
INSERT INTO removed_participants (conversation_id, kind, key, process_conversation_id, committed, removed_at)
SELECT conversation_id, kind, key, process_conversation_id, committed, :now FROM consumers
WHERE conversation_id = :conversation_id AND kind = :kind AND key = :key
ON CONFLICT (conversation_id, kind, key) DO NOTHING
"""
_NOTE_NAME = """
INSERT INTO removed_participants (conversation_id, kind, key, committed, removed_at)
VALUES (:conversation_id, :kind, :key, 0, :now) ON CONFLICT (conversation_id, kind, key) DO NOTHING
"""
_DROP = "DELETE FROM consumers WHERE conversation_id = :conversation_id AND kind = :kind AND key = :key"
_FORGET = """
DELETE FROM removed_participants WHERE conversation_id = :conversation_id AND kind = :kind AND key = :key
"""
_OPEN_STREAMS = """
SELECT id FROM messages WHERE root_id = :root_id AND status = 'streaming' AND run_id IS NULL
    AND actor_kind = :kind AND actor_key = :key ORDER BY id
"""
_OPEN_QUESTIONS = """
SELECT id FROM messages WHERE root_id = :root_id AND due_at IS NOT NULL AND ((actor_kind = :kind
    AND actor_key = :key) OR (target_kind = :kind AND target_key = :key)) ORDER BY id
"""


@record
class Participant:
    """One line of the list; `display_name` when it was registered, `joined_at` UTC milliseconds."""

    actor: Actor
    process_conversation_id: str | None
    joined_at: int
    display_name: str | None


@record
class Removed:
    """Who was taken out of one conversation, and what it had committed there."""

    conversation_id: str
    actor: Actor
    process_conversation_id: str | None
    committed: int


def _participant(row: Row) -> Participant:
    kind, key, process_id, joined_at, display_name = row
    return Participant(Actor(kind, key), process_id, joined_at, display_name)


def page(tx: Tx, conversation_id: str, *, after: str, limit: int) -> list[Participant]:
    """By KIND/KEY."""
    params = {"conversation_id": conversation_id, "after": after, "limit": limit}
    return [_participant(row) for row in tx.all(_PAGE, params)]


def one(tx: Tx, conversation_id: str, actor: Actor) -> Participant | None:
    row = tx.one(_ONE, _place(conversation_id, actor))
    return _participant(row) if row else None


def is_removed(tx: Tx, root_id: str, actor: Actor) -> bool:
    """Whether the actor, or the operator whose role it is, was taken out of the root conversation."""
    params = {**_in_root(root_id, actor), "operator_key": actor.operator_key or ""}
    return tx.one(_IS_REMOVED, params) is not None


def members(tx: Tx, root_id: str) -> list[tuple[str, Actor]]:
    """Who takes part in a root conversation and its process conversations: (conversation, actor)."""
    return [(row[0], Actor(row[1], row[2])) for row in tx.all(_FAMILY_MEMBERS, {"root_id": root_id})]


def removed(tx: Tx, root_id: str) -> list[Removed]:
    """Who was taken out of a root conversation and its process conversations."""
    return [
        Removed(row[0], Actor(row[1], row[2]), row[3], row[4])
        for row in tx.all(_FAMILY_REMOVED, {"root_id": root_id})
    ]


def take_out(tx: Tx, conversation_id: str, actor: Actor, now: int) -> None:
    """Its cursor becomes a note of how far it was."""
    params = _place(conversation_id, actor)
    tx.run(_NOTE, {**params, "now": now})
    tx.run(_DROP, params)


def note(tx: Tx, root_id: str, actor: Actor, now: int) -> None:
    """The actor counts as taken out, also where it never took part itself, but a role of it did."""
    tx.run(_NOTE_NAME, {**_place(root_id, actor), "now": now})


def forget(tx: Tx, conversation_id: str, actor: Actor) -> None:
    """The actor counts as taken out no more."""
    tx.run(_FORGET, _place(conversation_id, actor))


def open_streams_of(tx: Tx, root_id: str, actor: Actor) -> list[str]:
    """Messages that the actor has not ended, without those that a Run writes."""
    return [row[0] for row in tx.all(_OPEN_STREAMS, _in_root(root_id, actor))]


def open_questions_of(tx: Tx, root_id: str, actor: Actor) -> list[str]:
    """Questions that are open, by the actor or to it."""
    return [row[0] for row in tx.all(_OPEN_QUESTIONS, _in_root(root_id, actor))]


def _place(conversation_id: str, actor: Actor) -> dict[str, object]:
    return {"conversation_id": conversation_id, "kind": actor.kind, "key": actor.key}


def _in_root(root_id: str, actor: Actor) -> dict[str, object]:
    return {"root_id": root_id, "kind": actor.kind, "key": actor.key}
