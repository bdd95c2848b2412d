"""Rows of messages. SQL only.

A message's content is stored as a snapshot at `snapshot_revision`; what was patched since is in the log (see
`patches`). `with_log` brings both together for readers; a completed, folded message needs no parsing at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lineloop.kit import json
from lineloop.kit.database import Row, Tx
from lineloop.kit.records import record
from lineloop.protocol.actors import Actor
from lineloop.protocol.messages import MessageStatus, Purpose
from lineloop.protocol.patches import fold
from lineloop.server.records import StoredMessage, stored_actor

_COLUMNS = """
m.id, m.conversation_id, m.root_id, m.actor_kind, m.actor_key, m.target_kind, m.target_key, m.key,
m.reply_to_id, m.purpose, m.status, m.revision, m.ordinal, m.offset_, m.change, m.run_id, m.on_behalf_kind,
m.on_behalf_key, m.call_id, m.created_at, m.updated_at, m.content, m.snapshot_revision
"""
_GET = f"SELECT {_COLUMNS} FROM messages AS m WHERE m.id = :id"
_BY_KEY = f"""
SELECT {_COLUMNS} FROM messages AS m
WHERE m.conversation_id = :conversation_id AND m.key = :key AND m.actor_kind = :kind
    AND m.actor_key = :actor_key
"""
# By position and with plain strings: 26 names, or the adapter of an enum, cost as much as the row.
_INSERT = """
INSERT INTO messages (id, conversation_id, root_id, actor_kind, actor_key, target_kind, target_key, key,
    reply_to_id, purpose, status, revision, ordinal, offset_, change, run_id, on_behalf_kind, on_behalf_key,
    call_id, digest, due_at, question, created_at, updated_at, snapshot_revision, content)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_INBOX = f"""
SELECT * FROM (
    SELECT * FROM (SELECT {_COLUMNS} FROM messages AS m WHERE m.conversation_id = :conversation_id
        AND m.target_kind = :kind AND m.target_key = :key AND m.offset_ > :after
        ORDER BY m.offset_ LIMIT :limit) AS targeted
    UNION ALL
    SELECT * FROM (SELECT {_COLUMNS} FROM messages AS m WHERE m.conversation_id = :conversation_id
        AND m.target_kind = '' AND m.target_key = '' AND m.offset_ > :after
        AND NOT (m.actor_kind = :kind AND m.actor_key = :key)
        ORDER BY m.offset_ LIMIT :limit) AS broadcast
) AS inbox ORDER BY offset_ LIMIT :limit
"""
_INBOX_END = """
SELECT max(offset_) FROM (
    SELECT max(offset_) AS offset_ FROM messages WHERE conversation_id = :conversation_id
        AND target_kind = :kind AND target_key = :key
    UNION ALL
    SELECT offset_ FROM (SELECT offset_ FROM messages WHERE conversation_id = :conversation_id
        AND target_kind = '' AND target_key = '' AND offset_ IS NOT NULL
        AND NOT (actor_kind = :kind AND actor_key = :key) ORDER BY offset_ DESC LIMIT 1)
        AS last_broadcast
) AS ends
"""
_CHANGED = f"""
SELECT {_COLUMNS} FROM messages AS m WHERE m.root_id = :root_id AND m.change > :after
ORDER BY m.change LIMIT :limit
"""
_NEWEST = f"""
SELECT * FROM (SELECT {_COLUMNS} FROM messages AS m WHERE m.root_id = :root_id
    ORDER BY m.change DESC LIMIT :limit) AS newest ORDER BY change
"""
_OPEN = f"""
SELECT {_COLUMNS} FROM messages AS m WHERE m.root_id = :root_id AND m.status = 'streaming' ORDER BY m.change
"""
_HEAD = """
SELECT conversation_id, root_id, actor_kind, actor_key, target_kind, target_key, purpose, status, revision,
    ordinal, offset_, change, run_id, snapshot_revision,
    (SELECT max(seq) FROM patches WHERE message_id = :id) AS last_seq
FROM messages WHERE id = :id
"""
_END = """
UPDATE messages SET status = :status, revision = :revision, offset_ = :offset, change = :change,
    updated_at = :now WHERE id = :id AND status = 'streaming'
"""
_ROOT_OF = "SELECT root_id FROM messages WHERE id = :id"
_FOLD = """
UPDATE messages SET content = :content, snapshot_revision = :revision
WHERE id = :id AND snapshot_revision < :revision
"""
_HEARD_AT = "coalesce((SELECT max(created_at) FROM patches WHERE message_id = m.id), m.updated_at)"
_SILENT = f"""
SELECT m.id, m.root_id, {_HEARD_AT} FROM messages AS m
WHERE m.status = 'streaming' AND m.run_id IS NULL AND m.updated_at < :before
    AND NOT EXISTS (SELECT 1 FROM patches WHERE message_id = m.id AND created_at >= :before)
ORDER BY m.updated_at LIMIT :limit
"""
_OPEN_HEARD_AT = f"SELECT {_HEARD_AT} FROM messages AS m WHERE m.id = :id AND m.status = 'streaming'"
_UNFOLDED = """
SELECT id FROM messages WHERE status <> 'streaming' AND snapshot_revision < revision ORDER BY id LIMIT :limit
"""
_LOG = "SELECT seq, created_at, patch FROM patches WHERE message_id = :id AND seq > :after ORDER BY seq"


