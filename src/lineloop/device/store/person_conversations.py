"""Rows of the person's conversations and of those whom the person may address. Decides nothing."""

from __future__ import annotations

from typing import Any

from lineloop.kit import json
from lineloop.kit.database import Tx
from lineloop.kit.records import record
from lineloop.protocol.messages import ConversationInfo

_COLUMNS = (
    "conversation_id, root_id, actor, name, opening, created_at, read_ordinal, held_from, owner, archived_at"
)
_ROOTS = f"""
SELECT {_COLUMNS} FROM person_conversations WHERE runtime_id = :runtime_id AND root_id = conversation_id
"""
_ONE = f"""
SELECT {_COLUMNS} FROM person_conversations
 WHERE runtime_id = :runtime_id AND conversation_id = :conversation_id
"""
_PROCESSES = f"""
SELECT {_COLUMNS} FROM person_conversations
 WHERE runtime_id = :runtime_id AND root_id = :root_id AND conversation_id <> :root_id
 ORDER BY conversation_id LIMIT :limit
"""
_NAME = """
INSERT INTO person_conversations
       (runtime_id, conversation_id, root_id, name, created_at, read_ordinal, owner, archived_at)
VALUES (:runtime_id, :conversation_id, :conversation_id, :name, :created_at, 0, :owner, :archived_at)
ON CONFLICT (runtime_id, conversation_id) DO UPDATE
   SET name = excluded.name, created_at = excluded.created_at, owner = excluded.owner,
       archived_at = excluded.archived_at
"""
_MEET = """
INSERT INTO person_conversations (runtime_id, conversation_id, root_id, actor, name, read_ordinal)
VALUES (:runtime_id, :conversation_id, :root_id, :actor, '', 0)
ON CONFLICT (runtime_id, conversation_id) DO UPDATE
   SET actor = COALESCE(person_conversations.actor, excluded.actor)
"""
_READ = """
UPDATE person_conversations SET read_ordinal = :ordinal
 WHERE runtime_id = :runtime_id AND conversation_id = :conversation_id AND read_ordinal < :ordinal
"""
_OPENING = """
UPDATE person_conversations SET opening = :opening
 WHERE runtime_id = :runtime_id AND conversation_id = :conversation_id
"""
_HELD = """
UPDATE person_conversations SET held_from = :held_from
 WHERE runtime_id = :runtime_id AND conversation_id = :conversation_id
"""
_FORGET_ROOT = "DELETE FROM person_conversations WHERE runtime_id = :runtime_id AND root_id = :root_id"
_LAST = """
SELECT ordinal, message FROM person_messages
 WHERE runtime_id = :runtime_id AND conversation_id = :conversation_id ORDER BY ordinal DESC LIMIT 1
"""
_RECIPIENTS = (
    "SELECT kind, key, display_name, description FROM person_recipients WHERE runtime_id = :runtime_id"
)
_SAVE_RECIPIENT = """
INSERT INTO person_recipients (runtime_id, kind, key, display_name, description)
VALUES (:runtime_id, :kind, :key, :display_name, :description)
ON CONFLICT (runtime_id, kind, key) DO UPDATE
   SET display_name = excluded.display_name, description = excluded.description
"""


@record
class Place:
    """A conversation. `actor` (KIND/KEY) is set on process conversations, `created_at` (RFC 3339) when known.

    Everything from `held_from` on is kept here; None: not known. `owner` is KIND/KEY, "" when not known yet;
    `archived_at` (RFC 3339) is set on archived ones.
    """

    conversation_id: str
    root_id: str
    actor: str | None
    name: str
    opening: str | None
    created_at: str | None
    read_ordinal: int
    held_from: int | None
    owner: str
    archived_at: str | None


@record
class Recipient:
    """Somebody who may be addressed."""

    kind: str
    key: str
    display_name: str
    description: str


def roots(tx: Tx, runtime_id: str) -> list[Place]:
    return [Place(*tuple(row)) for row in tx.all(_ROOTS, {"runtime_id": runtime_id})]


def place(tx: Tx, runtime_id: str, conversation_id: str) -> Place | None:
    row = tx.one(_ONE, {"runtime_id": runtime_id, "conversation_id": conversation_id})
    return None if row is None else Place(*tuple(row))


def processes(tx: Tx, runtime_id: str, root_id: str, limit: int) -> list[Place]:
    params = {"runtime_id": runtime_id, "root_id": root_id, "limit": limit}
    return [Place(*tuple(row)) for row in tx.all(_PROCESSES, params)]


def set_facts(tx: Tx, runtime_id: str, info: ConversationInfo) -> None:
    """A root conversation as the server has it: name, owner, archive."""
    params = {
        "runtime_id": runtime_id,
        "conversation_id": info.id,
        "name": info.name,
        "created_at": info.created_at,
        "owner": str(info.owner),
        "archived_at": info.archived_at,
    }
    tx.run(_NAME, params)


def forget_root(tx: Tx, runtime_id: str, root_id: str) -> None:
    """The conversation with its process conversations is none of the person's any more."""
    tx.run(_FORGET_ROOT, {"runtime_id": runtime_id, "root_id": root_id})


def meet(tx: Tx, runtime_id: str, conversation_id: str, root_id: str, actor: str | None) -> None:
    """A conversation that a message came from."""
    params = {
        "runtime_id": runtime_id,
        "conversation_id": conversation_id,
        "root_id": root_id,
        "actor": actor,
    }
    tx.run(_MEET, params)


def set_read(tx: Tx, runtime_id: str, conversation_id: str, ordinal: int) -> None:
    """Seen up to here; never moves back."""
    params = {"runtime_id": runtime_id, "conversation_id": conversation_id, "ordinal": ordinal}
    tx.run(_READ, params)


def set_opening(tx: Tx, runtime_id: str, conversation_id: str, opening: str) -> None:
    params = {"runtime_id": runtime_id, "conversation_id": conversation_id, "opening": opening}
    tx.run(_OPENING, params)


def set_held_from(tx: Tx, runtime_id: str, conversation_id: str, held_from: int) -> None:
    params = {"runtime_id": runtime_id, "conversation_id": conversation_id, "held_from": held_from}
    tx.run(_HELD, params)


def last_message(tx: Tx, runtime_id: str, conversation_id: str) -> tuple[int, dict[str, Any]] | None:
    """(ordinal, wire) of the newest kept message."""
    row = tx.one(_LAST, {"runtime_id": runtime_id, "conversation_id": conversation_id})
    return None if row is None else (row[0], json.loads(row[1]))


def recipients(tx: Tx, runtime_id: str) -> list[Recipient]:
    return [Recipient(*tuple(row)) for row in tx.all(_RECIPIENTS, {"runtime_id": runtime_id})]


def save_recipient(tx: Tx, runtime_id: str, recipient: Recipient) -> None:
    params = {
        "runtime_id": runtime_id,
        "kind": recipient.kind,
        "key": recipient.key,
        "display_name": recipient.display_name,
        "description": recipient.description,
    }
    tx.run(_SAVE_RECIPIENT, params)
