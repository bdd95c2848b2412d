"""Rows of audit, records, consents, UI actions, inventories, policy and the device's own state. SQL only."""

from __future__ import annotations

from typing import Any

from lineloop.device.decide.facts import Audited, RecordWritten, UiActionReceived
from lineloop.device.decide.inventory import PolicyRule
from lineloop.kit import json
from lineloop.kit.database import Tx
from lineloop.kit.records import record

_AUDIT = """
  INSERT INTO audit (runtime_id, at, source, event, actor, conversation_id, app_scope, call_id, call_ref,
    inventory_revision, code, detail)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_AUDIT_COLUMNS = (
    "at, source, event, actor, conversation_id, app_scope, call_id, call_ref, inventory_revision, code,"
    " detail"
)
_INSERT_RECORD = """
  INSERT INTO records (record_id, runtime_id, conversation_id, app_scope, app_session_id, operation_id,
    content, created_at)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
_REQUEST_CONSENT = """
  INSERT INTO consents (consent_id, runtime_id, call_ref, state, requested_at)
  VALUES (?, ?, ?, 'requested', ?)
"""
_CLOSE_CONSENT = """
  UPDATE consents SET state = ?, decided_at = ? WHERE call_ref = ? AND state = 'requested'
"""
_CONSENT_OF = "SELECT state, requested_at, decided_at FROM consents WHERE call_ref = :ref"
_UI_ACTION = """
  SELECT digest FROM ui_actions
  WHERE runtime_id = :runtime_id AND instance_id = :instance_id AND action_id = :action_id
"""
_INSERT_UI_ACTION = """
  INSERT INTO ui_actions (runtime_id, instance_id, action_id, digest, action, received_at)
  VALUES (?, ?, ?, ?, ?, ?)
"""
_STATE = "SELECT generation, host_session_id FROM device_state WHERE runtime_id = :runtime_id"
_SET_GENERATION = """
  INSERT INTO device_state (runtime_id, generation, updated_at) VALUES (?, ?, ?)
  ON CONFLICT (runtime_id) DO UPDATE SET generation = excluded.generation, updated_at = excluded.updated_at
"""
_SET_LEASE = "UPDATE device_state SET host_session_id = ?, updated_at = ? WHERE runtime_id = ?"
_RULES = """
  SELECT agent, conversation_id, app_scope, method FROM policy_rules
  WHERE runtime_id = :runtime_id ORDER BY rule_id
"""
_INSERT_RULE = """
  INSERT INTO policy_rules (rule_id, runtime_id, agent, conversation_id, app_scope, method, created_at)
  VALUES (?, ?, ?, ?, ?, ?, ?)
"""
_CLEAR_RULES = "DELETE FROM policy_rules WHERE runtime_id = ?"
_KNOWN_REVISION = """
  SELECT revision FROM inventories
  WHERE runtime_id = :runtime_id AND agent = :agent AND conversation_id = :conversation_id
"""
_INSERT_CONTENT = """
  INSERT INTO inventory_contents (runtime_id, revision, payload, created_at) VALUES (?, ?, ?, ?)
  ON CONFLICT DO NOTHING
"""
_PUBLISH = """
  INSERT INTO inventories (runtime_id, agent, conversation_id, revision, number, active_at, published_at)
  VALUES (?, ?, ?, ?, 1, ?, ?)
  ON CONFLICT (runtime_id, agent, conversation_id) DO UPDATE
    SET revision = excluded.revision, number = inventories.number + 1, active_at = excluded.active_at,
        published_at = excluded.published_at
"""
# The row stays: its number makes the next message another one.
_FORGET_AGENT = """
  UPDATE inventories SET revision = ''
  WHERE runtime_id = :runtime_id AND agent = :agent AND conversation_id = :conversation_id
"""
_RECENT = """
  SELECT agent, conversation_id, revision FROM inventories
  WHERE runtime_id = :runtime_id AND revision <> '' ORDER BY active_at DESC LIMIT :limit
"""


def insert_audit(tx: Tx, runtime_id: str, line: Audited, now: int) -> None:
    detail = json.dumps(line.detail) if line.detail is not None else None
    tx.run(
        _AUDIT,
        (
            runtime_id, now, line.source, line.event, line.actor, line.conversation_id,
            line.app_scope, line.call_id, line.call_ref, line.inventory_revision, line.code, detail,
        ),
    )  # fmt: skip


