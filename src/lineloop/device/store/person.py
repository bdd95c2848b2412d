"""Rows of the person's history, streams and outbox. Decides nothing."""

from __future__ import annotations

import sqlite3
from typing import Any

from lineloop.kit import json
from lineloop.kit.records import record
from lineloop.kit.transaction import Tx
from lineloop.protocol.messages import Message

_SAVE_MESSAGE = """
INSERT INTO person_messages (runtime_id, message_id, root_id, conversation_id, ordinal, revision, status,
                             purpose, message, envelope, updated_at)
VALUES (:runtime_id, :message_id, :root_id, :conversation_id, :ordinal, :revision, :status, :purpose,
        :message, :envelope, :now_ms)
ON CONFLICT (runtime_id, message_id) DO UPDATE
   SET revision = excluded.revision, status = excluded.status, message = excluded.message,
       envelope = excluded.envelope, updated_at = excluded.updated_at
 WHERE excluded.revision >= person_messages.revision
"""
_HISTORY = """
SELECT message FROM person_messages
 WHERE runtime_id = :runtime_id AND conversation_id = :conversation_id AND ordinal > :after
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
_QUEUE = """
INSERT INTO person_outbox (id, runtime_id, position, conversation_id, key, kind, body, state, created_at)
VALUES (:id, :runtime_id,
        (SELECT COALESCE(MAX(position), 0) + 1 FROM person_outbox WHERE runtime_id = :runtime_id),
        :conversation_id, :key, :kind, :body, 'pending', :now_ms)
ON CONFLICT (runtime_id, conversation_id, key) DO NOTHING
"""
_PENDING = """
SELECT id, conversation_id, key, kind, body FROM person_outbox
 WHERE runtime_id = :runtime_id AND state = 'pending' ORDER BY position LIMIT :limit
"""
_COUNT_PENDING = "SELECT COUNT(*) FROM person_outbox WHERE runtime_id = :runtime_id AND state = 'pending'"
_SENT = """
UPDATE person_outbox SET state = 'sent', refusal = :refusal, sent_at = :now_ms
 WHERE runtime_id = :runtime_id AND id = :id AND state = 'pending'
"""
_REFUSAL = """
SELECT refusal FROM person_outbox
 WHERE runtime_id = :runtime_id AND conversation_id = :conversation_id AND key = :key
"""


@record
class Saying:
    """Something the person says or answers. `kind`: speak | answer; `body` as its route takes it."""

    outbox_id: str
    conversation_id: str
    key: str
    kind: str
    body: dict[str, Any]


def save_message(
    tx: Tx, runtime_id: str, root_id: str, message: Message, envelope: dict[str, Any], now_ms: int
) -> None:
    """Inserts, or replaces an older revision."""
    params = {
        "runtime_id": runtime_id,
        "message_id": message.id,
        "root_id": root_id,
        "conversation_id": message.conversation_id,
        "ordinal": message.ordinal,
        "revision": message.revision,
        "status": str(message.status),
        "purpose": str(message.purpose),
        "message": json.dumps(message.to_wire()),
        "envelope": json.dumps(envelope),
        "now_ms": now_ms,
    }
    tx.run(_SAVE_MESSAGE, params)


def history(tx: Tx, runtime_id: str, conversation_id: str, after: int, limit: int) -> list[Message]:
    """Messages with a larger ordinal than `after`, in order."""
    params = {"runtime_id": runtime_id, "conversation_id": conversation_id, "after": after, "limit": limit}
    return [Message.from_wire(json.loads(row[0])) for row in tx.all(_HISTORY, params)]


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


def queue(tx: Tx, runtime_id: str, saying: Saying, now_ms: int) -> bool:
    """Whether it is new; a key that was used before changes nothing."""
    params = {
        "id": saying.outbox_id,
        "runtime_id": runtime_id,
        "conversation_id": saying.conversation_id,
        "key": saying.key,
        "kind": saying.kind,
        "body": json.dumps(saying.body),
        "now_ms": now_ms,
    }
    return tx.run(_QUEUE, params) > 0


def pending(tx: Tx, runtime_id: str, limit: int) -> list[Saying]:
    return [_saying(row) for row in tx.all(_PENDING, {"runtime_id": runtime_id, "limit": limit})]


def count_pending(tx: Tx, runtime_id: str) -> int:
    row = tx.one(_COUNT_PENDING, {"runtime_id": runtime_id})
    return 0 if row is None else row[0]


def settle(tx: Tx, runtime_id: str, outbox_id: str, refusal: str | None, now_ms: int) -> None:
    """The server's word: it has the saying, or refuses it for good with a code."""
    tx.run(_SENT, {"runtime_id": runtime_id, "id": outbox_id, "refusal": refusal, "now_ms": now_ms})


def refusal_of(tx: Tx, runtime_id: str, conversation_id: str, key: str) -> str | None:
    row = tx.one(_REFUSAL, {"runtime_id": runtime_id, "conversation_id": conversation_id, "key": key})
    return None if row is None else row[0]


def _saying(row: sqlite3.Row) -> Saying:
    return Saying(row["id"], row["conversation_id"], row["key"], row["kind"], json.loads(row["body"]))
