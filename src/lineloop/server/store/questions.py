"""The question columns of messages: terms, state, due time. SQL only."""

from __future__ import annotations

from lineloop.kit import json
from lineloop.kit.database import Tx
from lineloop.server.records import QuestionRow

_GET = """
SELECT id, conversation_id, root_id, actor_kind, actor_key, target_kind, target_key, digest, due_at, question,
    revision, reply_to_id
FROM messages WHERE id = :id AND purpose = 'question'
"""
_CLOSE = """
UPDATE messages SET question = :question, due_at = NULL, content = :content, revision = revision + 1,
    snapshot_revision = revision + 1, change = :change, updated_at = :now
WHERE id = :id AND due_at IS NOT NULL
"""
_DUE = "SELECT id, root_id FROM messages WHERE due_at <= :now ORDER BY due_at LIMIT :limit"
_NEXT_DUE = "SELECT min(due_at) FROM messages WHERE due_at IS NOT NULL"


def get(tx: Tx, question_id: str) -> QuestionRow | None:
    row = tx.one(_GET, {"id": question_id})
    if row is None:
        return None
    return QuestionRow(
        id=row["id"],
        conversation_id=row["conversation_id"],
        root_id=row["root_id"],
        asker=(row["actor_kind"], row["actor_key"]),
        person=(row["target_kind"], row["target_key"]),
        digest=row["digest"],
        facts=json.loads(row["question"]),
    )


def close(tx: Tx, question_id: str, *, facts: str, content: str, change: int, now: int) -> bool:
    """True when the question was open until now."""
    params = {"id": question_id, "question": facts, "content": content, "change": change, "now": now}
    return tx.run(_CLOSE, params) == 1


def due(tx: Tx, now: int, limit: int) -> list[tuple[str, str]]:
    """Open questions whose deadline has come: (id, root conversation)."""
    return [(row[0], row[1]) for row in tx.all(_DUE, {"now": now, "limit": limit})]


def next_due(tx: Tx) -> int | None:
    row = tx.one(_NEXT_DUE)
    return row[0] if row else None
