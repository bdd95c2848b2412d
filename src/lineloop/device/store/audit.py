"""Reading the audit: who did what on a device. Writing it is part of every commit (store/write)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lineloop.kit import json
from lineloop.kit.clock import rfc3339
from lineloop.kit.database import Tx


@dataclass(frozen=True, slots=True)
class AuditQuery:
    """What to look for; None = whatever. At most `limit` rows, the newest, oldest first."""

    call_id: str | None = None
    app_scope: str | None = None
    conversation_id: str | None = None
    limit: int = 200


def read_audit(tx: Tx, query: AuditQuery) -> list[dict[str, Any]]:
    """Rows as JSON objects; `detail` is decoded, absent facts are left out."""
    rows = tx.all(
        "SELECT * FROM (SELECT * FROM audit"
        " WHERE (:call_id IS NULL OR call_id = :call_id)"
        " AND (:app_scope IS NULL OR app_scope = :app_scope)"
        " AND (:conversation_id IS NULL OR conversation_id = :conversation_id)"
        " ORDER BY id DESC LIMIT :limit) AS newest ORDER BY id",
        {
            "call_id": query.call_id,
            "app_scope": query.app_scope,
            "conversation_id": query.conversation_id,
            "limit": query.limit,
        },
    )
    return [_row(dict(row)) for row in rows]


def _row(row: dict[str, Any]) -> dict[str, Any]:
    shown = {name: value for name, value in row.items() if value is not None and name != "runtime_id"}
    shown["at"] = rfc3339(row["at"])
    if "detail" in shown:
        shown["detail"] = json.loads(shown["detail"])
    return shown
