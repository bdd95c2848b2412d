"""What is old, and whether somebody still needs it. SQL only.

Ids of messages grow with time; that bounds a look, and nothing else is concluded from it.
"""

from __future__ import annotations

from lineloop.kit.database import Tx
from lineloop.kit.records import record
from lineloop.protocol.content import Purpose

_OLD = """
SELECT id, conversation_id, root_id, purpose, status, updated_at, call_id FROM messages
WHERE id > :after AND id < :until ORDER BY id LIMIT :limit
"""
_ONE = """
SELECT id, conversation_id, root_id, purpose, status, updated_at, call_id FROM messages WHERE id = :id
"""
_BUSY_ROOT = "SELECT 1 FROM harness_runs WHERE ended_at IS NULL AND root_id = :root LIMIT 1"
_NEEDED = """
SELECT 1 FROM messages AS m WHERE m.id = :id AND (m.status = 'streaming' OR m.due_at IS NOT NULL
    OR EXISTS (SELECT 1 FROM messages AS r WHERE r.reply_to_id = m.id
        AND (r.status = 'streaming' OR r.due_at IS NOT NULL))
    OR EXISTS (SELECT 1 FROM run_waits AS w WHERE w.message_id = m.id)
    OR EXISTS (SELECT 1 FROM consumers AS c WHERE c.conversation_id = m.conversation_id AND c.kind <> 'user'
        AND c.committed < m.offset_ AND ((c.kind = m.target_kind AND c.key = m.target_key)
            OR (m.target_kind = '' AND NOT (c.kind = m.actor_kind AND c.key = m.actor_key))))
    OR (m.purpose = 'inventory' AND NOT EXISTS (SELECT 1 FROM messages AS n
        WHERE n.conversation_id = m.conversation_id AND n.target_kind = m.target_kind
            AND n.target_key = m.target_key AND n.offset_ > m.offset_ AND n.purpose = 'inventory'
            AND n.actor_kind = m.actor_kind AND n.actor_key = m.actor_key)))
"""
_DELETE_PATCHES = "DELETE FROM patches WHERE message_id = :id"
_DELETE = "DELETE FROM messages WHERE id = :id"
_OLD_LEDGERS = """
SELECT r.id FROM harness_runs AS r WHERE r.ended_at < :before
    AND EXISTS (SELECT 1 FROM ledger AS l WHERE l.run_id = r.id) ORDER BY r.id LIMIT :limit
"""
_LEDGER_BLOBS = "SELECT DISTINCT blob_hash FROM ledger WHERE run_id = :run AND blob_hash IS NOT NULL"
_DELETE_LEDGER = "DELETE FROM ledger WHERE run_id = :run"
_DELETE_LEDGER_BLOB = """
DELETE FROM ledger_blobs WHERE hash = :hash AND NOT EXISTS (SELECT 1 FROM ledger WHERE blob_hash = :hash)
"""
_OLD_RUNS = """
SELECT id FROM harness_runs WHERE ended_at < :before AND request <> '{}' ORDER BY id LIMIT :limit
"""
_EMPTY_RUN = """
UPDATE harness_runs SET request = '{}', result = NULL WHERE id = :run AND ended_at IS NOT NULL
"""


@record
class OldMessage:
    """A message that may be old enough; `updated_at` is UTC ms."""

    id: str
    conversation_id: str
    root_id: str
    purpose: Purpose
    is_open: bool
    updated_at: int
    call_id: str | None


def old_messages(tx: Tx, *, after: str, until: str, limit: int) -> list[OldMessage]:
    """The next ones by id."""
    rows = tx.all(_OLD, {"after": after, "until": until, "limit": limit})
    return [_message(tuple(row)) for row in rows]


def message(tx: Tx, message_id: str) -> OldMessage | None:
    row = tx.one(_ONE, {"id": message_id})
    return _message(tuple(row)) if row else None


def _message(row: tuple[object, ...]) -> OldMessage:
    id_, conversation, root, purpose, status, updated_at, call_id = row
    return OldMessage(
        str(id_),
        str(conversation),
        str(root),
        Purpose(str(purpose)),
        status == "streaming",
        int(str(updated_at)),
        None if call_id is None else str(call_id),
    )


def has_open_run(tx: Tx, root_id: str) -> bool:
    return tx.one(_BUSY_ROOT, {"root": root_id}) is not None


def is_needed(tx: Tx, message_id: str) -> bool:
    """By an open stream or question, a waiting run, an inbox that is not committed, or as the newest
    inventory.
    """
    return tx.one(_NEEDED, {"id": message_id}) is not None


def delete_message(tx: Tx, message_id: str) -> None:
    tx.run(_DELETE_PATCHES, {"id": message_id})
    tx.run(_DELETE, {"id": message_id})


def old_ledgers(tx: Tx, before: int, limit: int) -> list[str]:
    """Runs that ended before that time and still have steps."""
    return [row[0] for row in tx.all(_OLD_LEDGERS, {"before": before, "limit": limit})]


def delete_ledger(tx: Tx, run_id: str) -> None:
    blobs = [row[0] for row in tx.all(_LEDGER_BLOBS, {"run": run_id})]
    tx.run(_DELETE_LEDGER, {"run": run_id})
    for blob in blobs:
        tx.run(_DELETE_LEDGER_BLOB, {"hash": blob})


def old_runs(tx: Tx, before: int, limit: int) -> list[str]:
    """Runs that ended before that time and still hold what they were asked."""
    return [row[0] for row in tx.all(_OLD_RUNS, {"before": before, "limit": limit})]


def empty_run(tx: Tx, run_id: str) -> None:
    """Key, digest, phase and error stay: the key answers and never executes again."""
    tx.run(_EMPTY_RUN, {"run": run_id})
