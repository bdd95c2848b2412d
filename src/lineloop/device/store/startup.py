"""Rows about what a person sees first. SQL only."""

from __future__ import annotations

from typing import Any

from lineloop.device.decide.startup import EntryKind, StartEntry
from lineloop.device.store import sessions
from lineloop.kit.database import Tx
from lineloop.protocol.error_codes import ErrorCode

_DEFAULT = "SELECT default_app FROM device_state WHERE runtime_id = :runtime_id"
_SET_DEFAULT = "UPDATE device_state SET default_app = ?, updated_at = ? WHERE runtime_id = ?"
_NEWEST_ROOT = """
  SELECT conversation_id FROM person_conversations
  WHERE runtime_id = :runtime_id AND root_id = conversation_id
  ORDER BY created_at DESC, conversation_id DESC LIMIT 1
"""


def default_app(tx: Tx, runtime_id: str) -> str | None:
    """The scope of the app that the person sees first; None = chat."""
    row = tx.one(_DEFAULT, {"runtime_id": runtime_id})
    return row[0] if row is not None else None


def set_default_app(tx: Tx, runtime_id: str, app_scope: str | None, now: int) -> None:
    tx.run(_SET_DEFAULT, (app_scope, now, runtime_id))


def newest_conversation(tx: Tx, runtime_id: str) -> str | None:
    """The root conversation of the person that was made last."""
    row = tx.one(_NEWEST_ROOT, {"runtime_id": runtime_id})
    return row[0] if row is not None else None


def explanation(tx: Tx, entry: StartEntry | None) -> dict[str, Any] | None:
    """Why the person sees chat instead of the app they wanted first: `{"app_scope","code","reason"}`."""
    if entry is None:
        return None
    if entry.reason is not None:
        return {"app_scope": entry.app_scope, "code": entry.reason, "reason": None}
    if entry.instance_id is None or entry.kind not in (EntryKind.TARGET, EntryKind.DEFAULT):
        return None
    instance = sessions.instance_by_id(tx, entry.instance_id)
    if instance is None or instance.state != "failed":
        return None
    code = str(ErrorCode.APP_ACTIVATION_FAILED)
    return {"app_scope": entry.app_scope, "code": code, "reason": instance.reason}
