"""Rows of blobs: what is stored, who brought it, which messages refer to it. SQL only.

The bytes lie in their place (server/blobs); rows here say which place that is.
"""

from __future__ import annotations

from collections.abc import Sequence

from lineloop.kit.database import Tx
from lineloop.kit.records import record
from lineloop.protocol.actors import Actor
from lineloop.protocol.attachments import Attachment
from lineloop.server.records import stored_actor

_KEEP = """
INSERT INTO blobs (hash, bytes, place, stored_at) VALUES (:hash, :bytes, :place, :now)
ON CONFLICT (hash) DO UPDATE SET stored_at = excluded.stored_at RETURNING place
"""
_UPLOADED = """
INSERT INTO blob_uploads (hash, actor_kind, actor_key, media_type) VALUES (:hash, :kind, :key, :media_type)
ON CONFLICT (hash, actor_kind, actor_key) DO UPDATE SET media_type = excluded.media_type
"""
_GET = "SELECT hash, bytes, place FROM blobs WHERE hash = :hash"
# Naming the row is also what keeps a sweep on another server from removing it meanwhile.
_TOUCH = "UPDATE blobs SET stored_at = :now WHERE hash = :hash RETURNING bytes"
_UPLOADS = "SELECT actor_kind, actor_key, media_type FROM blob_uploads WHERE hash = :hash"
_REFER = """
INSERT INTO blob_references (hash, message_id, block_id, conversation_id, name, media_type)
VALUES (:hash, :message_id, :block_id, :conversation_id, :name, :media_type)
"""
_REFERENCES = """
SELECT message_id, conversation_id, name, media_type FROM blob_references
WHERE hash = :hash AND message_id > :after ORDER BY message_id LIMIT :limit
"""
_REFERENCE = """
SELECT message_id, conversation_id, name, media_type FROM blob_references
WHERE hash = :hash AND message_id = :message_id ORDER BY block_id LIMIT 1
"""
_FORGET_MESSAGE = "DELETE FROM blob_references WHERE message_id = :message_id"
_UNREFERENCED = """
SELECT hash FROM blobs WHERE stored_at < :before
    AND NOT EXISTS (SELECT 1 FROM blob_references AS r WHERE r.hash = blobs.hash)
ORDER BY stored_at LIMIT :limit
"""
_CLAIM = """
UPDATE blobs SET stored_at = stored_at WHERE hash = :hash AND stored_at < :before
    AND NOT EXISTS (SELECT 1 FROM blob_references AS r WHERE r.hash = :hash)
RETURNING place
"""
_FORGET_UPLOADS = "DELETE FROM blob_uploads WHERE hash = :hash"
_FORGET = "DELETE FROM blobs WHERE hash = :hash"
_PLACE = "SELECT 1 FROM blobs WHERE place = :place"
_PART = "SELECT body FROM blob_parts WHERE place = :place AND seq = :seq"
_INSERT_PART = """
INSERT INTO blob_parts (place, seq, stored_at, body) VALUES (:place, :seq, :now, :body)
ON CONFLICT (place, seq) DO NOTHING
"""
_REMOVE_PARTS = """
DELETE FROM blob_parts WHERE place = :place
    AND seq IN (SELECT seq FROM blob_parts WHERE place = :place ORDER BY seq DESC LIMIT :limit)
"""
_LOST_PARTS = """
SELECT DISTINCT place FROM blob_parts AS p WHERE seq = 0 AND stored_at < :before
    AND NOT EXISTS (SELECT 1 FROM blobs WHERE blobs.place = p.place) LIMIT :limit
"""


@record
class BlobRow:
    """Stored bytes and the name of the place where they lie."""

    hash: str
    bytes: int
    place: str


@record
class Reference:
    """A message's attachment."""

    message_id: str
    conversation_id: str
    name: str
    media_type: str


