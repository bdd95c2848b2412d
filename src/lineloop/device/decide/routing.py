"""Decides where an accepted call goes next: consent, activation, foreground, handler or built-in (steps 9
to 11).

Called for a call that has just been accepted, whose consent came, and for each waiting call when its app
gets ready, confirmed or free. Leaves the end of calls to calls.py and operations.py.
"""

from __future__ import annotations

from dataclasses import replace

from lineloop.device.decide.activation import cancel_activation, drop_pointless_activation, launch
from lineloop.device.decide.facts import AskConsent, ConsentRequested, Dispatch
from lineloop.device.decide.focus import is_shown, show
from lineloop.device.decide.operations import DEADLINE_INTERRUPT, interrupt, is_start, start_operation
from lineloop.device.decide.outcomes import end_with_outcome
from lineloop.device.decide.plan import Failure, Plan
from lineloop.device.decide.route import Route
from lineloop.device.decide.state import App, Call, Session
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.tools import ActivationRequirement, CallModel, Delivery, Risk, ToolDescriptor

WAITS_FOR_APP = frozenset({"accepted", "waiting_activation", "waiting_foreground"})


def begin(plan: Plan, call: Call, tool: ToolDescriptor, session: Session, route: Route) -> Session:
    """Step 9 for a call that was just accepted: risky tools wait for the person, the others go on."""
    if tool.risk is not Risk.LOW:
        call = plan.receipt(plan.move(call, "awaiting_consent"), "accepted")
        plan.facts.append(ConsentRequested(plan.ids.make("cns"), call.ref))
        plan.effects.append(AskConsent(call))
        return session
    return go_on(plan, call, tool, session, route)


def go_on(plan: Plan, call: Call, tool: ToolDescriptor, session: Session, route: Route) -> Session:
    """Steps 10 and 11 for a call that nobody has to agree to any more."""
    if is_start(tool) and _already_active(call, session, route.app):
        call = _first_receipt(plan, call)
        end_with_outcome(plan, call, tool, route.schemas, "not_started", "already_active")
        return session
    if tool.activation_requirement is ActivationRequirement.ACTIVATION_NOT_REQUIRED:
        return _without_activation(plan, call, tool, session, route)
    foreground = tool.activation_requirement is ActivationRequirement.FOREGROUND_REQUIRED
    if not session.ready and not session.starting:
        if not tool.auto_launch:
            plan.fail(_first_receipt(plan, call), Failure(ErrorCode.APP_NOT_RUNNING))
            return session
        session = launch(plan, route.app, session, foreground=foreground, patience_ms=tool.timeout_ms)
    elif session.starting and foreground and not session.in_front:
        session = show(plan, session)
    assert session.activation is not None
    call = call.changed(app_session_id=session.app_session_id, activation_id=session.activation.activation_id)
    if session.starting:
        call = _first_receipt(plan, plan.move(call, "waiting_activation"), "starting")
        return replace(session, queue=(*session.queue, call))
    return go_on_ready(plan, call, tool, session, route)


def _first_receipt(plan: Plan, call: Call, stage: str = "accepted", *, urgent: bool = True) -> Call:
    """The first answer to the agent, unless it already has one (a consent was asked for)."""
    if call.sequence == 0 or (stage == "starting"):
        return plan.receipt(call, stage, urgent=urgent)
    return call


def _already_active(call: Call, session: Session, app: App) -> bool:
    if session.operation is not None:
        return True
    return any(
        other.ref != call.ref and other.state in WAITS_FOR_APP and is_start(app.tool(other.key))
        for other in session.queue
    )


def _without_activation(
    plan: Plan, call: Call, tool: ToolDescriptor, session: Session, route: Route
) -> Session:
    """Works on what there is; never starts or wakes an app, never waits."""
    if tool.delivery is Delivery.RUNTIME:
        call = _first_receipt(plan, call)
        if tool.execution is None or tool.execution.name != DEADLINE_INTERRUPT:
            plan.fail(call, Failure(ErrorCode.HANDLER_FAILED, "execution_unknown"))
            return session
        session, cancelled = interrupt(plan, call, tool, session, route)
        if cancelled:
            session = drop_pointless_activation(plan, session, route.app, route.schemas, "cancelled_by_agent")
        return session
    if not session.ready:
        plan.fail(_first_receipt(plan, call), Failure(ErrorCode.APP_NOT_RUNNING))
        return session
    call = call.changed(app_session_id=session.app_session_id)
    return dispatch(plan, call, tool, session)