@record
class MessageHead:
    """What an append or an end needs to know; `revision` is the seq of the last logged patch."""

    conversation_id: str
    root_id: str
    actor: Actor
    target: Actor | None
    purpose: Purpose
    status: MessageStatus
    revision: int
    ordinal: int
    offset: int | None
    change: int
    run_id: str | None
    snapshot_revision: int


def insert(
    tx: Tx,
    message: StoredMessage,
    *,
    digest: str | None = None,
    due_at: int | None = None,
    question: str | None = None,
) -> None:
    """Fails, at the latest with the job, when the key exists."""
    tx.put(
        _INSERT,
        (
            message.id,
            message.conversation_id,
            message.root_id,
            message.actor_kind,
            message.actor_key,
            message.target_kind,
            message.target_key,
            message.key,
            message.reply_to_id,
            message.purpose.value,
            message.status.value,
            message.revision,
            message.ordinal,
            message.offset,
            message.change,
            message.run_id,
            message.on_behalf_kind,
            message.on_behalf_key,
            message.call_id,
            digest,
            due_at,
            question,
            message.created_at,
            message.created_at,
            message.revision,
            message.content_json,
        ),
    )


def get(tx: Tx, message_id: str) -> StoredMessage | None:
    row = tx.one(_GET, {"id": message_id})
    return from_row(tx, row) if row else None


def by_key(tx: Tx, conversation_id: str, actor: Actor, key: str) -> StoredMessage | None:
    row = tx.one(
        _BY_KEY,
        {"conversation_id": conversation_id, "kind": actor.kind, "actor_key": actor.key, "key": key},
    )
    return from_row(tx, row) if row else None


def head(tx: Tx, message_id: str) -> MessageHead | None:
    """Without the content: its cost does not depend on the message's size."""
    row = tx.one(_HEAD, {"id": message_id})
    if row is None:
        return None
    target = stored_actor(row["target_kind"], row["target_key"]) if row["target_kind"] else None
    return MessageHead(
        conversation_id=row["conversation_id"],
        root_id=row["root_id"],
        actor=stored_actor(row["actor_kind"], row["actor_key"]),
        target=target,
        purpose=Purpose(row["purpose"]),
        status=MessageStatus(row["status"]),
        revision=max(row["revision"], row["last_seq"] or 0),
        ordinal=row["ordinal"],
        offset=row["offset_"],
        change=row["change"],
        run_id=row["run_id"],
        snapshot_revision=row["snapshot_revision"],
    )


def root_of(tx: Tx, message_id: str) -> str | None:
    """The root conversation that the message lies under; None when there is no such message."""
    row = tx.one(_ROOT_OF, {"id": message_id})
    return row[0] if row else None


def inbox(tx: Tx, conversation_id: str, actor: Actor, *, after: int, limit: int) -> list[StoredMessage]:
    """Deliverable messages for `actor` beyond offset `after`: targeted at it, or broadcast by others."""
    rows = tx.all(
        _INBOX,
        {
            "conversation_id": conversation_id,
            "kind": actor.kind,
            "key": actor.key,
            "after": after,
            "limit": limit,
        },
    )
    return from_rows(tx, rows)


