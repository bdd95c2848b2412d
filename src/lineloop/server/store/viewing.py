"""What viewers read: how far things are, and how much of a read would be too much. SQL only.

A place says where a message is and how heavy, without its content, so that whoever sends many can read them
in parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lineloop.kit.database import Tx
from lineloop.kit.records import record
from lineloop.server.records import StoredMessage
from lineloop.server.store import messages

_LOGGED = """
CASE WHEN m.status = 'streaming' OR m.snapshot_revision < m.revision THEN coalesce((SELECT
    sum(length(patch)) FROM patches WHERE message_id = m.id AND seq > m.snapshot_revision), 0) ELSE 0 END
"""
_PLACE = f"m.id, m.conversation_id, m.change, length(m.content) + {_LOGGED}"
_WEIGHT = f"SELECT length(m.content) + {_LOGGED} FROM messages AS m WHERE m.id = :id"
_CHANGED = f"""
SELECT {_PLACE} FROM messages AS m WHERE m.root_id = :root_id AND m.change > :after
ORDER BY m.change LIMIT :limit
"""
_NEWEST = f"""
SELECT {_PLACE} FROM messages AS m WHERE m.root_id = :root_id ORDER BY m.change DESC LIMIT :limit
"""
_OPEN = f"""
SELECT {_PLACE} FROM messages AS m WHERE m.root_id = :root_id AND m.status = 'streaming' ORDER BY m.change
"""
_CHANGE = "SELECT change FROM conversations WHERE id = :id"
_CHANGES = "SELECT id, change, membership FROM conversations WHERE id IN ({names})"
_REVISIONS = """
SELECT m.root_id, m.id, coalesce((SELECT max(seq) FROM patches WHERE message_id = m.id), m.revision)
FROM messages AS m WHERE m.root_id IN ({names}) AND m.status = 'streaming'
"""
_BETWEEN = """
SELECT seq, patch FROM patches WHERE message_id = :message_id AND seq >= :first AND seq <= :last ORDER BY seq
"""
_WEIGHT_BETWEEN = """
SELECT coalesce(sum(length(patch)), 0) FROM patches
WHERE message_id = :message_id AND seq >= :first AND seq <= :last
"""


@record
class Place:
    """A message without its content; `weight` is about the bytes that reading it whole takes."""

    id: str
    conversation_id: str
    change: int
    weight: int


def weight(tx: Tx, message_id: str) -> int:
    """About the bytes of a message's content; 0 when there is none."""
    row = tx.one(_WEIGHT, {"id": message_id})
    return row[0] if row else 0


def changed(tx: Tx, root_id: str, *, after: int, limit: int) -> list[Place]:
    """Messages of a root and its process conversations with a larger change, in order of change."""
    return _places(tx, _CHANGED, {"root_id": root_id, "after": after, "limit": limit})


def newest(tx: Tx, root_id: str, *, limit: int) -> list[Place]:
    """The last `limit` messages by change, in order of change."""
    return _places(tx, _NEWEST, {"root_id": root_id, "limit": limit})[::-1]


def open_streams(tx: Tx, root_id: str) -> list[Place]:
    """Every streaming message of a root conversation and its process conversations."""
    return _places(tx, _OPEN, {"root_id": root_id})


def whole(tx: Tx, places: Sequence[Place]) -> list[StoredMessage]:
    """The messages as they are now, in the order of their places; one that is gone is left out."""
    found = [messages.get(tx, place.id) for place in places]
    return [message for message in found if message is not None]


def change_of(tx: Tx, root_id: str) -> int:
    row = tx.one(_CHANGE, {"id": root_id})
    return row[0] if row else 0


def changes(tx: Tx, roots: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Of those root conversations that exist, the counters of changes and of those who left.

    For a few dozen at a time.
    """
    names, params = _listed(roots)
    return {row[0]: (row[1], row[2]) for row in tx.all(_CHANGES.format(names=names), params)}


def stream_revisions(tx: Tx, roots: Sequence[str]) -> dict[str, dict[str, int]]:
    """By root conversation: its open streams and the seq of their last patch."""
    names, params = _listed(roots)
    found: dict[str, dict[str, int]] = {}
    for row in tx.all(_REVISIONS.format(names=names), params):
        found.setdefault(row[0], {})[row[1]] = row[2]
    return found


def patches_between(
    tx: Tx, message_id: str, first: int, last: int, *, max_bytes: int
) -> list[tuple[int, str]]:
    """(seq, JSON text) of the patches from `first` to `last`; only the last one when all are too much."""
    params = {"message_id": message_id, "first": first, "last": last}
    row = tx.one(_WEIGHT_BETWEEN, params)
    if row is not None and row[0] > max_bytes:
        params["first"] = last
    return [(row[0], row[1]) for row in tx.all(_BETWEEN, params)]


def _places(tx: Tx, sql: str, params: dict[str, Any]) -> list[Place]:
    return [Place(row[0], row[1], row[2], row[3]) for row in tx.all(sql, params)]


def _listed(values: Sequence[str]) -> tuple[str, dict[str, object]]:
    params: dict[str, object] = {f"n{index}": value for index, value in enumerate(values)}
    return ", ".join(f":{name}" for name in params), params
