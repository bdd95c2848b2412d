"""Decides what becomes of a session whose app is taken away: disabled, removed, updated, crashed.

Ends live calls with the given code, interrupts operations, denies open consents, closes the instance.
Leaves to the registry whether the app may be taken away.
"""

from __future__ import annotations

from dataclasses import replace

from lineloop.device.decide.activation import cancel_activation
from lineloop.device.decide.focus import take_away
from lineloop.device.decide.intents import close
from lineloop.device.decide.operations import end_operation
from lineloop.device.decide.plan import Failure, Plan
from lineloop.device.decide.route import Route
from lineloop.device.decide.state import Session
from lineloop.protocol.error_codes import ErrorCode


def decide_withdrawal(plan: Plan, session: Session, route: Route, code: ErrorCode) -> Session:
    """Everything of this session ends in the commit that takes the app away."""
    reason = str(code)
    failure = Failure(code)
    session = end_operation(plan, session, route, "interrupted", reason)
    if session.starting:
        session = cancel_activation(plan, session, route.app, route.schemas, reason, failure)
    return close(plan, session, route, failure, reason)


def decide_crash(plan: Plan, session: Session, route: Route, reason: str) -> Session:
    """The app session is gone by itself: what was with it fails, the app can be started again.

    Calls that still waited for their turn fail too: what the app had in mind for them is lost with it. An
    operation is the Runtime's own and goes on.
    """
    plan.audit(
        "session_crashed",
        conversation_id=session.conversation_id,
        app_scope=session.app_scope,
        detail={"reason": reason},
    )
    for call in session.queue:
        if call.operation_id is None:
            plan.fail(call, Failure(ErrorCode.HANDLER_FAILED, "crashed"))
    session = replace(session, queue=())
    if session.operation is not None:
        return session
    return take_away(plan, session, route.app, "failed", reason)
