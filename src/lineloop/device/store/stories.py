"""Reads the audit as stories: for a call, who asked, what was told and how it ended; else single lines.

Decides nothing; source kinds are never mixed (design: runtime 3.12).
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from lineloop.device.decide.envelopes import wire_time
from lineloop.device.decide.state import Call
from lineloop.device.store import calls, outbox, records, sessions
from lineloop.kit import json
from lineloop.kit.database import Tx
from lineloop.kit.sqlite.transaction import SqliteTx

MAX_LINES = 10_000


def read_stories(
    tx: Tx,
    runtime_id: str,
    *,
    call_id: str | None = None,
    app_scope: str | None = None,
    conversation_id: str | None = None,
) -> list[dict[str, Any]]:
    """Everything the audit knows that matches what is given, by the time of its first line.

    A call: source, agent, conversation_id, call_id, tool, inventory_revision, state, receipts, result or
    error, events, messages; consent, activation and operation when there were any. `events` are the lines
    about the call, what was refused under its id, and what the person and the host did around its app
    meanwhile, each with its own source. Any other line: source, event and what it is about. Times are RFC
    3339.
    """
    wanted = {"call_id": call_id, "app_scope": app_scope, "conversation_id": conversation_id}
    stories = {call.ref: _story(tx, call) for call in calls.matching(tx, runtime_id, MAX_LINES, **wanted)}
    others: list[dict[str, Any]] = []
    by_id = {(one["agent"], one["conversation_id"], one["call_id"]): one for one in stories.values()}
    for line in records.audit_lines(tx, runtime_id, MAX_LINES, **wanted):
        story = stories.get(line["call_ref"])
        if story is None and line["call_ref"] is None:
            story = by_id.get((line["actor"], line["conversation_id"], line["call_id"]))
        (others if story is None else story["events"]).append(_line(line))
    if call_id is not None:
        for story in stories.values():
            story["events"] += [_line(one) for one in _around(tx, runtime_id, story)]
    for story in stories.values():
        end = _end_of(story)
        story["events"].sort(key=lambda event, end=end: (event["at"], event["event"] == end))
    return sorted([*stories.values(), *others], key=lambda one: one.get("accepted_at") or one["at"])


def _line(line: dict[str, Any]) -> dict[str, Any]:
    event = {name: value for name, value in line.items() if value is not None and name != "call_ref"}
    return {**event, "at": wire_time(line["at"])}


def _around(tx: Tx, runtime_id: str, story: dict[str, Any]) -> list[dict[str, Any]]:
    """Lines of the other entries about the call's app in its conversation while the call lived."""
    until = story.get("ended_at")
    lines = records.audit_lines(
        tx,
        runtime_id,
        MAX_LINES,
        conversation_id=story["conversation_id"],
        app_scope=story["app_scope"],
    )
    return [
        line
        for line in lines
        if line["source"] in ("host_intent", "ui_action")
        and line["call_id"] is None
        and story["accepted_at"] <= wire_time(line["at"])
        and (until is None or wire_time(line["at"]) <= until)
    ]


def _end_of(story: dict[str, Any]) -> str:
    return f"call_{story['state']}"


def _story(tx: Tx, call: Call) -> dict[str, Any]:
    story: dict[str, Any] = {
        "source": "agent_tool",
        "agent": call.agent,
        "conversation_id": call.conversation_id,
        "call_id": call.call_id,
        "app_scope": call.key.app_scope,
        "method": call.key.method,
        "contract_version": call.key.contract_version,
        "params": call.arguments,
        "inventory_revision": call.inventory_revision,
        "state": call.state,
        "accepted_at": wire_time(call.accepted_at),
        "receipts": [
            {
                name: wire_time(value) if name == "created_at" else value
                for name, value in receipt.items()
                if value is not None
            }
            for receipt in calls.receipts(tx, call.ref)
        ],
        "events": [_event(call, "call_accepted", call.accepted_at, "agent_tool")],
    }
    if call.dispatched_at is not None:
        story["dispatched_at"] = wire_time(call.dispatched_at)
    story |= _surroundings(tx, call)
    if call.outcome is not None and call.ended_at is not None:
        outcome = json.loads(call.outcome)
        story["ended_at"] = wire_time(call.ended_at)
        story |= {"error": outcome} if call.error_code is not None else outcome
        story["events"].append(_event(call, _end_of(story), call.ended_at, call.ended_by))
    return story


