"""Rows of the app registry and of its operations. Decides nothing."""

from __future__ import annotations

from dataclasses import asdict

from lineloop.device.decide.apps import AppOperation, AppRecord
from lineloop.kit.database import Row, Tx
from lineloop.protocol.machines import AppOperationState, InstallState

_COLUMNS = (
    "app_scope, kind, installed_version, previous_version, enabled, install_state, unavailable, manifest, "
    "digest, location, developer, installed_at, enabled_at"
)
_LIST = f"SELECT {_COLUMNS} FROM apps WHERE runtime_id = :runtime_id ORDER BY app_scope"
_GET = f"SELECT {_COLUMNS} FROM apps WHERE runtime_id = :runtime_id AND app_scope = :app_scope"
_SAVE = f"""
INSERT INTO apps (runtime_id, {_COLUMNS})
VALUES (:runtime_id, :app_scope, :kind, :installed_version, :previous_version, :enabled, :install_state,
        :unavailable, :manifest, :digest, :location, :developer, :installed_at, :enabled_at)
ON CONFLICT (runtime_id, app_scope) DO UPDATE
   SET kind = excluded.kind, installed_version = excluded.installed_version,
       previous_version = excluded.previous_version, enabled = excluded.enabled,
       install_state = excluded.install_state, unavailable = excluded.unavailable, manifest =
       excluded.manifest, digest = excluded.digest, location = excluded.location, developer =
       excluded.developer, installed_at = excluded.installed_at, enabled_at = excluded.enabled_at
"""
_DELETE = "DELETE FROM apps WHERE runtime_id = :runtime_id AND app_scope = :app_scope"
_REMEMBER_REMOVAL = """
INSERT INTO app_removals (runtime_id, app_scope, removed_at) VALUES (:runtime_id, :app_scope, :now_ms)
ON CONFLICT (runtime_id, app_scope) DO UPDATE SET removed_at = excluded.removed_at
"""
_FORGET_REMOVAL = "DELETE FROM app_removals WHERE runtime_id = :runtime_id AND app_scope = :app_scope"
_WAS_REMOVED = "SELECT 1 FROM app_removals WHERE runtime_id = :runtime_id AND app_scope = :app_scope"

_OPERATION_COLUMNS = (
    "id, kind, app_scope, state, step, request, error_code, error_message, created_at, updated_at"
)
_SAVE_OPERATION = f"""
INSERT INTO app_operations (runtime_id, {_OPERATION_COLUMNS})
VALUES (:runtime_id, :operation_id, :kind, :app_scope, :state, :step, :request, :error_code, :error_message,
        :created_at, :updated_at)
ON CONFLICT (id) DO UPDATE
   SET app_scope = excluded.app_scope, state = excluded.state, step = excluded.step,
       error_code = excluded.error_code, error_message = excluded.error_message, updated_at =
       excluded.updated_at
"""
_GET_OPERATION = f"""
SELECT {_OPERATION_COLUMNS} FROM app_operations WHERE runtime_id = :runtime_id AND id = :id
"""
_LIVE_OPERATIONS = f"""
SELECT {_OPERATION_COLUMNS} FROM app_operations
 WHERE runtime_id = :runtime_id AND state IN ('pending', 'running') ORDER BY created_at, id
"""


def list_apps(tx: Tx, runtime_id: str) -> list[AppRecord]:
    return [_record(row) for row in tx.all(_LIST, {"runtime_id": runtime_id})]


def load_app(tx: Tx, runtime_id: str, app_scope: str) -> AppRecord | None:
    row = tx.one(_GET, {"runtime_id": runtime_id, "app_scope": app_scope})
    return None if row is None else _record(row)


def save_app(tx: Tx, runtime_id: str, record: AppRecord) -> None:
    """Inserts or replaces; what was removed once is there again."""
    params: dict[str, object] = {**asdict(record), "runtime_id": runtime_id}
    params["enabled"] = int(record.enabled)
    params["developer"] = int(record.developer)
    params["install_state"] = str(record.install_state)
    tx.run(_SAVE, params)
    tx.run(_FORGET_REMOVAL, {"runtime_id": runtime_id, "app_scope": record.app_scope})


def delete_app(tx: Tx, runtime_id: str, app_scope: str, now_ms: int) -> None:
    tx.run(_DELETE, {"runtime_id": runtime_id, "app_scope": app_scope})
    tx.run(_REMEMBER_REMOVAL, {"runtime_id": runtime_id, "app_scope": app_scope, "now_ms": now_ms})


def was_removed(tx: Tx, runtime_id: str, app_scope: str) -> bool:
    return tx.one(_WAS_REMOVED, {"runtime_id": runtime_id, "app_scope": app_scope}) is not None


def save_operation(tx: Tx, runtime_id: str, operation: AppOperation) -> None:
    tx.run(_SAVE_OPERATION, {**asdict(operation), "state": str(operation.state), "runtime_id": runtime_id})


def load_operation(tx: Tx, runtime_id: str, operation_id: str) -> AppOperation | None:
    row = tx.one(_GET_OPERATION, {"runtime_id": runtime_id, "id": operation_id})
    return None if row is None else _operation(row)


def list_live_operations(tx: Tx, runtime_id: str) -> list[AppOperation]:
    """Operations that have not ended, oldest first."""
    return [_operation(row) for row in tx.all(_LIVE_OPERATIONS, {"runtime_id": runtime_id})]


def _record(row: Row) -> AppRecord:
    return AppRecord(
        app_scope=row["app_scope"],
        kind=row["kind"],
        installed_version=row["installed_version"],
        previous_version=row["previous_version"],
        enabled=bool(row["enabled"]),
        install_state=InstallState(row["install_state"]),
        unavailable=row["unavailable"],
        manifest=row["manifest"],
        digest=row["digest"],
        location=row["location"],
        developer=bool(row["developer"]),
        installed_at=row["installed_at"],
        enabled_at=row["enabled_at"],
    )


def _operation(row: Row) -> AppOperation:
    return AppOperation(
        operation_id=row["id"],
        kind=row["kind"],
        app_scope=row["app_scope"],
        state=AppOperationState(row["state"]),
        step=row["step"],
        request=row["request"],
        error_code=row["error_code"],
        error_message=row["error_message"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )
