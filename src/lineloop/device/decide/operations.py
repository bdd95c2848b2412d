"""Decides how deadline operations begin and end: the built-ins `deadline.start` and `deadline.interrupt`.

Generic: what an operation is called, how long it may be and which outcomes it knows come from the tool's
manifest. An operation begins only with its `started` receipt, its `ends_at` never moves, and it ends once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lineloop.device.decide.envelopes import wire_time
from lineloop.device.decide.facts import (
    ArmDeadline,
    OperationEnded,
    OperationStarted,
    RecordWritten,
)
from lineloop.device.decide.focus import take_away
from lineloop.device.decide.outcomes import end_with_outcome, fit_result
from lineloop.device.decide.plan import Failure, Plan
from lineloop.device.decide.route import Route
from lineloop.device.decide.schemas import Schemas
from lineloop.device.decide.state import App, Call, Operation, Session
from lineloop.kit import json
from lineloop.protocol.content import text_content
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import InvalidRequest
from lineloop.protocol.tools import ToolDescriptor

DEADLINE_START = "deadline.start"
DEADLINE_INTERRUPT = "deadline.interrupt"


def is_start(tool: ToolDescriptor | None) -> bool:
    """Whether the tool begins a deadline operation."""
    return tool is not None and tool.execution is not None and tool.execution.name == DEADLINE_START


def start_operation(
    plan: Plan, call: Call, tool: ToolDescriptor, session: Session, schemas: Schemas
) -> tuple[Call, Session]:
    """Activation ready, operation and `started` are facts of one decision. Only now does the time run."""
    assert tool.execution is not None
    assert session.instance is not None
    duration_ms = _duration_ms(tool, call)
    if duration_ms is None:
        return end_with_outcome(plan, call, tool, schemas, "not_started", "invalid_duration"), session
    operation = Operation(
        operation_id=plan.ids.make("opn"),
        execution=tool.execution.name,
        app_scope=session.app_scope,
        conversation_id=session.conversation_id,
        app_session_id=session.instance.app_session_id,
        instance_id=session.instance.instance_id,
        call_ref=call.ref,
        state="active",
        on_leave=tool.execution.on_leave,
        duration_ms=duration_ms,
        started_at=plan.now,
        ends_at=plan.now + duration_ms,
        ended_at=None,
        elapsed_ms=None,
        reason=None,
    )
    plan.facts.append(OperationStarted(operation))
    call = plan.move(call, "operating", operation_id=operation.operation_id, deadline_at=None)
    call = plan.receipt(
        call,
        "started",
        facts={
            "started_at": wire_time(operation.started_at),
            "ends_at": wire_time(operation.ends_at),
            "duration_ms": duration_ms,
        },
    )
    plan.effects.append(ArmDeadline("operation", operation.operation_id, operation.ends_at, duration_ms))
    return call, replace(session, operation=operation)


def _duration_ms(tool: ToolDescriptor, call: Call) -> int | None:
    assert tool.execution is not None
    if tool.execution.duration_from is None:
        return None
    try:
        duration = tool.execution.duration_from.duration_ms(json.loads(call.params))
    except InvalidRequest:
        return None
    return duration if duration > 0 else None


def end_operation(plan: Plan, session: Session, route: Route, outcome: str, reason: str | None) -> Session:
    """The one end of an operation: outcome, result, record and the instance's end are facts of one
    decision.

    Answers the session unchanged when there is nothing active: completion and interruption may race, the
    first to be decided has won.
    """
    operation = session.operation
    if operation is None or operation.state != "active":
        return session
    app, call = route.app, route.operation_call
    elapsed_ms = max(0, min(route.elapsed_ms, operation.duration_ms))
    ended = replace(operation, state=outcome, ended_at=plan.now, elapsed_ms=elapsed_ms, reason=reason)
    plan.facts.append(OperationEnded(ended))
    if call is not None and not call.ended:
        _answer_end(plan, call, app.tool(call.key), ended, route.schemas)
    record = record_content(app, call, ended)
    plan.facts.append(RecordWritten(plan.ids.make("rec"), ended, record))
    message: dict[str, Any] = {
        "conversation_id": ended.conversation_id,
        "key": f"{ended.operation_id}/record",
        "content": record,
    }
    if route.person is not None:
        message["target"] = route.person.to_wire()
    plan.speak(ended.conversation_id, message)
    after = replace(session, operation=None)
    if session.instance is not None and session.instance.instance_id == ended.instance_id:
        after = take_away(plan, after, app, "stopping", f"operation_{outcome}")
    return after


def _answer_end(
    plan: Plan, call: Call, tool: ToolDescriptor | None, operation: Operation, schemas: Schemas
) -> None:
    facts = operation_facts(operation)
    if tool is None:
        plan.fail(call, Failure(ErrorCode.APP_NOT_INSTALLED))
        return
    result = fit_result(tool, json.loads(call.params), facts, schemas)
    if result is None:
        plan.fail(call, Failure(ErrorCode.HANDLER_FAILED, "output_invalid"))
    else:
        plan.succeed(call, result)


def operation_facts(operation: Operation) -> dict[str, Any]:
    """What an ended operation came to, in wire words."""
    facts: dict[str, Any] = {
        "outcome": operation.state,
        "started_at": wire_time(operation.started_at),
        "ended_at": wire_time(operation.ended_at if operation.ended_at is not None else operation.ends_at),
        "duration_ms": operation.duration_ms,
        "elapsed_ms": operation.elapsed_ms if operation.elapsed_ms is not None else operation.duration_ms,
    }
    if operation.reason is not None:
        facts["reason"] = operation.reason
    return facts


def record_content(app: App, call: Call | None, operation: Operation) -> dict[str, Any]:
    """The static copy for the conversation: a sentence for people and a block with the facts."""
    params: dict[str, Any] = json.loads(call.params) if call is not None else {}
    facts = operation_facts(operation)
    seconds = facts["elapsed_ms"] // 1000
    label = next((f" “{value}”" for name, value in params.items() if name == "label" and value), "")
    text = f"{app.title}{label}: {operation.state.replace('_', ' ')}, {seconds // 60} min {seconds % 60} s"
    content = text_content(text, meta={"record": operation.app_scope})
    content["blocks"].append(
        {
            "id": "record",
            "type": "record",
            "app_scope": operation.app_scope,
            "title": app.title,
            "params": params,
            **facts,
        }
    )
    return content


def interrupt(
    plan: Plan, call: Call, tool: ToolDescriptor, session: Session, route: Route
) -> tuple[Session, bool]:
    """Runs `deadline.interrupt`: ends what this conversation has running, never opens anything.

    Answers the session and whether waiting starts have been cancelled (their activation may now be
    pointless).
    """
    app, schemas = route.app, route.schemas
    if session.operation is not None:
        elapsed_ms = max(0, min(route.elapsed_ms, session.operation.duration_ms))
        session = end_operation(plan, session, route, "interrupted", "interrupted_by_agent")
        _finish(plan, call, tool, {"outcome": "interrupted", "elapsed_ms": elapsed_ms}, schemas)
        return session, False
    waiting = [other for other in session.queue if other.ref != call.ref and is_start(app.tool(other.key))]
    for other in waiting:
        start = app.tool(other.key)
        assert start is not None
        if session.starting:
            other = plan.receipt(other, "activation_cancelled", reason="cancelled_by_agent")
        end_with_outcome(plan, other, start, schemas, "not_started", "cancelled_by_agent")
    _finish(plan, call, tool, {"outcome": "cancelled" if waiting else "nothing_to_interrupt"}, schemas)
    left = tuple(other for other in session.queue if other not in waiting)
    return replace(session, queue=left), bool(waiting)


def _finish(plan: Plan, call: Call, tool: ToolDescriptor, facts: dict[str, Any], schemas: Schemas) -> None:
    result = fit_result(tool, json.loads(call.params), facts, schemas)
    call = plan.move(call, "dispatched", dispatched_at=plan.now)
    if result is None:
        plan.fail(call, Failure(ErrorCode.HANDLER_FAILED, "output_invalid"))
    else:
        plan.succeed(call, result)