def go_on_ready(plan: Plan, call: Call, tool: ToolDescriptor, session: Session, route: Route) -> Session:
    """Step 10 is done as far as readiness goes: wait for the foreground if need be, then step 11."""
    assert session.instance is not None
    foreground = tool.activation_requirement is ActivationRequirement.FOREGROUND_REQUIRED
    if foreground and not session.instance.confirmed:
        if not session.in_front:
            session = show(plan, session)
        call = _tell_ready(plan, call)
        if call.state != "waiting_foreground":
            call = plan.move(call, "waiting_foreground")
        return replace(session, queue=(*session.queue, call))
    if tool.delivery is Delivery.RUNTIME:
        return _start_built_in(plan, call, tool, session, route)
    return dispatch(plan, call, tool, session)


def _start_built_in(plan: Plan, call: Call, tool: ToolDescriptor, session: Session, route: Route) -> Session:
    call = _first_receipt(plan, call)
    if not is_start(tool):
        plan.fail(call, Failure(ErrorCode.HANDLER_FAILED, "execution_unknown"))
        return session
    return start_operation(plan, call, tool, session, route.schemas)[1]


def _tell_ready(plan: Plan, call: Call, *, urgent: bool = True) -> Call:
    """`activation_ready` for a call that waited for it; `accepted` for one that found the app ready."""
    if call.sequence == 0:
        return plan.receipt(call, "accepted", urgent=urgent)
    if call.state == "waiting_activation":
        return plan.receipt(call, "activation_ready", urgent=urgent)
    return call


def dispatch(plan: Plan, call: Call, tool: ToolDescriptor, session: Session) -> Session:
    """Hands the call to the app session. Commands go one after the other, in arrival order.

    The first receipt may wait for the result: the same frame takes both when the handler is quick.
    """
    queued = any(
        other.call_model == CallModel.COMMAND and other.state in WAITS_FOR_APP and other.ref != call.ref
        for other in session.queue
    )
    if tool.call_model is CallModel.COMMAND and (session.running_command or queued):
        if call.sequence == 0:
            call = plan.receipt(call, "accepted")
        return replace(session, queue=(*session.queue, call))
    call = _tell_ready(plan, call, urgent=False)
    call = plan.move(call, "dispatched", dispatched_at=plan.now)
    plan.effects.append(Dispatch(call))
    return replace(session, running_command=True) if tool.call_model is CallModel.COMMAND else session


def pump(plan: Plan, session: Session, route: Route) -> Session:
    """Moves the waiting calls of a ready session on, in persisted arrival order.

    The queue may be a part of what waits; whoever loads it comes again while something moved.
    """
    waiting, session = session.queue, replace(session, queue=())
    for index, call in enumerate(waiting):
        if call.state not in WAITS_FOR_APP:
            session = replace(session, queue=(*session.queue, call))
            continue
        if not session.ready:
            return replace(session, queue=(*session.queue, *waiting[index:]))
        tool = route.app.tool(call.key)
        if tool is None:
            plan.fail(call, Failure(ErrorCode.APP_VERSION_MISMATCH))
            continue
        if is_start(tool) and session.operation is not None:
            end_with_outcome(plan, call, tool, route.schemas, "not_started", "already_active")
            continue
        session = go_on_ready(plan, call, tool, session, route)
    return session


def leave_while_starting(plan: Plan, session: Session, route: Route, reason: str) -> Session:
    """The person turned away before the host confirmed: what waited for the foreground does not begin."""
    if session.starting and is_shown(session):
        return cancel_activation(plan, session, route.app, route.schemas, reason)
    return session
