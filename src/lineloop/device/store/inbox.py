"""Rows of the app inbox. Decides nothing."""

from __future__ import annotations

from lineloop.device.decide.inbox import InboxEntry, InboxMessage, MessageKept
from lineloop.kit import json
from lineloop.kit.database import Row, Tx

_KNOWN = """
SELECT 1 FROM app_inbox
 WHERE runtime_id = :runtime_id AND app_scope = :app_scope AND message_id = :message_id
"""
_NEXT_POSITION = """
SELECT COALESCE(MAX(position), 0) + 1 FROM app_inbox WHERE runtime_id = :runtime_id AND app_scope = :app_scope
"""
_INSERT = """
INSERT INTO app_inbox (id, runtime_id, app_scope, conversation_id, app_session_id, position, message_id, type,
                       call_id, critical, state, payload, created_at)
VALUES (:id, :runtime_id, :app_scope, :conversation_id, :app_session_id, :position, :message_id, :type,
        :call_id, :critical, 'pending', :payload, :now_ms)
"""
_COLUMNS = (
    "id, app_scope, conversation_id, app_session_id, position, message_id, type, call_id, state, payload"
)
_GET = f"SELECT {_COLUMNS} FROM app_inbox WHERE runtime_id = :runtime_id AND id = :id"
_LIST = f"""
SELECT {_COLUMNS} FROM app_inbox
 WHERE runtime_id = :runtime_id AND app_scope = :app_scope AND state = 'pending' AND position > :after
   AND (:conversation_id IS NULL OR conversation_id = :conversation_id)
   AND (:app_session_id IS NULL OR app_session_id IS NULL OR app_session_id = :app_session_id)
 ORDER BY position LIMIT :limit
"""
_CLOSE = """
UPDATE app_inbox SET state = :state, closed_at = :now_ms
 WHERE runtime_id = :runtime_id AND id = :id AND state = 'pending'
"""
_REJECT_ALL = """
UPDATE app_inbox SET state = 'rejected', closed_at = :now_ms
 WHERE runtime_id = :runtime_id AND app_scope = :app_scope AND state = 'pending' AND critical = 1
"""
_DELETE_APP = "DELETE FROM app_inbox WHERE runtime_id = :runtime_id AND app_scope = :app_scope"
_PRUNE = """
DELETE FROM app_inbox WHERE id IN (
  SELECT old.id FROM app_inbox AS old
   WHERE old.runtime_id = :runtime_id AND (old.state <> 'pending' OR old.critical = 0)
     AND COALESCE(old.closed_at, old.created_at) < :before_ms
     AND old.position < (SELECT MAX(newest.position) FROM app_inbox AS newest
                          WHERE newest.runtime_id = old.runtime_id AND newest.app_scope = old.app_scope)
   LIMIT :limit)
"""


def is_known(tx: Tx, runtime_id: str, message: InboxMessage) -> bool:
    params = {"runtime_id": runtime_id, "app_scope": message.app_scope, "message_id": message.message_id}
    return tx.one(_KNOWN, params) is not None


def next_position(tx: Tx, runtime_id: str, app_scope: str) -> int:
    row = tx.one(_NEXT_POSITION, {"runtime_id": runtime_id, "app_scope": app_scope})
    assert row is not None
    return row[0]


def save_kept(tx: Tx, runtime_id: str, fact: MessageKept, now_ms: int) -> None:
    message = fact.message
    tx.run(
        _INSERT,
        {
            "id": fact.inbox_id,
            "runtime_id": runtime_id,
            "app_scope": message.app_scope,
            "conversation_id": message.conversation_id,
            "app_session_id": message.app_session_id,
            "position": fact.position,
            "message_id": message.message_id,
            "type": message.type,
            "call_id": message.call_id,
            "critical": int(message.critical),
            "payload": json.dumps(message.payload),
            "now_ms": now_ms,
        },
    )


def load_entry(tx: Tx, runtime_id: str, inbox_id: str) -> InboxEntry | None:
    row = tx.one(_GET, {"runtime_id": runtime_id, "id": inbox_id})
    return None if row is None else _entry(row)


def list_pending(
    tx: Tx,
    runtime_id: str,
    app_scope: str,
    *,
    conversation_id: str | None = None,
    app_session_id: str | None = None,
    after: int = 0,
    limit: int = 1000,
) -> list[InboxEntry]:
    """Pending entries in order of arrival; None means every conversation or session."""
    params = {
        "runtime_id": runtime_id,
        "app_scope": app_scope,
        "conversation_id": conversation_id,
        "app_session_id": app_session_id,
        "after": after,
        "limit": limit,
    }
    return [_entry(row) for row in tx.all(_LIST, params)]


def acknowledge(tx: Tx, runtime_id: str, inbox_id: str, now_ms: int) -> None:
    params = {"runtime_id": runtime_id, "id": inbox_id, "state": "acknowledged", "now_ms": now_ms}
    tx.run(_CLOSE, params)


def reject_critical(tx: Tx, runtime_id: str, app_scope: str, now_ms: int) -> None:
    tx.run(_REJECT_ALL, {"runtime_id": runtime_id, "app_scope": app_scope, "now_ms": now_ms})


def delete_app(tx: Tx, runtime_id: str, app_scope: str) -> None:
    tx.run(_DELETE_APP, {"runtime_id": runtime_id, "app_scope": app_scope})


def prune(tx: Tx, runtime_id: str, before_ms: int, limit: int = -1) -> int:
    """Forgets old entries that nobody has to answer; an app's newest stays, so that positions only grow."""
    return tx.run(_PRUNE, {"runtime_id": runtime_id, "before_ms": before_ms, "limit": limit})


def _entry(row: Row) -> InboxEntry:
    message = InboxMessage(
        row["app_scope"],
        row["conversation_id"],
        row["message_id"],
        row["type"],
        json.loads(row["payload"]),
        row["call_id"],
        row["app_session_id"],
    )
    return InboxEntry(row["id"], row["position"], row["state"], message)