def inbox_end(tx: Tx, conversation_id: str, actor: Actor) -> int:
    """The offset of the last deliverable message for `actor`, 0 when there is none."""
    row = tx.one(_INBOX_END, {"conversation_id": conversation_id, "kind": actor.kind, "key": actor.key})
    return (row[0] if row else None) or 0


def changed(tx: Tx, root_id: str, *, after: int, limit: int) -> list[StoredMessage]:
    """Messages of a root and its process conversations with a larger change, in order of change."""
    return from_rows(tx, tx.all(_CHANGED, {"root_id": root_id, "after": after, "limit": limit}))


def newest(tx: Tx, root_id: str, *, limit: int) -> list[StoredMessage]:
    """The last `limit` messages by change, in order of change."""
    return from_rows(tx, tx.all(_NEWEST, {"root_id": root_id, "limit": limit}))


def open_streams(tx: Tx, root_id: str) -> list[StoredMessage]:
    """Every streaming message of a root conversation and its process conversations, whole."""
    return from_rows(tx, tx.all(_OPEN, {"root_id": root_id}))


def set_ended(
    tx: Tx, message_id: str, *, status: MessageStatus, revision: int, offset: int, change: int, now: int
) -> int:
    return tx.run(
        _END,
        {
            "id": message_id,
            "status": status,
            "revision": revision,
            "offset": offset,
            "change": change,
            "now": now,
        },
    )


def set_snapshot(tx: Tx, message_id: str, *, content: str, revision: int) -> None:
    """Moves the snapshot forward; an older one than the stored one changes nothing."""
    tx.put(_FOLD, {"id": message_id, "content": content, "revision": revision})


@record
class SilentStream:
    """An open message and the time (UTC ms) of its last sign of life."""

    id: str
    root_id: str
    heard_at: int


def silent_streams(tx: Tx, *, before: int, limit: int) -> list[SilentStream]:
    """Open messages, not a run's, whose last sign of life is older than `before`."""
    return [
        SilentStream(row[0], row[1], row[2]) for row in tx.all(_SILENT, {"before": before, "limit": limit})
    ]


def heard_at(tx: Tx, message_id: str) -> int | None:
    """When an open message was last written to; None when it is not open."""
    row = tx.one(_OPEN_HEARD_AT, {"id": message_id})
    return row[0] if row else None


def unfolded(tx: Tx, limit: int) -> list[str]:
    """Ended messages whose snapshot lags behind the log."""
    return [row[0] for row in tx.all(_UNFOLDED, {"limit": limit})]


def from_rows(tx: Tx, rows: Sequence[Row]) -> list[StoredMessage]:
    return [from_row(tx, row) for row in rows]


def from_row(tx: Tx, row: Row) -> StoredMessage:
    """The whole message: snapshot and log brought together where the snapshot is behind."""
    message = StoredMessage(
        id=row[0],
        conversation_id=row[1],
        root_id=row[2],
        actor_kind=row[3],
        actor_key=row[4],
        target_kind=row[5],
        target_key=row[6],
        key=row[7],
        reply_to_id=row[8],
        purpose=Purpose(row[9]),
        status=MessageStatus(row[10]),
        revision=row[11],
        ordinal=row[12],
        offset=row[13],
        change=row[14],
        run_id=row[15],
        on_behalf_kind=row[16],
        on_behalf_key=row[17],
        call_id=row[18],
        created_at=row[19],
        updated_at=row[20],
        content_json=row[21],
    )
    snapshot_revision: int = row[22]
    if message.status is MessageStatus.STREAMING or snapshot_revision < message.revision:
        return with_log(message, tx.all(_LOG, {"id": message.id, "after": snapshot_revision}))
    return message


def with_log(message: StoredMessage, log: Iterable[Row]) -> StoredMessage:
    """The message after the patches (seq, created_at, patch JSON) that its snapshot does not have yet."""
    rows = list(log)
    if not rows:
        return message
    content = fold(json.loads(message.content_json), [json.loads(row[2]) for row in rows])
    return message.changed(
        content_json=json.dumps(content),
        revision=max(message.revision, rows[-1][0]),
        updated_at=max(message.updated_at, rows[-1][1]),
    )
