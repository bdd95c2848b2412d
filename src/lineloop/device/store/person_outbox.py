"""Rows of what the person says and answers, until the server has it. Decides nothing."""

from __future__ import annotations

from typing import Any

from lineloop.kit import json
from lineloop.kit.clock import rfc3339
from lineloop.kit.database import Row, Tx
from lineloop.kit.records import record
from lineloop.protocol.content import content_text

_COLUMNS = "o.id, o.conversation_id, o.key, o.kind, o.body, o.state, o.refusal, o.message_id, o.created_at"
_QUEUE = """
INSERT INTO person_outbox (id, runtime_id, position, conversation_id, key, kind, body, state, created_at)
VALUES (:id, :runtime_id,
        (SELECT COALESCE(MAX(position), 0) + 1 FROM person_outbox WHERE runtime_id = :runtime_id),
        :conversation_id, :key, :kind, :body, 'pending', :now_ms)
ON CONFLICT (runtime_id, conversation_id, key) DO NOTHING
"""
# The server has nothing under the key of a refused entry, so it may go again, at the end of the queue.
_AGAIN = """
UPDATE person_outbox SET state = 'pending', refusal = NULL, sent_at = NULL, kind = :kind, body = :body,
       position = (SELECT MAX(position) + 1 FROM person_outbox WHERE runtime_id = :runtime_id)
 WHERE runtime_id = :runtime_id AND conversation_id = :conversation_id AND key = :key
   AND refusal IS NOT NULL
"""
_PENDING = f"""
SELECT {_COLUMNS} FROM person_outbox AS o
 WHERE o.runtime_id = :runtime_id AND o.state = 'pending' ORDER BY o.position LIMIT :limit
"""
_COUNT_PENDING = "SELECT COUNT(*) FROM person_outbox WHERE runtime_id = :runtime_id AND state = 'pending'"
_SENT = """
UPDATE person_outbox SET state = 'sent', refusal = :refusal, message_id = :message_id, sent_at = :now_ms
 WHERE runtime_id = :runtime_id AND id = :id AND state = 'pending'
"""
_BY_KEY = f"""
SELECT {_COLUMNS} FROM person_outbox AS o
 WHERE o.runtime_id = :runtime_id AND o.conversation_id = :conversation_id AND o.key = :key
"""
_REFUSED = f"""
SELECT {_COLUMNS} FROM person_outbox AS o
 WHERE o.runtime_id = :runtime_id AND o.key = :key AND o.refusal IS NOT NULL LIMIT :limit
"""
_FORGET = "DELETE FROM person_outbox WHERE runtime_id = :runtime_id AND id = :id AND refusal IS NOT NULL"
# The newest of a conversation: older ones that are neither refused nor pending have long been stored.
_UNSETTLED = f"""
SELECT * FROM (
  SELECT {_COLUMNS}, o.position FROM person_outbox AS o
   WHERE o.runtime_id = :runtime_id AND o.conversation_id = :conversation_id
   ORDER BY o.position DESC LIMIT :limit) AS o
 WHERE o.state = 'pending' OR o.refusal IS NOT NULL OR o.message_id IS NOT NULL AND NOT EXISTS
   (SELECT 1 FROM person_messages AS m WHERE m.runtime_id = :runtime_id AND m.message_id = o.message_id)
 ORDER BY o.position
"""

# Of an answer nothing is kept that would tell.
_LOST = f"""
SELECT {_COLUMNS} FROM person_outbox AS o
 WHERE o.runtime_id = :runtime_id AND o.kind = 'speak' AND o.state = 'sent' AND o.refusal IS NULL
   AND (o.conversation_id = :root_id OR o.conversation_id IN
     (SELECT c.conversation_id FROM person_conversations AS c
       WHERE c.runtime_id = :runtime_id AND c.root_id = :root_id))
   AND o.message_id IS NOT NULL AND NOT EXISTS
     (SELECT 1 FROM person_messages AS m WHERE m.runtime_id = :runtime_id AND m.message_id = o.message_id)
 ORDER BY o.position DESC LIMIT :limit
"""
_REFUSE_LOST = "UPDATE person_outbox SET refusal = :code WHERE runtime_id = :runtime_id AND id = :id"


