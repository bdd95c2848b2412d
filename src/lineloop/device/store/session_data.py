"""Rows of session data and of the bytes each app uses. Decides nothing."""

from __future__ import annotations

from lineloop.device.decide.session_data import SessionDataReplaced, StoredData
from lineloop.kit.database import Tx

_EXISTS = """
SELECT 1 FROM sub_sessions
 WHERE app_session_id = :app_session_id AND runtime_id = :runtime_id AND app_scope = :app_scope
"""
_LOAD = """
SELECT revision, size_bytes FROM session_data
 WHERE runtime_id = :runtime_id AND app_scope = :app_scope AND app_session_id = :app_session_id
"""
_READ = """
SELECT revision, data FROM session_data
 WHERE runtime_id = :runtime_id AND app_scope = :app_scope AND app_session_id = :app_session_id
"""
_USAGE = """
SELECT size_bytes FROM session_data_usage WHERE runtime_id = :runtime_id AND app_scope = :app_scope
"""
_REPLACE = """
INSERT INTO session_data (runtime_id, app_scope, app_session_id, revision, data, size_bytes, updated_at)
VALUES (:runtime_id, :app_scope, :app_session_id, :revision, :data, :size_bytes, :now_ms)
ON CONFLICT (runtime_id, app_scope, app_session_id) DO UPDATE
   SET revision = excluded.revision, data = excluded.data, size_bytes = excluded.size_bytes,
       updated_at = excluded.updated_at
"""
_GROW = """
INSERT INTO session_data_usage (runtime_id, app_scope, size_bytes)
VALUES (:runtime_id, :app_scope, :grown_bytes)
ON CONFLICT (runtime_id, app_scope) DO UPDATE
   SET size_bytes = session_data_usage.size_bytes + excluded.size_bytes
"""
_DELETE_DATA = "DELETE FROM session_data WHERE runtime_id = :runtime_id AND app_scope = :app_scope"
_DELETE_USAGE = "DELETE FROM session_data_usage WHERE runtime_id = :runtime_id AND app_scope = :app_scope"


def session_exists(tx: Tx, runtime_id: str, app_scope: str, app_session_id: str) -> bool:
    """Whether this app has this sub-session; open or closed makes no difference."""
    return tx.one(_EXISTS, _key(runtime_id, app_scope, app_session_id)) is not None


def load_stored(tx: Tx, runtime_id: str, app_scope: str, app_session_id: str) -> StoredData:
    row = tx.one(_LOAD, _key(runtime_id, app_scope, app_session_id))
    return StoredData() if row is None else StoredData(row["revision"], row["size_bytes"])


def read_data(tx: Tx, runtime_id: str, app_scope: str, app_session_id: str) -> tuple[str | None, int]:
    """`(JSON text or None, revision)`."""
    row = tx.one(_READ, _key(runtime_id, app_scope, app_session_id))
    return (None, 0) if row is None else (row["data"], row["revision"])


def load_usage(tx: Tx, runtime_id: str, app_scope: str) -> int:
    """Bytes of all sub-sessions of the app."""
    row = tx.one(_USAGE, {"runtime_id": runtime_id, "app_scope": app_scope})
    return 0 if row is None else row["size_bytes"]


def save_replaced(tx: Tx, key: tuple[str, str, str], fact: SessionDataReplaced, now_ms: int) -> None:
    """`key` = (runtime_id, app_scope, app_session_id)."""
    params = _key(*key)
    tx.run(
        _REPLACE,
        {
            **params,
            "revision": fact.revision,
            "data": fact.text,
            "size_bytes": fact.size_bytes,
            "now_ms": now_ms,
        },
    )
    tx.run(_GROW, {"runtime_id": key[0], "app_scope": key[1], "grown_bytes": fact.grown_bytes})


def delete_app_data(tx: Tx, runtime_id: str, app_scope: str) -> None:
    """Everything the app has stored."""
    params = {"runtime_id": runtime_id, "app_scope": app_scope}
    tx.run(_DELETE_DATA, params)
    tx.run(_DELETE_USAGE, params)


def _key(runtime_id: str, app_scope: str, app_session_id: str) -> dict[str, object]:
    return {"runtime_id": runtime_id, "app_scope": app_scope, "app_session_id": app_session_id}
