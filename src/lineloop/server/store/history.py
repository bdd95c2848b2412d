"""Reading history by ordinal. SQL only: the statement is put together from the filters that were given."""

from __future__ import annotations

from collections.abc import Sequence

from lineloop.kit.database import Tx
from lineloop.kit.records import record
from lineloop.protocol.messages import Purpose
from lineloop.server.records import StoredMessage
from lineloop.server.store.messages import from_rows

_SELECT = """
SELECT m.id, m.conversation_id, m.root_id, m.actor_kind, m.actor_key, m.target_kind, m.target_key, m.key,
    m.reply_to_id, m.purpose, m.status, m.revision, m.ordinal, m.offset_, m.change, m.run_id,
    m.on_behalf_kind, m.on_behalf_key, m.call_id, m.created_at, m.updated_at, m.content, m.snapshot_revision
FROM messages AS m WHERE
"""
_OF_CONVERSATION = "m.conversation_id = :conversation_id"
# The conversation stands inside only: outside it would tempt the planner to walk all of it.
_OF_CALL = """
m.id IN (
    SELECT id FROM messages WHERE conversation_id = :conversation_id AND call_id = :call_id AND call_id <> key
    UNION ALL
    SELECT id FROM messages WHERE conversation_id = :conversation_id AND key = :call_id AND call_id = :call_id
)
"""


@record
class HistoryFilter:
    """`after` and `before` are exclusive ordinals; no purposes means all of them."""

    conversation_id: str
    after: int | None = None
    before: int | None = None
    limit: int = 50
    descending: bool = False
    reply_to_id: str | None = None
    call_id: str | None = None
    purposes: Sequence[Purpose] = ()


def page(tx: Tx, asked: HistoryFilter) -> list[StoredMessage]:
    """One page in the asked order. Moves no cursor (L44)."""
    sql = [_SELECT, _OF_CONVERSATION if asked.call_id is None else _OF_CALL]
    params: dict[str, object] = {"conversation_id": asked.conversation_id, "limit": asked.limit}
    if asked.call_id is not None:
        params["call_id"] = asked.call_id
    for name, condition, value in (
        ("after", "m.ordinal > :after", asked.after),
        ("before", "m.ordinal < :before", asked.before),
        ("reply_to_id", "m.reply_to_id = :reply_to_id", asked.reply_to_id),
    ):
        if value is not None:
            sql.append(f"AND {condition}")
            params[name] = value
    if asked.purposes:
        names = [f"purpose_{index}" for index in range(len(asked.purposes))]
        sql.append(f"AND m.purpose IN ({', '.join(':' + name for name in names)})")
        params.update(zip(names, asked.purposes, strict=True))
    sql.append(f"ORDER BY m.ordinal {'DESC' if asked.descending else 'ASC'} LIMIT :limit")
    return from_rows(tx, tx.all(" ".join(sql), params))
