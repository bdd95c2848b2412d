"""Rows of calls and receipts. SQL and row mapping only."""

from __future__ import annotations

from typing import Any

from lineloop.device.decide.facts import ReceiptIssued
from lineloop.device.decide.state import Call
from lineloop.kit import json
from lineloop.kit.database import Row, Tx
from lineloop.kit.records import record
from lineloop.protocol.tools import ToolKey

_COLUMNS = (
    "id, agent, conversation_id, call_id, app_scope, method, contract_version, params,"
    " inventory_revision, message_id, envelope_id, state, call_model, app_session_id, activation_id,"
    " operation_id, sequence, progress, deadline_at, timeout_ms, outcome, error_code, accepted_at,"
    " dispatched_at, ended_at, trace, ended_by, arrival"
)
_LIVE = "state NOT IN ('succeeded', 'failed', 'cancelled')"

_BY_CALL_ID = f"""
  SELECT {_COLUMNS} FROM calls
  WHERE runtime_id = :runtime_id AND agent = :agent AND conversation_id = :conversation_id
    AND call_id = :call_id
"""
_BY_REF = f"SELECT {_COLUMNS} FROM calls WHERE id = :ref"
_INSERT = """
  INSERT INTO calls (id, runtime_id, agent, conversation_id, call_id, app_scope, method,
    contract_version, params, inventory_revision, message_id, envelope_id, trace, state, call_model,
    app_session_id, activation_id, operation_id, sequence, progress, deadline_at, timeout_ms, outcome,
    error_code, accepted_at, dispatched_at, ended_at, ended_by)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_UPDATE = """
  UPDATE calls SET state = ?, app_session_id = ?, activation_id = ?, operation_id = ?, sequence = ?,
    progress = ?, deadline_at = ?, outcome = ?, error_code = ?, dispatched_at = ?, ended_at = ?,
    ended_by = ?
  WHERE id = ?
"""
_INSERT_RECEIPT = """
  INSERT INTO receipts (call_ref, sequence, stage, number, reason, facts, created_at)
  VALUES (?, ?, ?, ?, ?, ?, ?)
"""
# What a session may move on now: everything that is not a command, and the first command.
_QUEUE = f"""
  SELECT {_COLUMNS} FROM calls
  WHERE runtime_id = :runtime_id AND app_session_id = :app_session_id AND {_LIVE}
    AND call_model IN ('query', 'interactive', 'operation') AND state <> 'dispatched'
  ORDER BY arrival LIMIT :limit
"""
_FIRST_COMMAND = f"""
  SELECT {_COLUMNS} FROM calls
  WHERE runtime_id = :runtime_id AND app_session_id = :app_session_id AND {_LIVE}
    AND call_model = 'command' AND state <> 'dispatched'
  ORDER BY arrival LIMIT 1
"""
# What a new call has to know of the others: operations that wait to begin.
_OPERATIONS = f"""
  SELECT {_COLUMNS} FROM calls
  WHERE runtime_id = :runtime_id AND app_session_id = :app_session_id AND {_LIVE}
    AND call_model = 'operation' AND state <> 'dispatched'
  ORDER BY arrival LIMIT :limit
"""
# Calls whose app has gone: more of them than one decision ends.
_STRANDED = f"""
  SELECT {_COLUMNS} FROM calls
  WHERE runtime_id = :runtime_id AND {_LIVE} AND operation_id IS NULL
    AND activation_id IN (
      SELECT a.activation_id FROM activations AS a JOIN instances AS i ON i.instance_id = a.instance_id
      WHERE a.runtime_id = :runtime_id AND i.state IN ('stopping', 'stopped', 'failed'))
  ORDER BY arrival LIMIT :limit
"""
_RUNNING_COMMAND = f"""
  SELECT 1 FROM calls
  WHERE runtime_id = :runtime_id AND app_session_id = :app_session_id AND {_LIVE}
    AND call_model = 'command' AND state = 'dispatched'
  LIMIT 1
"""
_LIVE_OF_SESSION = f"""
  SELECT {_COLUMNS} FROM calls
  WHERE runtime_id = :runtime_id AND app_session_id = :app_session_id AND {_LIVE}
  ORDER BY arrival LIMIT :limit
"""
_LIVE_OF_APP = f"""
  SELECT {_COLUMNS} FROM calls
  WHERE runtime_id = :runtime_id AND app_scope = :app_scope AND {_LIVE}
  ORDER BY arrival LIMIT :limit
