"""Rows of what was refused to whom. SQL only; a bounded number of them."""

from __future__ import annotations

from lineloop.kit.database import Tx
from lineloop.kit.records import record

_ADD = """
INSERT INTO refusals (id, code, action, credential, actor, peer, count, first_at, last_at)
VALUES (:id, :code, :action, :credential, :actor, :peer, :count, :first_at, :last_at)
ON CONFLICT (id) DO UPDATE SET count = refusals.count + :count,
    last_at = CASE WHEN refusals.last_at > :last_at THEN refusals.last_at ELSE :last_at END
"""
_PAGE = """
SELECT id, code, action, credential, actor, peer, count, first_at, last_at FROM refusals
WHERE last_at < :before_at OR (last_at = :before_at AND id < :before_id)
ORDER BY last_at DESC, id DESC LIMIT :limit
"""
_TRIM = """
DELETE FROM refusals WHERE id IN (SELECT id FROM refusals ORDER BY last_at DESC, id DESC
    LIMIT :limit OFFSET :keep)
"""


@record
class RefusalRow:
    """Equal refusals of a while. `credential` and `actor` name who asked, where a credential was known, else
    `peer` says from which address. Times UTC milliseconds.
    """

    id: str
    code: str
    action: str
    credential: str
    actor: str
    peer: str
    count: int
    first_at: int
    last_at: int


def add(tx: Tx, row: RefusalRow) -> None:
    """Counts into the row under the same id when there is one."""
    params = {
        "id": row.id,
        "code": row.code,
        "action": row.action,
        "credential": row.credential,
        "actor": row.actor,
        "peer": row.peer,
        "count": row.count,
        "first_at": row.first_at,
        "last_at": row.last_at,
    }
    tx.run(_ADD, params)


def page(tx: Tx, *, before_at: int, before_id: str, limit: int) -> list[RefusalRow]:
    """The newest first."""
    params = {"before_at": before_at, "before_id": before_id, "limit": limit}
    return [RefusalRow(*tuple(row)) for row in tx.all(_PAGE, params)]


def trim(tx: Tx, *, keep: int, limit: int) -> int:
    """Removes the oldest beyond `keep`, at most `limit`; how many."""
    return tx.run(_TRIM, {"keep": keep, "limit": limit})