def audit_lines(tx: Tx, runtime_id: str, limit: int, **wanted: str | None) -> list[dict[str, Any]]:
    """Audit lines whose columns have the wanted values (None = any), in the order of their writing."""
    given = {name: value for name, value in wanted.items() if value is not None}
    where = "".join(f" AND {name} = :{name}" for name in given)
    sql = f"SELECT {_AUDIT_COLUMNS} FROM audit WHERE runtime_id = :runtime_id{where}"
    about = {"runtime_id": runtime_id, "limit": limit, **given}
    rows = tx.all(f"{sql} ORDER BY number LIMIT :limit", about)
    lines = [dict(zip(row.keys(), tuple(row), strict=True)) for row in rows]
    for line in lines:
        line["detail"] = json.loads(line["detail"]) if line["detail"] is not None else None
    return lines


def insert_record(tx: Tx, runtime_id: str, record: RecordWritten, now: int) -> None:
    one = record.operation
    content = json.dumps(record.content)
    tx.run(
        _INSERT_RECORD,
        (
            record.record_id, runtime_id, one.conversation_id, one.app_scope, one.app_session_id,
            one.operation_id, content, now,
        ),
    )  # fmt: skip


def request_consent(tx: Tx, runtime_id: str, consent_id: str, call_ref: str, now: int) -> None:
    tx.run(_REQUEST_CONSENT, (consent_id, runtime_id, call_ref, now))


def close_consent(tx: Tx, call_ref: str, state: str, now: int) -> None:
    tx.run(_CLOSE_CONSENT, (state, now, call_ref))


def consent_of(tx: Tx, call_ref: str) -> dict[str, Any] | None:
    """What the person was asked about a call, as plain values; None when nobody was asked."""
    row = tx.one(_CONSENT_OF, {"ref": call_ref})
    return None if row is None else dict(zip(row.keys(), tuple(row), strict=True))


def ui_action_digest(tx: Tx, runtime_id: str, instance_id: str, action_id: str) -> str | None:
    about = {"runtime_id": runtime_id, "instance_id": instance_id, "action_id": action_id}
    row = tx.one(_UI_ACTION, about)
    return row[0] if row is not None else None


def insert_ui_action(tx: Tx, runtime_id: str, one: UiActionReceived, now: int) -> None:
    tx.run(_INSERT_UI_ACTION, (runtime_id, one.instance_id, one.action_id, one.digest, one.action, now))


@record
class DeviceState:
    """`generation` names the state of registry and policy; `host_session_id` holds the foreground lease."""

    generation: str
    host_session_id: str | None


def device_state(tx: Tx, runtime_id: str) -> DeviceState:
    row = tx.one(_STATE, {"runtime_id": runtime_id})
    return DeviceState(row[0], row[1]) if row is not None else DeviceState("", None)


def set_generation(tx: Tx, runtime_id: str, generation: str, now: int) -> None:
    tx.run(_SET_GENERATION, (runtime_id, generation, now))


def set_lease(tx: Tx, runtime_id: str, host_session_id: str, now: int) -> None:
    tx.run(_SET_LEASE, (host_session_id, now, runtime_id))


def policy_rules(tx: Tx, runtime_id: str) -> tuple[PolicyRule, ...]:
    return tuple(PolicyRule(*tuple(row)) for row in tx.all(_RULES, {"runtime_id": runtime_id}))


def set_policy_rules(tx: Tx, runtime_id: str, rules: list[tuple[str, PolicyRule]], now: int) -> None:
    """Replaces all rules; each comes with its id."""
    tx.run(_CLEAR_RULES, (runtime_id,))
    for rule_id, rule in rules:
        tx.run(
            _INSERT_RULE,
            (rule_id, runtime_id, rule.agent, rule.conversation_id, rule.app_scope, rule.method, now),
        )


def known_revision(tx: Tx, runtime_id: str, agent: str, conversation_id: str) -> str | None:
    """The revision that was published last to this agent in this conversation."""
    about = {"runtime_id": runtime_id, "agent": agent, "conversation_id": conversation_id}
    row = tx.one(_KNOWN_REVISION, about)
    return row[0] if row is not None else None


def publish(
    tx: Tx,
    runtime_id: str,
    agent: str,
    conversation_id: str,
    revision: str,
    payload: dict[str, Any],
    now: int,
) -> None:
    tx.run(_INSERT_CONTENT, (runtime_id, revision, json.dumps(payload), now))
    tx.run(_PUBLISH, (runtime_id, agent, conversation_id, revision, now, now))


def recent_agents(tx: Tx, runtime_id: str, limit: int) -> list[tuple[str, str, str]]:
    """(agent, conversation, revision) of the agents told most recently."""
    return [tuple(row) for row in tx.all(_RECENT, {"runtime_id": runtime_id, "limit": limit})]


def forget_agent(tx: Tx, runtime_id: str, agent: str, conversation_id: str) -> None:
    """The agent knows no inventory there (any more), and is told none until it comes back."""
    about = {"runtime_id": runtime_id, "agent": agent, "conversation_id": conversation_id}
    tx.run(_FORGET_AGENT, about)
