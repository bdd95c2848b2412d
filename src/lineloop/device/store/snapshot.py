"""One query for what nearly every decision needs: generation, cursor, what is live of an app somewhere, and
whether a call is known.

SQL and row mapping only. One statement instead of six: each statement is a chance for the loop's thread to
take the interpreter away from the writer.
"""

from __future__ import annotations

from lineloop.device.decide.state import Activation, Instance
from lineloop.kit.database import Tx
from lineloop.kit.records import record

_INSTANCE = (
    "i.instance_id, i.app_session_id, i.app_scope, i.app_version, i.conversation_id, i.state, i.generation,"
    " i.confirmed_generation, i.reason, i.started_at, i.ended_at"
)
_ACTIVATION = (
    "a.activation_id, a.instance_id, a.app_session_id, a.conversation_id, a.app_scope, a.state, a.waits_for,"
    " a.reason, a.deadline_at, a.started_at, a.ended_at"
)
_WIDTH = 11
_SNAPSHOT = f"""
  SELECT d.generation, c.position, s.app_session_id, o.operation_id, k.id, {_INSTANCE}, {_ACTIVATION}
  FROM device_state AS d
  LEFT JOIN cursors AS c ON c.runtime_id = d.runtime_id AND c.conversation_id = :conversation_id
  LEFT JOIN sub_sessions AS s ON s.runtime_id = d.runtime_id AND s.conversation_id = :conversation_id
    AND s.app_scope = :app_scope AND s.state = 'open'
  LEFT JOIN operations AS o ON o.runtime_id = d.runtime_id AND o.conversation_id = :conversation_id
    AND o.app_scope = :app_scope AND o.state = 'active'
  LEFT JOIN instances AS i ON i.runtime_id = d.runtime_id AND i.conversation_id = :conversation_id
    AND i.app_scope = :app_scope AND i.state IN ('starting', 'foreground', 'background', 'suspended')
  LEFT JOIN calls AS k ON k.runtime_id = d.runtime_id AND k.agent = :agent
    AND k.conversation_id = :conversation_id AND k.call_id = :call_id
  LEFT JOIN activations AS a ON a.instance_id = i.instance_id
  WHERE d.runtime_id = :runtime_id
"""


@record
class Snapshot:
    """`position` is the conversation's cursor, `operation_id` that of an active operation, `known_ref` the
    call that was asked about.
    """

    generation: str
    position: int
    app_session_id: str | None
    operation_id: str | None
    known_ref: str | None
    instance: Instance | None
    activation: Activation | None


def load_snapshot(
    tx: Tx,
    runtime_id: str,
    conversation_id: str,
    app_scope: str,
    *,
    agent: str | None = None,
    call_id: str | None = None,
) -> Snapshot:
    about = {"runtime_id": runtime_id, "conversation_id": conversation_id, "app_scope": app_scope}
    about |= {"agent": agent, "call_id": call_id}
    row = tx.one(_SNAPSHOT, about)
    if row is None:
        return Snapshot("", 0, None, None, None, None, None)
    values = tuple(row)
    instance, activation = values[5 : 5 + _WIDTH], values[5 + _WIDTH :]
    return Snapshot(
        generation=values[0],
        position=values[1] or 0,
        app_session_id=values[2],
        operation_id=values[3],
        known_ref=values[4],
        instance=Instance(*instance) if instance[0] is not None else None,
        activation=Activation(*activation) if activation[0] is not None else None,
    )
