"""Reads calls as a person is shown them: who asked which app for what, how far it is, how it ended.

Decides nothing; a call looks the same however it is found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lineloop.device.containers.port import InstalledApp
from lineloop.device.decide.envelopes import wire_time
from lineloop.device.decide.state import Call
from lineloop.device.store import calls, person, sessions
from lineloop.kit import json
from lineloop.kit.database import Tx
from lineloop.protocol.actors import Actor


def views_of_conversation(
    tx: Tx,
    runtime_id: str,
    conversation_id: str,
    apps: Mapping[str, InstalledApp],
    *,
    since_ms: int = 0,
    until_ms: int | None = None,
    limit: int = 100,
) -> list[dict[str, Any]]:
    """The newest calls accepted within a time, in arrival order."""
    found = calls.newest_of_conversation(
        tx, runtime_id, conversation_id, since_ms=since_ms, until_ms=until_ms, limit=limit
    )
    return _views(tx, runtime_id, found, apps)


def views_of(
    tx: Tx, runtime_id: str, refs: Iterable[str], apps: Mapping[str, InstalledApp]
) -> list[dict[str, Any]]:
    """These calls as they are now, in arrival order."""
    found = [call for call in (calls.by_ref(tx, ref) for ref in refs) if call is not None]
    return _views(tx, runtime_id, sorted(found, key=lambda call: call.arrival), apps)


def _views(
    tx: Tx, runtime_id: str, found: list[Call], apps: Mapping[str, InstalledApp]
) -> list[dict[str, Any]]:
    runs = person.messages_of_runs(tx, runtime_id, (_run_of(call) for call in found))
    return [_view(tx, call, apps.get(call.key.app_scope), runs.get(_run_of(call))) for call in found]


def _run_of(call: Call) -> str:
    """The run that made the call, by the form of its call id; a run that nobody knows when none did."""
    return call.call_id.partition("/")[0]


def _view(tx: Tx, call: Call, app: InstalledApp | None, run_message_id: str | None) -> dict[str, Any]:
    tool = app.tool(call.key.method, call.key.contract_version) if app is not None else None
    operation = sessions.operation_by_id(tx, call.operation_id) if call.operation_id is not None else None
    outcome: dict[str, Any] = json.loads(call.outcome) if call.outcome is not None else {}
    failed = call.error_code is not None
    return {
        "call_id": call.call_id,
        "conversation_id": call.conversation_id,
        "agent": Actor.parse(call.agent).to_wire(),
        "run_message_id": run_message_id,
        "app_scope": call.key.app_scope,
        "app_title": app.manifest.title if app is not None else call.key.app_scope,
        "method": call.key.method,
        "title": tool.title if tool is not None else call.key.method,
        "params": call.arguments,
        "state": call.state,
        "sequence": call.sequence,
        "receipts": [_receipt(one) for one in calls.receipts(tx, call.ref)],
        "result": None if failed else outcome.get("result"),
        "error": {"code": call.error_code, "message": outcome.get("message", "")} if failed else None,
        "accepted_at": wire_time(call.accepted_at),
        "ended_at": None if call.ended_at is None else wire_time(call.ended_at),
        "ends_at": None if operation is None else wire_time(operation.ends_at),
        "operation": None
        if operation is None
        else {
            "state": operation.state,
            "started_at": wire_time(operation.started_at),
            "ends_at": wire_time(operation.ends_at),
            "elapsed_ms": operation.elapsed_ms,
        },
    }


def _receipt(receipt: dict[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "stage": receipt["stage"],
        "sequence": receipt["sequence"],
        "at": wire_time(receipt["created_at"]),
    }
    for name in ("reason", "facts"):
        if receipt[name] is not None:
            shown[name] = receipt[name]
    return shown
