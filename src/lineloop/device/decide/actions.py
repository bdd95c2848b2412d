"""Decides whether a UI action of the person reaches its app (design: runtime 3.1, second entry).

Checks in order: instance alive, action declared, schema, idempotency. It never becomes a tool call, carries
no agent and does not depend on any inventory.
"""

from __future__ import annotations

from typing import Any

from lineloop.device.decide.facts import DeliverAction, UiActionReceived
from lineloop.device.decide.plan import Plan
from lineloop.device.decide.schemas import Schemas
from lineloop.device.decide.state import Instance
from lineloop.kit.records import record
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import LoopError


@record
class UiAction:
    """What came over an instance's own port. `action_id` makes a repeat harmless."""

    instance_id: str
    action_id: str
    action: str
    params: dict[str, Any]
    digest: str


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
    if instance is None or instance.ended_at is not None or instance.state == "stopping":
        raise LoopError("the app does not run any more", code=ErrorCode.NOT_FOUND)
    if schema is None:
        raise LoopError("the app declares no such action", code=ErrorCode.NOT_FOUND)
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