def keep(tx: Tx, blob: BlobRow, uploader: Actor, media_type: str, now: int) -> str:
    """The place of the bytes with that hash: another one when they were stored before."""
    row = tx.one(_KEEP, {"hash": blob.hash, "bytes": blob.bytes, "place": blob.place, "now": now})
    assert row is not None
    tx.run(
        _UPLOADED,
        {"hash": blob.hash, "kind": uploader.kind, "key": uploader.key, "media_type": media_type},
    )
    return row[0]


def get(tx: Tx, blob_hash: str) -> BlobRow | None:
    row = tx.one(_GET, {"hash": blob_hash})
    return BlobRow(row[0], row[1], row[2]) if row else None


def touch(tx: Tx, blob_hash: str, now: int) -> int | None:
    """Its size in bytes, and a new life; None when there is none."""
    row = tx.one(_TOUCH, {"hash": blob_hash, "now": now})
    return row[0] if row else None


def uploads(tx: Tx, blob_hash: str) -> list[tuple[Actor, str]]:
    """Who uploaded it, as what media type."""
    return [(stored_actor(row[0], row[1]), row[2]) for row in tx.all(_UPLOADS, {"hash": blob_hash})]


def refer(tx: Tx, message_id: str, conversation_id: str, attachment: Attachment) -> None:
    tx.run(
        _REFER,
        {
            "hash": attachment.hash,
            "message_id": message_id,
            "block_id": attachment.block_id,
            "conversation_id": conversation_id,
            "name": attachment.name,
            "media_type": attachment.media_type,
        },
    )


def references(tx: Tx, blob_hash: str, *, after: str, limit: int) -> list[Reference]:
    """Attachments with that hash, by message."""
    rows = tx.all(_REFERENCES, {"hash": blob_hash, "after": after, "limit": limit})
    return [Reference(row[0], row[1], row[2], row[3]) for row in rows]


def reference(tx: Tx, blob_hash: str, message_id: str) -> Reference | None:
    row = tx.one(_REFERENCE, {"hash": blob_hash, "message_id": message_id})
    return Reference(row[0], row[1], row[2], row[3]) if row else None


def forget_message(tx: Tx, message_id: str) -> None:
    """The message is removed; what it alone referred to will be swept."""
    tx.run(_FORGET_MESSAGE, {"message_id": message_id})


def unreferenced(tx: Tx, before: int, limit: int) -> list[str]:
    """Hashes of blobs that were last stored or referred to before that time and that no message has."""
    return [row[0] for row in tx.all(_UNREFERENCED, {"before": before, "limit": limit})]


def forget(tx: Tx, blob_hash: str, before: int) -> str | None:
    """The place whose bytes may go now; None when somebody wants the blob again."""
    row = tx.one(_CLAIM, {"hash": blob_hash, "before": before})
    if row is None:
        return None
    tx.run(_FORGET_UPLOADS, {"hash": blob_hash})
    tx.run(_FORGET, {"hash": blob_hash})
    return row[0]


def lost_places(tx: Tx, places: Sequence[str]) -> list[str]:
    """Those places that belong to no blob."""
    return [place for place in places if tx.one(_PLACE, {"place": place}) is None]


def part(tx: Tx, place: str, seq: int) -> bytes | None:
    row = tx.one(_PART, {"place": place, "seq": seq})
    return bytes(row[0]) if row else None


def insert_part(tx: Tx, place: str, seq: int, body: bytes, now: int) -> None:
    tx.run(_INSERT_PART, {"place": place, "seq": seq, "body": body, "now": now})


def remove_parts(tx: Tx, place: str, limit: int) -> int:
    """From the end, so that what is left is still found; how many."""
    return tx.run(_REMOVE_PARTS, {"place": place, "limit": limit})


def lost_parts(tx: Tx, before: int, limit: int) -> list[str]:
    """Places begun before that time which belong to no blob."""
    return [row[0] for row in tx.all(_LOST_PARTS, {"before": before, "limit": limit})]
