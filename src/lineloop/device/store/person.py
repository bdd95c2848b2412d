"""Rows of what the person has seen: messages, and how far each stream has been kept. Decides nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lineloop.kit import json
from lineloop.kit.database import Tx
from lineloop.protocol.messages import Message

_SAVE_MESSAGE = """
INSERT INTO person_messages (runtime_id, message_id, root_id, conversation_id, ordinal, revision, status,
                             purpose, author, run_id, message, envelope, updated_at)
VALUES (:runtime_id, :message_id, :root_id, :conversation_id, :ordinal, :revision, :status, :purpose,
        :author, :run_id, :message, :envelope, :now_ms)
ON CONFLICT (runtime_id, message_id) DO UPDATE
   SET revision = excluded.revision, status = excluded.status, message = excluded.message,
       envelope = excluded.envelope, updated_at = excluded.updated_at
 WHERE excluded.revision >= person_messages.revision
   AND (person_messages.status = 'streaming' OR excluded.status <> 'streaming')
"""
_HISTORY = """
SELECT message FROM person_messages
 WHERE runtime_id = :runtime_id AND conversation_id = :conversation_id AND ordinal > :after
 ORDER BY ordinal LIMIT :limit
"""
_BEFORE = """
SELECT message FROM person_messages
 WHERE runtime_id = :runtime_id AND conversation_id = :conversation_id AND ordinal < :before
 ORDER BY ordinal DESC LIMIT :limit
"""
_MESSAGE = "SELECT message FROM person_messages WHERE runtime_id = :runtime_id AND message_id = :message_id"
_OF_RUN = """
SELECT message_id FROM person_messages WHERE runtime_id = :runtime_id AND run_id = :run_id
"""
_UNREAD = """
SELECT ordinal FROM person_messages
 WHERE runtime_id = :runtime_id AND conversation_id = :conversation_id AND ordinal > :after
   AND author <> :person
 ORDER BY ordinal LIMIT :limit
"""
_STREAM = """
SELECT last_event_id FROM person_streams WHERE runtime_id = :runtime_id AND root_id = :root_id
"""
_STREAMS = (
    "SELECT root_id FROM person_streams WHERE runtime_id = :runtime_id ORDER BY updated_at DESC LIMIT :limit"
)
_SAVE_STREAM = """
INSERT INTO person_streams (runtime_id, root_id, last_event_id, updated_at)
VALUES (:runtime_id, :root_id, :last_event_id, :now_ms)
ON CONFLICT (runtime_id, root_id) DO UPDATE
   SET last_event_id = COALESCE(excluded.last_event_id, person_streams.last_event_id),
       updated_at = excluded.updated_at
"""
_FORGET_ROOT = (
    "DELETE FROM person_messages WHERE runtime_id = :runtime_id AND root_id = :root_id",
    "UPDATE person_conversations SET held_from = NULL WHERE runtime_id = :runtime_id AND root_id = :root_id",
)
LAST_ORDINAL = 2**53


def save_message(
    tx: Tx, runtime_id: str, root_id: str, message: Message, envelope: dict[str, Any], now_ms: int
) -> None:
    """Inserts, or replaces an older state."""
    params = {
        "runtime_id": runtime_id,
        "message_id": message.id,
        "root_id": root_id,
        "conversation_id": message.conversation_id,
        "ordinal": message.ordinal,
        "revision": message.revision,
        "status": str(message.status),
        "purpose": str(message.purpose),
        "author": str(message.speaker),
        "run_id": message.run_id,
        "message": json.dumps(message.to_wire()),
        "envelope": json.dumps(envelope),
        "now_ms": now_ms,
    }
    tx.run(_SAVE_MESSAGE, params)


def history(tx: Tx, runtime_id: str, conversation_id: str, after: int, limit: int) -> list[Message]:
    """Messages with a larger ordinal than `after`, in order."""
    params = {"runtime_id": runtime_id, "conversation_id": conversation_id, "after": after, "limit": limit}
    return [Message.from_wire(json.loads(row[0])) for row in tx.all(_HISTORY, params)]


def page_before(
    tx: Tx, runtime_id: str, conversation_id: str, before: int, limit: int
) -> list[dict[str, Any]]:
    """The last messages (wire) with a smaller ordinal than `before`, ascending."""
    params = {"runtime_id": runtime_id, "conversation_id": conversation_id, "before": before, "limit": limit}
    return [json.loads(row[0]) for row in reversed(tx.all(_BEFORE, params))]


def message_by_id(tx: Tx, runtime_id: str, message_id: str) -> dict[str, Any] | None:
    """The message (wire) as it was last kept."""
    row = tx.one(_MESSAGE, {"runtime_id": runtime_id, "message_id": message_id})
    return None if row is None else json.loads(row[0])


def messages_of_runs(tx: Tx, runtime_id: str, run_ids: Iterable[str]) -> dict[str, str]:
    """The ids of the messages that runs write, by run."""
    found: dict[str, str] = {}
    for run_id in set(run_ids):
        row = tx.one(_OF_RUN, {"runtime_id": runtime_id, "run_id": run_id})
        if row is not None:
            found[run_id] = row[0]
    return found


def unread_ordinals(
    tx: Tx, runtime_id: str, conversation_id: str, after: int, person: str, limit: int
) -> list[int]:
    """Ordinals after `after` of what others than `person` said."""
    params = {
        "runtime_id": runtime_id,
        "conversation_id": conversation_id,
        "after": after,
        "person": person,
        "limit": limit,
    }
    return [row[0] for row in tx.all(_UNREAD, params)]


def last_event_id(tx: Tx, runtime_id: str, root_id: str) -> str | None:
    row = tx.one(_STREAM, {"runtime_id": runtime_id, "root_id": root_id})
    return None if row is None else row[0]


def known_roots(tx: Tx, runtime_id: str, limit: int) -> list[str]:
    """Root conversations followed before, the last active first."""
    return [row[0] for row in tx.all(_STREAMS, {"runtime_id": runtime_id, "limit": limit})]


def save_stream(tx: Tx, runtime_id: str, root_id: str, event_id: str | None, now_ms: int) -> None:
    """Remembers up to where the stream has been kept; None only notes that it is followed."""
    params = {"runtime_id": runtime_id, "root_id": root_id, "last_event_id": event_id, "now_ms": now_ms}
    tx.run(_SAVE_STREAM, params)


def forget_root(tx: Tx, runtime_id: str, root_id: str) -> None:
    """Drops the kept messages of a root conversation and its process conversations."""
    for statement in _FORGET_ROOT:
        tx.run(statement, {"runtime_id": runtime_id, "root_id": root_id})
