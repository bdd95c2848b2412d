"""Decides how an app gets ready, and what becomes of the calls that wait for it (design: runtime 3.4, 3.5).

One live activation per sub-session. Calls that arrive meanwhile are attached; on ready they go on in
persisted arrival order (routing.py), on failure or cancellation each gets its answer and no handler runs.
"""

from __future__ import annotations

from dataclasses import replace

from lineloop.device.decide.facts import (
    ActivationEnded,
    ActivationStarted,
    ArmDeadline,
    InstanceStarted,
    StartContainer,
    SubSessionOpened,
)
from lineloop.device.decide.focus import change_instance, show, take_away
from lineloop.device.decide.outcomes import end_not_begun
from lineloop.device.decide.plan import Failure, Plan
from lineloop.device.decide.schemas import Schemas
from lineloop.device.decide.state import Activation, App, Call, Instance, Session
from lineloop.device.decide.transitions import move_activation
from lineloop.protocol.error_codes import ErrorCode

WAITING = frozenset({"accepted", "awaiting_consent", "waiting_activation", "waiting_foreground"})


def launch(plan: Plan, app: App, session: Session, *, foreground: bool, patience_ms: int) -> Session:
    """Starts the app: sub-session if none is open, instance, activation. Nothing runs before the commit.

    An app with handlers is ready when its container has registered them; an app without any when the host has
    confirmed it, or at once if nobody asks for the foreground. `patience_ms` bounds the wait for the person.
    """
    app_session_id = session.app_session_id
    if app_session_id is None:
        app_session_id = plan.ids.make("ses")
        plan.facts.append(SubSessionOpened(app_session_id, session.conversation_id, app.app_scope))
    instance = Instance(
        instance_id=plan.ids.make("ins"),
        app_session_id=app_session_id,
        app_scope=app.app_scope,
        app_version=app.version,
        conversation_id=session.conversation_id,
        state="starting",
        generation=0,
        confirmed_generation=None,
        reason=None,
        started_at=plan.now,
        ended_at=None,
    )
    span = plan.limits.activation_timeout_ms if app.has_handlers else patience_ms
    activation = Activation(
        activation_id=plan.ids.make("act"),
        instance_id=instance.instance_id,
        app_session_id=app_session_id,
        conversation_id=session.conversation_id,
        app_scope=app.app_scope,
        state="starting",
        waits_for="container" if app.has_handlers else "foreground",
        reason=None,
        deadline_at=plan.now + span,
        started_at=plan.now,
        ended_at=None,
    )
    plan.facts += [InstanceStarted(instance), ActivationStarted(activation)]
    session = replace(session, app_session_id=app_session_id, instance=instance, activation=activation)
    if app.has_handlers:
        plan.effects.append(StartContainer(activation))
    if foreground:
        session = show(plan, session)
    if not app.has_handlers and not foreground:
        return make_ready(plan, session)
    plan.effects.append(ArmDeadline("activation", activation.activation_id, activation.deadline_at, span))
    return session


def make_ready(plan: Plan, session: Session) -> Session:
    """Ends the activation `ready`. The instance leaves `starting`, for the background unless it is
    confirmed.
    """
    assert session.activation is not None
    assert session.instance is not None
    instance = session.instance
    if instance.state == "starting":
        instance = change_instance(plan, instance, "background")
    return replace(session, instance=instance, activation=_end(plan, session.activation, "ready", None))


def _end(plan: Plan, activation: Activation, state: str, reason: str | None) -> Activation:
    move_activation(activation.state, state)
    ended = replace(activation, state=state, reason=reason, ended_at=plan.now)
    plan.facts.append(ActivationEnded(ended))
    return ended


def fail_activation(plan: Plan, session: Session, app: App | None, schemas: Schemas, reason: str) -> Session:
    """The app could not be made ready: every attached call is answered, what was shown before comes back."""
    assert session.activation is not None
    if session.activation.waits_for == "foreground":
        failure = Failure(ErrorCode.FOREGROUND_REQUIRED, reason)
    else:
        failure = Failure(ErrorCode.APP_ACTIVATION_FAILED, reason)
    return _give_up(plan, session, app, schemas, "failed", reason, failure)


def cancel_activation(
    plan: Plan,
    session: Session,
    app: App | None,
    schemas: Schemas,
    reason: str,
    failure: Failure | None = None,
) -> Session:
    """The start is not wanted any more; nothing has begun."""
    failure = failure or Failure(ErrorCode.APP_ACTIVATION_CANCELLED, reason)
    return _give_up(plan, session, app, schemas, "cancelled", reason, failure)


def _give_up(
    plan: Plan,
    session: Session,
    app: App | None,
    schemas: Schemas,
    state: str,
    reason: str,
    failure: Failure,
) -> Session:
    assert session.activation is not None
    _end(plan, session.activation, state, reason)
    for call in session.queue:
        if call.state in WAITING and call.activation_id == session.activation.activation_id:
            told = plan.receipt(call, f"activation_{state}", reason=reason)
            tool = app.tool(call.key) if app is not None else None
            end_not_begun(plan, told, tool, schemas, reason, failure)
    left = tuple(call for call in session.queue if call.state not in WAITING)
    instance_state = "failed" if state == "failed" else "stopping"
    return take_away(plan, replace(session, queue=left), app, instance_state, reason)


def attached(session: Session) -> tuple[Call, ...]:
    """The live calls that wait for this activation."""
    if session.activation is None:
        return ()
    return tuple(
        call
        for call in session.queue
        if call.state in WAITING and call.activation_id == session.activation.activation_id
    )


def drop_pointless_activation(
    plan: Plan, session: Session, app: App | None, schemas: Schemas, reason: str
) -> Session:
    """A start that would only show the app to the person is cancelled when nobody waits for it any more."""
    activation = session.activation
    if activation is None or activation.state != "starting" or activation.waits_for != "foreground":
        return session
    if attached(session):
        return session
    return cancel_activation(plan, session, app, schemas, reason)