def _surroundings(tx: Tx, call: Call) -> dict[str, Any]:
    """What the person was asked, how the app started, what ran, and which messages carried the answers."""
    about: dict[str, Any] = {
        "messages": [_timed(one) for one in outbox.of_call(tx, call.conversation_id, call.ref)]
    }
    consent = records.consent_of(tx, call.ref)
    if consent is not None:
        about["consent"] = _timed(consent)
    if call.activation_id is not None:
        activation = sessions.activation_by_id(tx, call.activation_id)
        if activation is not None:
            about["activation"] = _timed(
                {
                    "state": activation.state,
                    "reason": activation.reason,
                    "waits_for": activation.waits_for,
                    "started_at": activation.started_at,
                    "ended_at": activation.ended_at,
                }
            )
    if call.operation_id is not None:
        operation = sessions.operation_by_id(tx, call.operation_id)
        if operation is not None:
            about["operation"] = _timed(
                {
                    "state": operation.state,
                    "started_at": operation.started_at,
                    "ends_at": operation.ends_at,
                    "ended_at": operation.ended_at,
                    "elapsed_ms": operation.elapsed_ms,
                    "reason": operation.reason,
                }
            )
    return about


def _timed(values: dict[str, Any]) -> dict[str, Any]:
    """Without what is not there, and with times as text."""
    return {
        name: wire_time(value) if name.endswith("_at") else value
        for name, value in values.items()
        if value is not None
    }


def _event(call: Call, event: str, at: int, source: str | None) -> dict[str, Any]:
    """A line of the audit that the call's own row tells."""
    line: dict[str, Any] = {
        "at": wire_time(at),
        "source": source,
        "event": event,
        "actor": call.agent,
        "conversation_id": call.conversation_id,
        "app_scope": call.key.app_scope,
        "call_id": call.call_id,
        "inventory_revision": call.inventory_revision,
    }
    if call.error_code is not None and at == call.ended_at:
        line["code"] = call.error_code
    return line


def read_stories_of_file(
    path: Path, runtime_id: str | None = None, **wanted: str | None
) -> list[dict[str, Any]]:
    """As read_stories, from a device's database file, also while no Runtime runs.

    Without `runtime_id` the file's only device is meant. Raises sqlite3.Error, FileNotFoundError.
    """
    if not path.is_file():
        raise FileNotFoundError(path)
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        tx = SqliteTx(connection)
        if runtime_id is None:
            row = tx.one("SELECT runtime_id FROM device_state")
            runtime_id = row[0] if row is not None else ""
        return read_stories(
            tx,
            runtime_id or "",
            call_id=wanted.get("call_id"),
            app_scope=wanted.get("app_scope"),
            conversation_id=wanted.get("conversation_id"),
        )


def read_surface(tx: Tx, instance_id: str) -> dict[str, Any] | None:
    """What the surface of an instance shows: its state, the operation's times; None for no such instance."""
    instance = sessions.instance_by_id(tx, instance_id)
    if instance is None:
        return None
    operation = sessions.operation_of_instance(tx, instance_id)
    view: dict[str, Any] = {"state": instance.state, "app_scope": instance.app_scope, "operation": None}
    if operation is not None:
        view["operation"] = {
            "state": operation.state,
            "started_at": wire_time(operation.started_at),
            "ends_at": wire_time(operation.ends_at),
            "duration_ms": operation.duration_ms,
            "elapsed_ms": operation.elapsed_ms,
        }
    return view
