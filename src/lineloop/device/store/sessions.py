"""Rows of sub-sessions, instances, activations, operations and focus. SQL and row mapping only."""

from __future__ import annotations

from lineloop.device.decide.state import Activation, Instance, Operation
from lineloop.device.store.calls import Due
from lineloop.kit.database import Tx

_INSTANCE = (
    "instance_id, app_session_id, app_scope, app_version, conversation_id, state, generation,"
    " confirmed_generation, reason, started_at, ended_at"
)
_ACTIVATION = (
    "activation_id, instance_id, app_session_id, conversation_id, app_scope, state, waits_for, reason,"
    " deadline_at, started_at, ended_at"
)
_OPERATION = (
    "operation_id, execution, app_scope, conversation_id, app_session_id, instance_id, call_ref, state,"
    " on_leave, duration_ms, started_at, ends_at, ended_at, elapsed_ms, reason"
)
_LIVE_INSTANCE = "state IN ('starting', 'foreground', 'background', 'suspended')"

_INSERT_SUB_SESSION = """
  INSERT INTO sub_sessions (app_session_id, runtime_id, conversation_id, app_scope, state, created_at)
  VALUES (?, ?, ?, ?, 'open', ?)
"""
_CLOSE_SUB_SESSION = """
  UPDATE sub_sessions SET state = 'closed', closed_at = ? WHERE app_session_id = ? AND state = 'open'
"""
_INSTANCE_BY_ID = f"SELECT {_INSTANCE} FROM instances WHERE instance_id = :instance_id"
_FOREGROUND = f"""
  SELECT {_INSTANCE} FROM instances
  WHERE runtime_id = :runtime_id AND {_LIVE_INSTANCE} AND state = 'foreground'
"""
_LIVE_OF_APP = f"""
  SELECT {_INSTANCE} FROM instances
  WHERE runtime_id = :runtime_id AND app_scope = :app_scope AND {_LIVE_INSTANCE}
"""
_ALL_LIVE = f"SELECT {_INSTANCE} FROM instances WHERE runtime_id = :runtime_id AND {_LIVE_INSTANCE}"
_STOPPING = f"SELECT {_INSTANCE} FROM instances WHERE runtime_id = :runtime_id AND state = 'stopping'"
_INSERT_INSTANCE = f"""
  INSERT INTO instances ({_INSTANCE}, runtime_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_UPDATE_INSTANCE = """
  UPDATE instances SET state = ?, generation = ?, confirmed_generation = ?, reason = ?, ended_at = ?
  WHERE instance_id = ?
