"""Commits host intents and UI actions; each entry has its own requests and its own audit lines."""

from __future__ import annotations

from dataclasses import replace

from lineloop.device.commit.loading import load_route, load_session, load_shelf, load_whole_session
from lineloop.device.commit.room import Room
from lineloop.device.decide.actions import (
    SurfaceEvent,
    UiAction,
    decide_surface_event,
    decide_ui_action,
)
from lineloop.device.decide.facts import FocusSet, HostLeaseTaken
from lineloop.device.decide.focus import is_shown
from lineloop.device.decide.intents import (
    HostIntent,
    IntentKind,
    decide_condition,
    decide_leave,
    decide_open,
    decide_show,
    decide_unstack,
)
from lineloop.device.decide.plan import Plan
from lineloop.device.decide.state import Instance, Session
from lineloop.device.store import records, sessions
from lineloop.kit.database import Tx
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import LoopError
from lineloop.protocol.tools import GLOBAL_CONVERSATION, RESERVED_SCOPES


def take_lease(tx: Tx, plan: Plan, room: Room, host_session_id: str) -> None:
    """This host session is the one whose foreground counts from now on."""
    if records.device_state(tx, room.runtime_id).host_session_id != host_session_id:
        plan.facts.append(HostLeaseTaken(host_session_id))
        plan.audit("host_lease_taken", actor=host_session_id)


def take_intent(tx: Tx, plan: Plan, room: Room, intent: HostIntent) -> None:
    """What the person did in the shell. Only the session with the lease speaks for the display."""
    if not intent.kind.leaves:
        decide_condition(plan, intent)
        return
    if records.device_state(tx, room.runtime_id).host_session_id != intent.host_session_id:
        plan.audit("intent_ignored", actor=intent.host_session_id, detail={"intent": str(intent.kind)})
        return
    _leave(tx, plan, room, intent)
    if intent.kind is IntentKind.SHOW_APP and intent.instance_id is not None:
        chosen = sessions.instance_by_id(tx, intent.instance_id)
        if chosen is not None and chosen.ended_at is None:
            session = load_session(tx, room, chosen.conversation_id, chosen.app_scope)
            decide_show(plan, intent, replace(session, focus=_stack_in(plan, session)))


def _leave(tx: Tx, plan: Plan, room: Room, intent: HostIntent) -> None:
    """Turns away from all that is shown. After a turn to chat or to another conversation, nothing that lay
    below comes back by itself.
    """
    shelf = load_shelf(tx, room)
    for left in _left_by(tx, room, intent):
        session = load_whole_session(tx, room, left.conversation_id, left.app_scope)
        app = shelf.apps.get(left.app_scope)
        if app is not None and session.instance is not None:
            decide_leave(plan, intent, session, load_route(tx, room, app, session))
    if intent.kind not in (IntentKind.SHOW_CHAT, IntentKind.OPEN_CONVERSATION):
        return
    for conversation_id in sessions.focused_conversations(tx, room.runtime_id):
        if intent.kind is IntentKind.SHOW_CHAT or conversation_id != intent.conversation_id:
            stack = sessions.focus_stack(tx, room.runtime_id, conversation_id)
            decide_unstack(plan, conversation_id, stack)


def open_app(tx: Tx, plan: Plan, room: Room, *, intent: HostIntent, app_scope: str) -> str:
    """The person opens an app from the shell. Returns its instance. Raises LoopError."""
    conversation_id = intent.conversation_id
    if records.device_state(tx, room.runtime_id).host_session_id != intent.host_session_id:
        raise LoopError("another display is in use", code=ErrorCode.LEASE_LOST)
    if app_scope in RESERVED_SCOPES or conversation_id == GLOBAL_CONVERSATION:
        raise LoopError("this is a part of the shell", code=ErrorCode.FORBIDDEN)
    app = load_shelf(tx, room).apps.get(app_scope)
    if app is None:
        raise LoopError("there is no such app", code=ErrorCode.APP_NOT_INSTALLED)
    instance = load_session(tx, room, conversation_id, app_scope).instance
    chosen = instance.instance_id if instance is not None else None
    _leave(tx, plan, room, replace(intent, instance_id=chosen))
    session = load_session(tx, room, conversation_id, app_scope)
    # What was left in this decision is not in the tables yet: the stack is what the decision made of it.
    session = decide_open(plan, intent, app, replace(session, focus=_stack_in(plan, session)))
    assert session.instance is not None
    return session.instance.instance_id


def note_stopped_surface(
    tx: Tx, plan: Plan, room: Room, *, host_session_id: str, instance_id: str, reason: str
) -> None:
    """One line of the audit: which app's surface was stopped, and why."""
    instance = sessions.instance_by_id(tx, instance_id)
    if instance is not None and instance.app_scope in load_shelf(tx, room).apps:
        plan.audit(
            "surface_stopped",
            actor=host_session_id,
            conversation_id=instance.conversation_id,
            app_scope=instance.app_scope,
            detail={"instance_id": instance_id, "reason": reason},
        )


def _stack_in(plan: Plan, session: Session) -> tuple[str, ...]:
    """The conversation's stack as the facts of this decision leave it."""
    for fact in reversed(plan.facts):
        if isinstance(fact, FocusSet) and fact.conversation_id == session.conversation_id:
            return fact.stack
    return session.focus


def _left_by(tx: Tx, room: Room, intent: HostIntent) -> list[Instance]:
    """What an intent turns away from: all that is shown or about to be, except the chosen one."""
    if intent.kind is IntentKind.CLOSE_APP:
        closed = sessions.instance_by_id(tx, intent.instance_id) if intent.instance_id is not None else None
        return [closed] if closed is not None else []
    found: list[Instance] = []
    for instance in sessions.live_instances(tx, room.runtime_id):
        if instance.instance_id == intent.instance_id:
            continue
        if intent.kind is IntentKind.OPEN_CONVERSATION and instance.conversation_id == intent.conversation_id:
            continue
        session = load_session(tx, room, instance.conversation_id, instance.app_scope)
        if instance.state == "foreground" or is_shown(session):
            found.append(instance)
    return found


def take_action(tx: Tx, plan: Plan, room: Room, request: UiAction) -> bool:
    """A UI action over an instance's own port. Raises LoopError."""
    instance = sessions.instance_by_id(tx, request.instance_id)
    schema = None
    if instance is not None:
        installed = load_shelf(tx, room).installed.get(instance.app_scope)
        declared = installed.manifest.ui_actions if installed is not None and installed.startable else ()
        schema = next((action.schema_ for action in declared if action.name == request.action), None)
    earlier = records.ui_action_digest(tx, room.runtime_id, request.instance_id, request.action_id)
    return decide_ui_action(plan, request, instance, schema, earlier, room.schemas)


def take_surface_event(tx: Tx, plan: Plan, room: Room, event: SurfaceEvent) -> None:
    """An event over an instance's own port. Raises LoopError."""
    instance = sessions.instance_by_id(tx, event.instance_id)
    schema = None
    if instance is not None:
        installed = load_shelf(tx, room).installed.get(instance.app_scope)
        declared = installed.manifest.events if installed is not None else ()
        schema = next((one.schema_ for one in declared if one.name == event.name), None)
    decide_surface_event(plan, event, instance, schema, room.schemas)