"""
_DISPATCHED = f"""
  SELECT {_COLUMNS} FROM calls
  WHERE runtime_id = :runtime_id AND {_LIVE} AND state = 'dispatched'
  ORDER BY arrival
"""
_DEADLINES = f"""
  SELECT id, deadline_at, timeout_ms FROM calls
  WHERE runtime_id = :runtime_id AND {_LIVE} AND deadline_at <= :before
"""
# Sessions that are ready and still have calls waiting for that.
_READY_TO_PUMP = f"""
  SELECT DISTINCT c.conversation_id, c.app_scope
  FROM calls AS c JOIN activations AS a ON a.activation_id = c.activation_id
  WHERE c.runtime_id = :runtime_id AND c.{_LIVE} AND a.state = 'ready'
    AND c.state IN ('accepted', 'waiting_activation')
"""
_AWAITING_CONSENT = f"""
  SELECT {_COLUMNS} FROM calls
  WHERE runtime_id = :runtime_id AND {_LIVE} AND state = 'awaiting_consent'
  ORDER BY arrival
"""
# From the newest backwards, so that a page of a long history ends as soon as it is full.
_NEWEST_OF_CONVERSATION = f"""
  SELECT {_COLUMNS} FROM calls
  WHERE runtime_id = :runtime_id AND conversation_id = :conversation_id
    AND accepted_at >= :since_ms AND accepted_at < :until_ms
  ORDER BY arrival DESC LIMIT :limit
"""
_RECEIPTS = """
  SELECT sequence, stage, number, reason, facts, created_at FROM receipts
  WHERE call_ref = :ref ORDER BY sequence
"""


def _call(row: Row) -> Call:
    (ref, agent, conversation_id, call_id, app_scope, method, version, *rest) = tuple(row)
    return Call(ref, agent, conversation_id, call_id, ToolKey(app_scope, method, version), *rest)


def by_call_id(tx: Tx, runtime_id: str, agent: str, conversation_id: str, call_id: str) -> Call | None:
    row = tx.one(
        _BY_CALL_ID,
        {"runtime_id": runtime_id, "agent": agent, "conversation_id": conversation_id, "call_id": call_id},
    )
    return _call(row) if row is not None else None


def by_ref(tx: Tx, ref: str) -> Call | None:
    row = tx.one(_BY_REF, {"ref": ref})
    return _call(row) if row is not None else None


def insert(tx: Tx, runtime_id: str, call: Call) -> None:
    tx.run(
        _INSERT,
        (
            call.ref, runtime_id, call.agent, call.conversation_id, call.call_id, *call.key,
            call.params, call.inventory_revision, call.message_id, call.envelope_id, call.trace,
            call.state, call.call_model, call.app_session_id, call.activation_id, call.operation_id,
            call.sequence, call.progress, call.deadline_at, call.timeout_ms, call.outcome, call.error_code,
            call.accepted_at, call.dispatched_at, call.ended_at, call.ended_by,
        ),
    )  # fmt: skip


def update(tx: Tx, call: Call) -> None:
    tx.run(
        _UPDATE,
        (
            call.state, call.app_session_id, call.activation_id, call.operation_id, call.sequence,
            call.progress, call.deadline_at, call.outcome, call.error_code, call.dispatched_at,
            call.ended_at, call.ended_by, call.ref,
        ),
    )  # fmt: skip


def insert_receipt(tx: Tx, receipt: ReceiptIssued, now: int) -> None:
    facts = json.dumps(receipt.facts) if receipt.facts is not None else None
    tx.run(
        _INSERT_RECEIPT,
        (
            receipt.call_ref, receipt.sequence, receipt.stage, receipt.number, receipt.reason, facts, now,
        ),
    )  # fmt: skip


def queue_of_session(tx: Tx, runtime_id: str, app_session_id: str, limit: int) -> tuple[Call, ...]:
    """Waiting calls that may move on now, in arrival order: all but commands, and the first command."""
    return _with_first_command(tx, _QUEUE, runtime_id, app_session_id, limit)


def rivals_of_new_call(tx: Tx, runtime_id: str, app_session_id: str, limit: int) -> tuple[Call, ...]:
    """What may stand in a new call's way, in arrival order: waiting operations and the first command."""
    return _with_first_command(tx, _OPERATIONS, runtime_id, app_session_id, limit)