"""
_ACTIVATION_OF = f"SELECT {_ACTIVATION} FROM activations WHERE instance_id = :instance_id"
_ACTIVATION_BY_ID = f"SELECT {_ACTIVATION} FROM activations WHERE activation_id = :activation_id"
_STARTING = f"SELECT {_ACTIVATION} FROM activations WHERE runtime_id = :runtime_id AND state = 'starting'"
_INSERT_ACTIVATION = f"""
  INSERT INTO activations ({_ACTIVATION}, runtime_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_UPDATE_ACTIVATION = """
  UPDATE activations SET state = ?, reason = ?, ended_at = ? WHERE activation_id = ? AND state = 'starting'
"""
_OPERATION_BY_ID = f"SELECT {_OPERATION} FROM operations WHERE operation_id = :operation_id"
_OPERATION_OF_INSTANCE = f"""
  SELECT {_OPERATION} FROM operations WHERE instance_id = :instance_id ORDER BY started_at DESC LIMIT 1
"""
_ACTIVE_OPERATIONS = f"""
  SELECT {_OPERATION} FROM operations WHERE runtime_id = :runtime_id AND state = 'active'
"""
_INSERT_OPERATION = f"""
  INSERT INTO operations ({_OPERATION}, runtime_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_END_OPERATION = """
  UPDATE operations SET state = ?, ended_at = ?, elapsed_ms = ?, reason = ?
  WHERE operation_id = ? AND state = 'active'
"""
_FOCUS = """
  SELECT instance_id FROM focus
  WHERE runtime_id = :runtime_id AND conversation_id = :conversation_id ORDER BY depth
"""
_TOPS = """
  SELECT instance_id FROM focus AS f
  WHERE runtime_id = :runtime_id AND depth = (SELECT MAX(depth) FROM focus AS g
    WHERE g.runtime_id = f.runtime_id AND g.conversation_id = f.conversation_id)
"""
_NUMBERS = """
  SELECT instance_id, number FROM focus
  WHERE runtime_id = :runtime_id AND conversation_id = :conversation_id
"""
_NEWEST_NUMBER = "SELECT COALESCE(MAX(number), 0) FROM focus WHERE runtime_id = :runtime_id"
_FRONT = """
  SELECT instance_id FROM focus AS f
  WHERE runtime_id = :runtime_id AND depth = (SELECT MAX(depth) FROM focus AS g
    WHERE g.runtime_id = f.runtime_id AND g.conversation_id = f.conversation_id)
  ORDER BY number DESC LIMIT 1
"""
_FOCUSED_CONVERSATIONS = "SELECT DISTINCT conversation_id FROM focus WHERE runtime_id = :runtime_id"
_CLEAR_FOCUS = "DELETE FROM focus WHERE runtime_id = ? AND conversation_id = ?"
_INSERT_FOCUS = """
  INSERT INTO focus (runtime_id, conversation_id, depth, instance_id, number) VALUES (?, ?, ?, ?, ?)
"""


def insert_sub_session(
    tx: Tx, runtime_id: str, app_session_id: str, conversation_id: str, app_scope: str, now: int
) -> None:
    tx.run(_INSERT_SUB_SESSION, (app_session_id, runtime_id, conversation_id, app_scope, now))


def close_sub_session(tx: Tx, app_session_id: str, now: int) -> None:
    tx.run(_CLOSE_SUB_SESSION, (now, app_session_id))


def instance_by_id(tx: Tx, instance_id: str) -> Instance | None:
    row = tx.one(_INSTANCE_BY_ID, {"instance_id": instance_id})
    return Instance(*tuple(row)) if row is not None else None


def foreground_instances(tx: Tx, runtime_id: str) -> tuple[Instance, ...]:
    """What the person has been confirmed to see; more than one only while the host changes over."""
    return tuple(Instance(*tuple(row)) for row in tx.all(_FOREGROUND, {"runtime_id": runtime_id}))


def live_instances(tx: Tx, runtime_id: str, app_scope: str | None = None) -> list[Instance]:
    if app_scope is None:
        rows = tx.all(_ALL_LIVE, {"runtime_id": runtime_id})
    else:
        rows = tx.all(_LIVE_OF_APP, {"runtime_id": runtime_id, "app_scope": app_scope})
    return [Instance(*tuple(row)) for row in rows]


def stopping_instances(tx: Tx, runtime_id: str) -> list[Instance]:
    return [Instance(*tuple(row)) for row in tx.all(_STOPPING, {"runtime_id": runtime_id})]


def insert_instance(tx: Tx, runtime_id: str, one: Instance) -> None:
    tx.run(
        _INSERT_INSTANCE,
        (
            one.instance_id, one.app_session_id, one.app_scope, one.app_version, one.conversation_id,
            one.state, one.generation, one.confirmed_generation, one.reason, one.started_at, one.ended_at,
            runtime_id,
        ),
    )  # fmt: skip


def update_instance(tx: Tx, one: Instance) -> None:
    tx.run(
        _UPDATE_INSTANCE,
        (one.state, one.generation, one.confirmed_generation, one.reason, one.ended_at, one.instance_id),
    )


def activation_of(tx: Tx, instance_id: str) -> Activation | None:
    row = tx.one(_ACTIVATION_OF, {"instance_id": instance_id})
    return Activation(*tuple(row)) if row is not None else None


def activation_by_id(tx: Tx, activation_id: str) -> Activation | None:
    row = tx.one(_ACTIVATION_BY_ID, {"activation_id": activation_id})
    return Activation(*tuple(row)) if row is not None else None


def starting_activations(tx: Tx, runtime_id: str) -> list[Activation]:
    return [Activation(*tuple(row)) for row in tx.all(_STARTING, {"runtime_id": runtime_id})]


def insert_activation(tx: Tx, runtime_id: str, one: Activation) -> None:
    tx.run(
        _INSERT_ACTIVATION,
        (
            one.activation_id, one.instance_id, one.app_session_id, one.conversation_id, one.app_scope,
            one.state, one.waits_for, one.reason, one.deadline_at, one.started_at, one.ended_at, runtime_id,
        ),
    )  # fmt: skip


def end_activation(tx: Tx, one: Activation) -> None:
    tx.run(_UPDATE_ACTIVATION, (one.state, one.reason, one.ended_at, one.activation_id))


def operation_by_id(tx: Tx, operation_id: str) -> Operation | None:
    row = tx.one(_OPERATION_BY_ID, {"operation_id": operation_id})
    return Operation(*tuple(row)) if row is not None else None


def operation_of_instance(tx: Tx, instance_id: str) -> Operation | None:
    row = tx.one(_OPERATION_OF_INSTANCE, {"instance_id": instance_id})
    return Operation(*tuple(row)) if row is not None else None


def active_operations(tx: Tx, runtime_id: str) -> list[Operation]:
    return [Operation(*tuple(row)) for row in tx.all(_ACTIVE_OPERATIONS, {"runtime_id": runtime_id})]


def insert_operation(tx: Tx, runtime_id: str, one: Operation) -> None:
    tx.run(
        _INSERT_OPERATION,
        (
            one.operation_id, one.execution, one.app_scope, one.conversation_id, one.app_session_id,
            one.instance_id, one.call_ref, one.state, one.on_leave, one.duration_ms, one.started_at,
            one.ends_at, one.ended_at, one.elapsed_ms, one.reason, runtime_id,
        ),
    )  # fmt: skip


def end_operation(tx: Tx, one: Operation) -> None:
    tx.run(_END_OPERATION, (one.state, one.ended_at, one.elapsed_ms, one.reason, one.operation_id))


def operation_deadlines(tx: Tx, runtime_id: str) -> list[Due]:
    return [
        Due("operation", one.operation_id, one.ends_at, one.duration_ms)
        for one in active_operations(tx, runtime_id)
    ]


def activation_deadlines(tx: Tx, runtime_id: str) -> list[Due]:
    return [
        Due("activation", one.activation_id, one.deadline_at, one.deadline_at - one.started_at)
        for one in starting_activations(tx, runtime_id)
    ]


def focus_stack(tx: Tx, runtime_id: str, conversation_id: str) -> tuple[str, ...]:
    rows = tx.all(_FOCUS, {"runtime_id": runtime_id, "conversation_id": conversation_id})
    return tuple(row[0] for row in rows)


def tops_of_focus(tx: Tx, runtime_id: str) -> list[str]:
    """The instance on top of each conversation's stack."""
    return [row[0] for row in tx.all(_TOPS, {"runtime_id": runtime_id})]


def front_of_focus(tx: Tx, runtime_id: str) -> str | None:
    """The instance that the person should see now, over all conversations; None = chat."""
    row = tx.one(_FRONT, {"runtime_id": runtime_id})
    return row[0] if row is not None else None


def focused_conversations(tx: Tx, runtime_id: str) -> list[str]:
    """The conversations whose stack is not empty."""
    return [row[0] for row in tx.all(_FOCUSED_CONVERSATIONS, {"runtime_id": runtime_id})]


def set_focus(tx: Tx, runtime_id: str, conversation_id: str, stack: tuple[str, ...]) -> None:
    """Writes the whole stack. A stack that lost nothing was set to show its top: that comes to the front."""
    about = {"runtime_id": runtime_id, "conversation_id": conversation_id}
    numbers = {row[0]: row[1] for row in tx.all(_NUMBERS, about)}
    shown = stack[-1] if stack and numbers.keys() <= set(stack) else None
    newest = tx.one(_NEWEST_NUMBER, {"runtime_id": runtime_id})
    number = (newest[0] if newest is not None else 0) + 1
    tx.run(_CLEAR_FOCUS, (runtime_id, conversation_id))
    for depth, instance_id in enumerate(stack, start=1):
        kept = number if instance_id == shown else numbers.get(instance_id, number)
        tx.run(_INSERT_FOCUS, (runtime_id, conversation_id, depth, instance_id, kept))
