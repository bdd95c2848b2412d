"""Reads what the shell shows: live instances, stacks, what is in front, a surface's state. No decisions."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from lineloop.device.decide.envelopes import wire_time
from lineloop.device.decide.state import Activation, Instance, Operation
from lineloop.device.store import calls, sessions
from lineloop.kit.database import Tx
from lineloop.kit.records import record


@record
class Workspace:
    """Everything that runs or is being closed, as of one moment.

    `activations` by instance; `stacks` by conversation, foreground last; `front` is what the person should
    see, None = chat.
    """

    instances: tuple[Instance, ...] = ()
    closing: tuple[Instance, ...] = ()
    activations: dict[str, Activation] = field(default_factory=dict[str, Activation])
    stacks: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    front: str | None = None

    def instance(self, instance_id: str | None) -> Instance | None:
        """A live instance, or None."""
        return next((one for one in self.instances if one.instance_id == instance_id), None)


def read_workspace(tx: Tx, runtime_id: str) -> Workspace:
    live = sorted(sessions.live_instances(tx, runtime_id), key=lambda one: (one.started_at, one.instance_id))
    found = {one.instance_id: sessions.activation_of(tx, one.instance_id) for one in live}
    return Workspace(
        instances=tuple(live),
        closing=tuple(sessions.stopping_instances(tx, runtime_id)),
        activations={name: activation for name, activation in found.items() if activation is not None},
        stacks={
            conversation_id: sessions.focus_stack(tx, runtime_id, conversation_id)
            for conversation_id in sessions.focused_conversations(tx, runtime_id)
        },
        front=sessions.front_of_focus(tx, runtime_id),
    )


@record
class SurfaceFacts:
    """What the surface of an instance is about. `operation` is its newest; `params` are its call's."""

    instance: Instance
    activation: Activation | None
    operation: Operation | None
    method: str | None
    params: dict[str, Any]


def read_surface_facts(tx: Tx, instance_id: str) -> SurfaceFacts | None:
    instance = sessions.instance_by_id(tx, instance_id)
    if instance is None:
        return None
    operation = sessions.operation_of_instance(tx, instance_id)
    call = calls.by_ref(tx, operation.call_ref) if operation is not None else None
    return SurfaceFacts(
        instance,
        sessions.activation_of(tx, instance_id),
        operation,
        call.key.method if call is not None else None,
        call.arguments if call is not None else {},
    )


def surface_state(facts: SurfaceFacts, *, now_ms: int, elapsed_ms: int, language: str) -> dict[str, Any]:
    """The state of a surface in wire words. `elapsed_ms`: how long a running operation has run.

    `operation.state` is `active` or `ended`; an ended one has its outcome.
    """
    activation = facts.activation.state if facts.activation is not None else None
    return {
        "instance_state": facts.instance.state,
        "now": wire_time(now_ms),
        "operation": _operation(facts, elapsed_ms),
        "activation": activation if activation in ("starting", "ready") else None,
        "language": language,
    }


def _operation(facts: SurfaceFacts, elapsed_ms: int) -> dict[str, Any] | None:
    operation = facts.operation
    if operation is None:
        return None
    active = operation.state == "active"
    elapsed = elapsed_ms if active else operation.elapsed_ms
    elapsed = max(0, min(elapsed if elapsed is not None else operation.duration_ms, operation.duration_ms))
    return {
        "name": facts.method,
        "params": facts.params,
        "state": "active" if active else "ended",
        "outcome": None if active else operation.state,
        "started_at": wire_time(operation.started_at),
        "ends_at": wire_time(operation.ends_at),
        "duration_ms": operation.duration_ms,
        "elapsed_ms": elapsed,
        "remaining_ms": operation.duration_ms - elapsed,
    }