def _with_first_command(
    tx: Tx, sql: str, runtime_id: str, app_session_id: str, limit: int
) -> tuple[Call, ...]:
    about = {"runtime_id": runtime_id, "app_session_id": app_session_id, "limit": limit}
    rows = tx.all(sql, about)
    rows += tx.all(_FIRST_COMMAND, {"runtime_id": runtime_id, "app_session_id": app_session_id})
    return tuple(sorted((_call(row) for row in rows), key=lambda call: call.arrival))


def stranded(tx: Tx, runtime_id: str, limit: int) -> tuple[Call, ...]:
    """Live calls whose instance has ended."""
    return tuple(_call(row) for row in tx.all(_STRANDED, {"runtime_id": runtime_id, "limit": limit}))


def has_running_command(tx: Tx, runtime_id: str, app_session_id: str) -> bool:
    about = {"runtime_id": runtime_id, "app_session_id": app_session_id}
    return tx.one(_RUNNING_COMMAND, about) is not None


def live_of_session(tx: Tx, runtime_id: str, app_session_id: str, limit: int) -> tuple[Call, ...]:
    about = {"runtime_id": runtime_id, "app_session_id": app_session_id, "limit": limit}
    return tuple(_call(row) for row in tx.all(_LIVE_OF_SESSION, about))


def live_of_app(tx: Tx, runtime_id: str, app_scope: str, limit: int) -> tuple[Call, ...]:
    about = {"runtime_id": runtime_id, "app_scope": app_scope, "limit": limit}
    return tuple(_call(row) for row in tx.all(_LIVE_OF_APP, about))


def matching(tx: Tx, runtime_id: str, limit: int, **wanted: str | None) -> list[Call]:
    """Calls whose columns have the wanted values (None = any), in arrival order."""
    given = {name: value for name, value in wanted.items() if value is not None}
    where = "".join(f" AND {name} = :{name}" for name in given)
    sql = f"SELECT {_COLUMNS} FROM calls WHERE runtime_id = :runtime_id{where}"
    about = {"runtime_id": runtime_id, "limit": limit, **given}
    return [_call(row) for row in tx.all(f"{sql} ORDER BY arrival LIMIT :limit", about)]


def newest_of_conversation(
    tx: Tx, runtime_id: str, conversation_id: str, *, since_ms: int, until_ms: int | None, limit: int
) -> list[Call]:
    """The last calls accepted within a time (UTC ms, the end excluded), in arrival order."""
    about = {
        "runtime_id": runtime_id,
        "conversation_id": conversation_id,
        "since_ms": since_ms,
        "until_ms": until_ms if until_ms is not None else 2**62,
        "limit": limit,
    }
    return [_call(row) for row in reversed(tx.all(_NEWEST_OF_CONVERSATION, about))]


def dispatched(tx: Tx, runtime_id: str) -> list[Call]:
    return [_call(row) for row in tx.all(_DISPATCHED, {"runtime_id": runtime_id})]


def awaiting_consent(tx: Tx, runtime_id: str) -> list[Call]:
    return [_call(row) for row in tx.all(_AWAITING_CONSENT, {"runtime_id": runtime_id})]


@record
class Due:
    """One persisted deadline: what it belongs to, when it passes (UTC ms) and its whole length."""

    kind: str
    id: str
    at: int
    span_ms: int


def deadlines(tx: Tx, runtime_id: str, before: int) -> list[Due]:
    """Deadlines of live calls that pass before a time (UTC ms)."""
    rows = tx.all(_DEADLINES, {"runtime_id": runtime_id, "before": before})
    return [Due("call", *tuple(row)) for row in rows]


def ready_to_pump(tx: Tx, runtime_id: str) -> list[tuple[str, str]]:
    """(conversation, app) of ready sessions with calls that may move on."""
    return [(row[0], row[1]) for row in tx.all(_READY_TO_PUMP, {"runtime_id": runtime_id})]


def receipts(tx: Tx, ref: str) -> list[dict[str, Any]]:
    """The receipts of a call as plain values, in order."""
    return [
        {
            "sequence": row[0],
            "stage": row[1],
            "number": row[2],
            "reason": row[3],
            "facts": json.loads(row[4]) if row[4] is not None else None,
            "created_at": row[5],
        }
        for row in tx.all(_RECEIPTS, {"ref": ref})
    ]
