"""Rows of conversations and their counters. SQL only; what a counter means is decided elsewhere.

Whoever takes a counter holds the row's lock until the commit, so that numbers become visible in their order.
"""

from __future__ import annotations

from lineloop.kit.database import Row, Tx
from lineloop.protocol.actors import Actor
from lineloop.server.records import Conversation, stored_actor

_COLUMNS = """
name, owner_kind, owner_key, parent_id, root_id, last_ordinal, last_offset, change, created_at, archived_at,
membership, id
"""
_GET = f"SELECT {_COLUMNS} FROM conversations WHERE id = :id"
_ROOT_OF = "SELECT root_id FROM conversations WHERE id = :id"
_INSERT = """
INSERT INTO conversations (id, name, owner_kind, owner_key, parent_id, root_id, actor_kind, actor_key,
    created_at)
VALUES (:id, :name, :owner_kind, :owner_key, :parent_id, :root_id, :actor_kind, :actor_key, :created_at)
"""
# One statement looks for the key and counts, which saves speaking a look-up. `notify_pending` is named
# only where it changes: naming it rewrites its index.
_UNSAID = f"""
WHERE id = :id AND NOT EXISTS (SELECT 1 FROM messages WHERE conversation_id = :id AND key = :key
    AND actor_kind = :kind AND actor_key = :actor_key)
RETURNING {_COLUMNS}
"""
# What people and agents say brings an archived conversation back; traffic between programs does not.
_COUNT_OPEN = f"""
UPDATE conversations SET last_ordinal = last_ordinal + 1, change = change + 1, archived_at = NULL {_UNSAID}
"""
_COUNT = f"""
UPDATE conversations SET last_ordinal = last_ordinal + 1, last_offset = last_offset + 1, change = change + 1
{_UNSAID}
"""
_COUNT_AND_MARK = f"""
UPDATE conversations SET last_ordinal = last_ordinal + 1, last_offset = last_offset + 1, change = change + 1,
    notify_pending = 1, archived_at = NULL {_UNSAID}
"""
_NEXT_OFFSET = f"""
UPDATE conversations SET last_offset = last_offset + 1, change = change + 1 WHERE id = :id
RETURNING {_COLUMNS}
"""
_NEXT_OFFSET_AND_MARK = f"""
UPDATE conversations SET last_offset = last_offset + 1, change = change + 1, notify_pending = 1
WHERE id = :id RETURNING {_COLUMNS}
"""
_NEXT_CHANGE = "UPDATE conversations SET change = change + 1 WHERE id = :id RETURNING change"
_MARK = "UPDATE conversations SET notify_pending = 1 WHERE id = :id AND notify_pending = 0"
_UNMARK = "UPDATE conversations SET notify_pending = 0 WHERE id = :id AND notify_pending = 1"
_MARKED = "SELECT id FROM conversations WHERE notify_pending = 1 ORDER BY id LIMIT :limit"
_PROCESS = """
SELECT id FROM conversations WHERE parent_id = :parent_id AND actor_kind = :kind AND actor_key = :key
"""
_OF_ALL = ""
_OF_MEMBER = """
AND EXISTS (SELECT 1 FROM consumers AS m WHERE m.conversation_id = c.id AND m.kind = :kind AND m.key = :key)
"""
_OF_OPERATOR = """
AND EXISTS (SELECT 1 FROM consumers AS m WHERE m.conversation_id = c.id AND ((m.kind = 'operator'
    AND m.key = :key) OR m.kind = :whole OR substr(m.kind, 1, length(:roles)) = :roles))
"""
_ARCHIVED = {None: "", True: "AND c.archived_at IS NOT NULL", False: "AND c.archived_at IS NULL"}
_CHILDREN = f"""
SELECT {_COLUMNS} FROM conversations WHERE parent_id = :parent_id AND id > :after
    AND (:kind = '' OR (actor_kind = :kind AND actor_key = :key)) ORDER BY id LIMIT :limit
"""
_SET_CARE = "UPDATE conversations SET name = :name, archived_at = :archived_at WHERE id = :id"
_FAMILY = "SELECT id, last_ordinal FROM conversations WHERE id = :id OR parent_id = :id ORDER BY id"
_SOMEBODY_LEFT = """
UPDATE conversations SET membership = membership + 1 WHERE id = :id OR parent_id = :id
"""
_OWNED_ROOTS = """
SELECT id FROM conversations WHERE parent_id IS NULL AND owner_kind = 'user' AND owner_key = :key
ORDER BY id
"""


def _conversation(row: Row) -> Conversation:
    name, kind, key, parent_id, root_id, ordinal, offset, change, created_at, archived_at, left, own_id = row
    owner = stored_actor(kind, key)
    return Conversation(
        own_id, name, owner, parent_id, root_id, ordinal, offset, change, created_at, archived_at, left
    )


def get(tx: Tx, conversation_id: str) -> Conversation | None:
    row = tx.one(_GET, {"id": conversation_id})
    return _conversation(row) if row else None


def root_of(tx: Tx, conversation_id: str) -> str | None:
    """The root of a conversation, itself when it is one; None for an unknown one."""
    row = tx.one(_ROOT_OF, {"id": conversation_id})
    return row[0] if row else None


