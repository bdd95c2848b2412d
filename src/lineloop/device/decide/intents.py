"""Decides what a host intent does: what the person, the window or the system did around an app (design:
3.5, 3.9).

Leaving is making chat or another app the foreground, opening another conversation's workspace, closing the
app. It is recorded as a host intent and never dressed up as a tool call. A hidden tab, a closed browser, a
lost connection, dim, lock and reload are conditions, not intents: they change nothing here.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

from lineloop.device.decide.activation import WAITING, cancel_activation, launch
from lineloop.device.decide.facts import FocusSet
from lineloop.device.decide.focus import is_shown, put_aside, show, take_away
from lineloop.device.decide.operations import end_operation
from lineloop.device.decide.outcomes import end_not_begun
from lineloop.device.decide.plan import Failure, Plan
from lineloop.device.decide.route import Route
from lineloop.device.decide.state import App, Call, Session
from lineloop.kit.records import record
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import LoopError


class IntentKind(StrEnum):
    """What a host can report. The last five are conditions."""

    SHOW_CHAT = "show_chat"
    SHOW_APP = "show_app"
    OPEN_CONVERSATION = "open_conversation"
    CLOSE_APP = "close_app"
    HIDDEN = "hidden"
    DIMMED = "dimmed"
    LOCKED = "locked"
    RELOADED = "reloaded"
    DISCONNECTED = "disconnected"

    @property
    def leaves(self) -> bool:
        """Whether the person turned away from the app that was shown."""
        return self in _LEAVING


_LEAVING = frozenset(
    {IntentKind.SHOW_CHAT, IntentKind.SHOW_APP, IntentKind.OPEN_CONVERSATION, IntentKind.CLOSE_APP}
)


@record
class HostIntent:
    """One report of a host session. `instance_id` is what it is about: the closed or the newly shown app."""

    host_session_id: str
    kind: IntentKind
    conversation_id: str
    instance_id: str | None = None


def decide_leave(plan: Plan, intent: HostIntent, session: Session, route: Route) -> Session:
    """What becomes of the app that the person leaves. `session` is that app's."""
    closing = intent.kind is IntentKind.CLOSE_APP
    plan.audit(
        "app_closed" if closing else "app_left",
        actor=intent.host_session_id,
        conversation_id=session.conversation_id,
        app_scope=session.app_scope,
        detail={"intent": str(intent.kind)},
    )
    if session.starting and (closing or is_shown(session)):
        failure = Failure(ErrorCode.CANCELLED_BY_USER, "left") if closing else None
        return cancel_activation(plan, session, route.app, route.schemas, "left", failure)
    operation = session.operation
    if operation is not None and (closing or operation.on_leave == "interrupt"):
        session = end_operation(plan, session, route, "interrupted", "left")
        if session.instance is None:
            return session
    session = _end_foreground_waits(plan, session, route)
    if closing:
        return close(plan, session, route, Failure(ErrorCode.CANCELLED_BY_USER, "app_closed"), "closed")
    return put_aside(plan, session)


def _end_foreground_waits(plan: Plan, session: Session, route: Route) -> Session:
    """Calls that waited for the host's confirmation do not begin when the person leaves instead."""
    left: list[Call] = []
    for call in session.queue:
        if call.state == "waiting_foreground":
            failure = Failure(ErrorCode.FOREGROUND_REQUIRED, "left")
            end_not_begun(plan, call, route.app.tool(call.key), route.schemas, "left", failure)
        else:
            left.append(call)
    return replace(session, queue=tuple(left))


def close(plan: Plan, session: Session, route: Route, failure: Failure, reason: str) -> Session:
    """Ends the instance and every live call that was with it or waited for it."""
    for call in session.queue:
        if call.state in WAITING or call.operation_id is None:
            plan.fail(call, failure)
    return take_away(plan, replace(session, queue=()), route.app, "stopping", reason)


def decide_show(plan: Plan, intent: HostIntent, session: Session) -> Session:
    """The person chose an app that runs: it is asked for as the foreground, and confirmed like any other."""
    plan.audit(
        "app_chosen",
        actor=intent.host_session_id,
        conversation_id=session.conversation_id,
        app_scope=session.app_scope,
    )
    if session.instance is None or session.in_front:
        return session
    return show(plan, session)


def decide_open(plan: Plan, intent: HostIntent, app: App, session: Session) -> Session:
    """The person opens an app: the instance that runs is shown, else one is started. No tool is called.

    Raises LoopError: app_disabled, app_activation_failed.
    """
    if not app.enabled:
        raise LoopError("this app is switched off", code=ErrorCode.APP_DISABLED)
    if app.unavailable is not None:
        detail = {"reason": app.unavailable}
        raise LoopError("this app cannot run here", code=ErrorCode.APP_ACTIVATION_FAILED, detail=detail)
    plan.audit(
        "app_opened",
        actor=intent.host_session_id,
        conversation_id=session.conversation_id,
        app_scope=session.app_scope,
    )
    if session.instance is None:
        patience_ms = plan.limits.activation_timeout_ms
        return launch(plan, app, session, foreground=True, patience_ms=patience_ms)
    return session if session.in_front else show(plan, session)


def decide_unstack(plan: Plan, conversation_id: str, stack: tuple[str, ...]) -> None:
    """Nothing of this conversation is to come to the front by itself any more; what runs goes on."""
    if stack:
        plan.facts.append(FocusSet(conversation_id, ()))


def decide_condition(plan: Plan, intent: HostIntent) -> None:
    """A condition of the display is noted; whatever runs goes on."""
    plan.audit(f"host_{intent.kind}", actor=intent.host_session_id, conversation_id=intent.conversation_id)
