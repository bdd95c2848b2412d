"""Decides whether what comes over an instance's own port counts: the person's actions, the surface's events
(design: runtime 3.1, second entry).

Checks in order: instance alive, declared, schema, idempotency. Neither becomes a tool call, carries an agent
or depends on any inventory.
"""

from __future__ import annotations

from typing import Any

from lineloop.device.decide.facts import DeliverAction, UiActionReceived
from lineloop.device.decide.plan import Plan
from lineloop.device.decide.schemas import Schemas
from lineloop.device.decide.state import Instance
from lineloop.kit import json
from lineloop.kit.records import record
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import LimitExceeded, LoopError

MAX_EVENT_CHARS = 16 * 1024


@record
class UiAction:
    """What came over an instance's own port. `action_id` makes a repeat harmless."""

    instance_id: str
    action_id: str
    action: str
    params: dict[str, Any]
    digest: str


@record
class SurfaceEvent:
    """What a surface says has happened in it, over its instance's own port."""

    instance_id: str
    name: str
    data: Any


def decide_surface_event(
    plan: Plan,
    event: SurfaceEvent,
    instance: Instance | None,
    schema: dict[str, Any] | None,
    schemas: Schemas,
) -> None:
    """Notes a declared event. It is no action, moves nothing and reaches no handler.

    Raises LoopError: not_found (instance gone or event not declared), invalid_arguments, limit_exceeded.
    """
    _check_declared(instance, schema, "event")
    assert instance is not None
    assert schema is not None
    if len(json.dumps(event.data)) > MAX_EVENT_CHARS:
        raise LimitExceeded("an event has at most 16 KiB", detail={"max": MAX_EVENT_CHARS})
    errors = schemas.errors_of(schema, event.data)
    if errors:
        raise LoopError("the event breaks its schema", code=ErrorCode.INVALID_ARGUMENTS, errors=errors)
    plan.audit(
        "surface_event",
        actor=event.instance_id,
        conversation_id=instance.conversation_id,
        app_scope=instance.app_scope,
        detail={"name": event.name, "data": event.data},
    )


def _check_declared(instance: Instance | None, schema: dict[str, Any] | None, what: str) -> None:
    if instance is None or instance.ended_at is not None or instance.state == "stopping":
        raise LoopError("the app does not run any more", code=ErrorCode.NOT_FOUND)
    if schema is None:
        raise LoopError(f"the app declares no such {what}", code=ErrorCode.NOT_FOUND)


def decide_ui_action(
    plan: Plan,
    request: UiAction,
    instance: Instance | None,
    schema: dict[str, Any] | None,
    earlier_digest: str | None,
    schemas: Schemas,
) -> bool:
    """True when the action is new and goes to the app, False for a repeat.

    Raises LoopError: not_found (instance gone or action not declared), invalid_arguments, key_conflict.
    """
    _check_declared(instance, schema, "action")
    assert instance is not None
    assert schema is not None
    errors = schemas.errors_of(schema, request.params)
    if errors:
        raise LoopError("the parameters break the schema", code=ErrorCode.INVALID_ARGUMENTS, errors=errors)
    if earlier_digest is not None:
        if earlier_digest != request.digest:
            raise LoopError("the action id was used for another action", code=ErrorCode.KEY_CONFLICT)
        return False
    plan.facts.append(
        UiActionReceived(request.instance_id, request.action_id, request.digest, request.action)
    )
    plan.audit(
        "action_received",
        actor=request.instance_id,
        conversation_id=instance.conversation_id,
        app_scope=instance.app_scope,
        detail={"action": request.action, "action_id": request.action_id},
    )
    plan.effects.append(DeliverAction(instance, request.action_id, request.action, request.params))
    return True