def insert(tx: Tx, conversation: Conversation, actor: Actor | None = None) -> None:
    """`actor` is whose process conversation it is; None for a root."""
    tx.put(
        _INSERT,
        {
            "id": conversation.id,
            "name": conversation.name,
            "owner_kind": conversation.owner.kind,
            "owner_key": conversation.owner.key,
            "parent_id": conversation.parent_id,
            "root_id": conversation.root_id,
            "actor_kind": actor.kind if actor else "",
            "actor_key": actor.key if actor else "",
            "created_at": conversation.created_at,
        },
    )


def take_ordinal(
    tx: Tx, conversation_id: str, actor: Actor, key: str, *, deliverable: bool, notify: bool
) -> Conversation | None:
    """Counts one message in: its ordinal, for a deliverable one its offset too, and a change.

    None, and nothing counted, when the actor has said something under `key` already or the conversation does
    not exist. The change counter that matters is the root's: for a process conversation take it with
    `take_change`. `notify` marks the resource of a conversation that gets a deliverable message as out of
    date.
    """
    sql = (_COUNT_AND_MARK if notify else _COUNT) if deliverable else _COUNT_OPEN
    params = {"id": conversation_id, "key": key, "kind": actor.kind, "actor_key": actor.key}
    row = tx.one(sql, params)
    return _conversation(row) if row else None


def take_offset(tx: Tx, conversation_id: str, *, notify: bool) -> Conversation:
    """Counts one message out of its stream: offset and change."""
    row = tx.one(_NEXT_OFFSET_AND_MARK if notify else _NEXT_OFFSET, {"id": conversation_id})
    assert row is not None
    return _conversation(row)


def take_change(tx: Tx, root_id: str) -> int:
    """The next change number of a root conversation."""
    row = tx.one(_NEXT_CHANGE, {"id": root_id})
    assert row is not None
    return row[0]


def mark_to_notify(tx: Tx, conversation_id: str) -> None:
    tx.put(_MARK, {"id": conversation_id})


def unmark(tx: Tx, conversation_id: str) -> bool:
    """True when it was marked."""
    return tx.run(_UNMARK, {"id": conversation_id}) == 1


def marked(tx: Tx, limit: int) -> list[str]:
    return [row[0] for row in tx.all(_MARKED, {"limit": limit})]


def process_conversation_id(tx: Tx, parent_id: str, actor: Actor) -> str | None:
    row = tx.one(_PROCESS, {"parent_id": parent_id, "kind": actor.kind, "key": actor.key})
    return row[0] if row else None


def roots(
    tx: Tx, *, after: str, limit: int, member: Actor | None, archived: bool | None = None
) -> list[Conversation]:
    """Root conversations by id; with `member` only those it takes part in.

    `archived`: only those that are, only those that are not, or both.
    """
    page: dict[str, object] = {"after": after, "limit": limit}
    if member is None:
        return _roots(tx, _OF_ALL, page, archived)
    return _roots(tx, _OF_MEMBER, {**page, "kind": member.kind, "key": member.key}, archived)


def roots_of_operator(
    tx: Tx, operator_key: str, *, after: str, limit: int, archived: bool | None = None
) -> list[Conversation]:
    """Root conversations by id in which the operator takes part, in whatever role."""
    roles = f"operator/{operator_key}"
    # The kind of a role goes on after the operator's key, or ends there.
    params: dict[str, object] = {
        "after": after,
        "limit": limit,
        "key": operator_key,
        "roles": f"{roles}/",
        "whole": roles,
    }
    return _roots(tx, _OF_OPERATOR, params, archived)


def _roots(tx: Tx, whose: str, params: dict[str, object], archived: bool | None) -> list[Conversation]:
    sql = f"""
    SELECT {_COLUMNS} FROM conversations AS c WHERE c.parent_id IS NULL AND c.id > :after
    {_ARCHIVED[archived]} {whose} ORDER BY c.id LIMIT :limit
    """
    return [_conversation(row) for row in tx.all(sql, params)]


def children(tx: Tx, parent_id: str, *, after: str, limit: int, actor: Actor | None) -> list[Conversation]:
    kind, key = (actor.kind, actor.key) if actor else ("", "")
    rows = tx.all(
        _CHILDREN, {"parent_id": parent_id, "after": after, "limit": limit, "kind": kind, "key": key}
    )
    return [_conversation(row) for row in rows]


def highest_ordinals(tx: Tx, root_id: str) -> dict[str, int]:
    """Of a root conversation and its process conversations: id to highest ordinal."""
    return {row[0]: row[1] for row in tx.all(_FAMILY, {"id": root_id})}


def set_care(tx: Tx, conversation_id: str, *, name: str, archived_at: int | None) -> None:
    tx.run(_SET_CARE, {"id": conversation_id, "name": name, "archived_at": archived_at})


def somebody_left(tx: Tx, root_id: str) -> None:
    """From now on what was remembered of who takes part here counts no more."""
    tx.run(_SOMEBODY_LEFT, {"id": root_id})


def roots_owned_by(tx: Tx, user_key: str) -> list[str]:
    return [row[0] for row in tx.all(_OWNED_ROOTS, {"key": user_key})]