@record
class Saying:
    """Something the person says or answers. `kind`: speak | answer; `body` as its route takes it.

    `state`: pending | sent; `refusal` is the code with which the server refused it for good.
    """

    outbox_id: str
    conversation_id: str
    key: str
    kind: str
    body: dict[str, Any]
    state: str = "pending"
    refusal: str | None = None
    message_id: str | None = None
    created_at: int = 0

    def to_wire(self) -> dict[str, Any]:
        """As a page shows it; `state` is pending, sent or refused (with its `code`)."""
        content = self.body.get("content")
        wire: dict[str, Any] = {
            "key": self.key,
            "kind": self.kind,
            "conversation_id": self.conversation_id,
            "state": "refused" if self.refusal is not None else self.state,
            "text": "" if content is None else content_text(content),
            "target": self.body.get("target"),
            "reply_to_id": self.body.get("reply_to_id"),
            "question_id": self.body.get("question_id"),
            "value": self.body.get("value"),
            "message_id": self.message_id,
            "created_at": rfc3339(self.created_at),
        }
        if self.refusal is not None:
            wire["code"] = self.refusal
        return wire


def queue(tx: Tx, runtime_id: str, saying: Saying, now_ms: int) -> bool:
    """Whether it has to be sent; a key that was used before changes nothing, unless it was refused."""
    params = {
        "id": saying.outbox_id,
        "runtime_id": runtime_id,
        "conversation_id": saying.conversation_id,
        "key": saying.key,
        "kind": saying.kind,
        "body": json.dumps(saying.body),
        "now_ms": now_ms,
    }
    if tx.run(_QUEUE, params) > 0:
        return True
    again = {name: params[name] for name in ("runtime_id", "conversation_id", "key", "kind", "body")}
    return tx.run(_AGAIN, again) > 0


def pending(tx: Tx, runtime_id: str, limit: int) -> list[Saying]:
    return [_saying(row) for row in tx.all(_PENDING, {"runtime_id": runtime_id, "limit": limit})]


def count_pending(tx: Tx, runtime_id: str) -> int:
    row = tx.one(_COUNT_PENDING, {"runtime_id": runtime_id})
    return 0 if row is None else row[0]


def settle(
    tx: Tx, runtime_id: str, outbox_id: str, *, message_id: str | None, refusal: str | None, now_ms: int
) -> None:
    """The server's word: it has the saying as a message, or refuses it for good with a code."""
    params = {
        "runtime_id": runtime_id,
        "id": outbox_id,
        "message_id": message_id,
        "refusal": refusal,
        "now_ms": now_ms,
    }
    tx.run(_SENT, params)


def by_key(tx: Tx, runtime_id: str, conversation_id: str, key: str) -> Saying | None:
    row = tx.one(_BY_KEY, {"runtime_id": runtime_id, "conversation_id": conversation_id, "key": key})
    return None if row is None else _saying(row)


def lost(tx: Tx, runtime_id: str, root_id: str, limit: int) -> list[Saying]:
    """What was sent and is not among the kept messages of a root conversation."""
    rows = tx.all(_LOST, {"runtime_id": runtime_id, "root_id": root_id, "limit": limit})
    return [_saying(row) for row in rows]


def refuse_lost(tx: Tx, runtime_id: str, outbox_id: str, code: str) -> None:
    tx.run(_REFUSE_LOST, {"runtime_id": runtime_id, "id": outbox_id, "code": code})


def refused(tx: Tx, runtime_id: str, key: str, limit: int) -> list[Saying]:
    """Refused entries of this key, in whichever conversation."""
    return [_saying(row) for row in tx.all(_REFUSED, {"runtime_id": runtime_id, "key": key, "limit": limit})]


def forget(tx: Tx, runtime_id: str, outbox_id: str) -> None:
    """Drops a refused entry."""
    tx.run(_FORGET, {"runtime_id": runtime_id, "id": outbox_id})


def unsettled(tx: Tx, runtime_id: str, conversation_id: str, limit: int) -> list[Saying]:
    """What is pending, refused, or sent but not yet among the kept messages, in order; newest `limit`."""
    params = {"runtime_id": runtime_id, "conversation_id": conversation_id, "limit": limit}
    return [_saying(row) for row in tx.all(_UNSETTLED, params)]


def _saying(row: Row) -> Saying:
    return Saying(
        outbox_id=row["id"],
        conversation_id=row["conversation_id"],
        key=row["key"],
        kind=row["kind"],
        body=json.loads(row["body"]),
        state=row["state"],
        refusal=row["refusal"],
        message_id=row["message_id"],
        created_at=row["created_at"],
    )
