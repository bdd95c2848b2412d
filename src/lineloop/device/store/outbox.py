"""Rows of the outbox, cursors, seen envelopes, inventories, the server's epoch. SQL and row mapping only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lineloop.kit.database import Tx
from lineloop.kit.records import record

_INSERT = """
  INSERT INTO outbox (runtime_id, conversation_id, key, message, state, created_at)
  VALUES (?, ?, ?, ?, 'pending', ?)
"""
_BY_KEY = """
  SELECT conversation_id, key, message FROM outbox
  WHERE runtime_id = :runtime_id AND conversation_id = :conversation_id AND key = :key
"""
_OF_CALL = """
  SELECT key, state, created_at, sent_at, refusal FROM outbox
  WHERE conversation_id = :conversation_id AND key >= :first AND key < :last ORDER BY position
"""
_PENDING = """
  SELECT conversation_id, key, message FROM outbox
  WHERE runtime_id = :runtime_id AND state = 'pending' ORDER BY position
"""
_COUNT_PENDING = "SELECT COUNT(*) FROM outbox WHERE runtime_id = :runtime_id AND state = 'pending'"
_SENT = """
  UPDATE outbox SET state = 'sent', sent_at = ?, refusal = ?
  WHERE runtime_id = ? AND conversation_id = ? AND key = ? AND state = 'pending'
"""
_CURSOR = """
  SELECT position FROM cursors WHERE runtime_id = :runtime_id AND conversation_id = :conversation_id
"""
_MOVE_CURSOR = """
  INSERT INTO cursors (runtime_id, conversation_id, position, updated_at) VALUES (?, ?, ?, ?)
  ON CONFLICT (runtime_id, conversation_id) DO UPDATE
    SET position = excluded.position, updated_at = excluded.updated_at
    WHERE excluded.position > cursors.position
"""
_KEEP_EPOCH = """
  INSERT INTO server_epochs (runtime_id, epoch) VALUES (?, ?)
  ON CONFLICT (runtime_id) DO UPDATE SET epoch = excluded.epoch
"""
_SEND_AGAIN = """
  UPDATE outbox SET state = 'pending', sent_at = NULL
  WHERE runtime_id = ? AND state = 'sent' AND refusal IS NULL
"""
_CURSORS = "SELECT conversation_id, position FROM cursors WHERE runtime_id = :runtime_id"
_SEE = """
  INSERT INTO envelopes_seen (runtime_id, agent, conversation_id, envelope_id, received_at)
  VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING
"""


@record
class Entry:
    """An outbox row: what is spoken, as JSON text of the link's item, in which conversation, under which
    key.
    """

    conversation_id: str
    key: str
    text: str


@record
class Settled:
    """The server's word about an entry: acknowledged, or refused for good with a code."""

    conversation_id: str
    key: str
    refusal: str | None = None


def insert(tx: Tx, runtime_id: str, entry: Entry, now: int) -> None:
    tx.run(_INSERT, (runtime_id, entry.conversation_id, entry.key, entry.text, now))


def by_key(tx: Tx, runtime_id: str, conversation_id: str, key: str) -> Entry | None:
    about = {"runtime_id": runtime_id, "conversation_id": conversation_id, "key": key}
    row = tx.one(_BY_KEY, about)
    return Entry(row[0], row[1], row[2]) if row is not None else None


def of_call(tx: Tx, conversation_id: str, call_ref: str) -> list[dict[str, Any]]:
    """The messages that carry a call's answers as plain values, in order."""
    # `answer_key`: the reference, a slash, a number; the character after the slash is 0.
    about = {"conversation_id": conversation_id, "first": f"{call_ref}/", "last": f"{call_ref}0"}
    return [dict(zip(row.keys(), tuple(row), strict=True)) for row in tx.all(_OF_CALL, about)]


def pending(tx: Tx, runtime_id: str) -> list[Entry]:
    rows = tx.all(_PENDING, {"runtime_id": runtime_id})
    return [Entry(row[0], row[1], row[2]) for row in rows]


def count_pending(tx: Tx, runtime_id: str) -> int:
    row = tx.one(_COUNT_PENDING, {"runtime_id": runtime_id})
    return row[0] if row is not None else 0


def settle(tx: Tx, runtime_id: str, settled: Iterable[Settled], now: int) -> None:
    for one in settled:
        tx.run(_SENT, (now, one.refusal, runtime_id, one.conversation_id, one.key))


def cursor(tx: Tx, runtime_id: str, conversation_id: str) -> int:
    """The offset up to which messages have been taken; 0 when none has."""
    row = tx.one(_CURSOR, {"runtime_id": runtime_id, "conversation_id": conversation_id})
    return row[0] if row is not None else 0


def cursors(tx: Tx, runtime_id: str) -> dict[str, int]:
    return {row[0]: row[1] for row in tx.all(_CURSORS, {"runtime_id": runtime_id})}


def move_cursor(tx: Tx, runtime_id: str, conversation_id: str, position: int, now: int) -> None:
    tx.run(_MOVE_CURSOR, (runtime_id, conversation_id, position, now))


def see_envelope(
    tx: Tx, runtime_id: str, agent: str, conversation_id: str, envelope_id: str, now: int
) -> bool:
    """Whether this envelope is seen for the first time."""
    return tx.run(_SEE, (runtime_id, agent, conversation_id, envelope_id, now)) > 0


def sender_of_envelope(tx: Tx, runtime_id: str, conversation_id: str, envelope_id: str) -> str | None:
    """The agent that an envelope came from."""
    row = tx.one(
        "SELECT agent FROM envelopes_seen WHERE runtime_id = :runtime_id"
        " AND conversation_id = :conversation_id AND envelope_id = :envelope_id",
        {"runtime_id": runtime_id, "conversation_id": conversation_id, "envelope_id": envelope_id},
    )
    return row[0] if row is not None else None


def known_epoch(tx: Tx, runtime_id: str) -> str | None:
    """The life of the server's database that cursors and acknowledgements are of; None before the first."""
    row = tx.one("SELECT epoch FROM server_epochs WHERE runtime_id = ?", (runtime_id,))
    return row[0] if row is not None else None


def keep_epoch(tx: Tx, runtime_id: str, epoch: str) -> None:
    tx.run(_KEEP_EPOCH, (runtime_id, epoch))


def forget_server(tx: Tx, runtime_id: str) -> None:
    """What a server knew is not known to be with it any more: cursors, inventories, and what was sent.

    What it refused for good stays refused. Envelopes and calls stay: what comes again is known.
    """
    tx.run("DELETE FROM cursors WHERE runtime_id = ?", (runtime_id,))
    tx.run("DELETE FROM inventories WHERE runtime_id = ?", (runtime_id,))
    tx.run(_SEND_AGAIN, (runtime_id,))
