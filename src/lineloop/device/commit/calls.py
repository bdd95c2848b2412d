"""Commits what happens to accepted calls: handler outcomes, progress, time, consent, restart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lineloop.device.commit.loading import QUEUE_CHUNK, load_route, load_session, load_shelf
from lineloop.device.commit.room import Room
from lineloop.device.decide.calls import (
    HandlerOutcome,
    decide_after_restart,
    decide_consent,
    decide_expiry,
    decide_outcome,
    decide_progress,
    end_stranded_call,
)
from lineloop.device.decide.facts import Dispatch, PumpSession
from lineloop.device.decide.plan import Plan
from lineloop.device.decide.routing import pump
from lineloop.device.decide.state import Call, Session
from lineloop.device.store import calls, sessions
from lineloop.kit.database import Tx


def take_outcome(tx: Tx, plan: Plan, room: Room, ref: str, outcome: HandlerOutcome) -> None:
    """A handler has answered. If a command has ended, the next one of its session starts in this commit."""
    call = calls.by_ref(tx, ref)
    if call is None:
        return
    app = load_shelf(tx, room).apps.get(call.key.app_scope)
    tool = app.tool(call.key) if app is not None else None
    ended = decide_outcome(plan, call, tool, outcome, room.schemas)
    if ended.ended and not call.ended:
        start_next_command(tx, plan, room, call)


def start_next_command(tx: Tx, plan: Plan, room: Room, call: Call) -> None:
    """A command that held its session's turn has ended."""
    if call.call_model != "command" or call.state != "dispatched" or call.app_session_id is None:
        return
    session = load_session(tx, room, call.conversation_id, call.key.app_scope)
    # The ended command is written with this decision, so the table still shows it as running.
    move_on(tx, plan, room, replace(session, running_command=False))


def move_on(tx: Tx, plan: Plan, room: Room, session: Session) -> None:
    """Moves waiting calls of a ready session on; says so when there may be more than one decision takes."""
    app = load_shelf(tx, room).apps.get(session.app_scope)
    if app is None or not session.ready or not session.queue:
        return
    full = len(session.queue) >= QUEUE_CHUNK
    after = pump(plan, session, load_route(tx, room, app, session))
    if full and len(after.queue) < len(session.queue):
        plan.effects.append(PumpSession(session.conversation_id, session.app_scope))


def pump_session(tx: Tx, plan: Plan, room: Room, conversation_id: str, app_scope: str) -> None:
    """Comes again for what one decision left."""
    move_on(tx, plan, room, load_session(tx, room, conversation_id, app_scope))


def take_progress(tx: Tx, plan: Plan, ref: str, value: Any) -> None:
    call = calls.by_ref(tx, ref)
    if call is not None:
        decide_progress(plan, call, value)


def expire(tx: Tx, plan: Plan, room: Room, ref: str) -> None:
    """The call's time is over."""
    call = calls.by_ref(tx, ref)
    if call is None or call.ended or call.deadline_at is None:
        return
    app = load_shelf(tx, room).apps.get(call.key.app_scope)
    session = load_session(tx, room, call.conversation_id, call.key.app_scope)
    decide_expiry(plan, call, session, app, room.schemas)
    start_next_command(tx, plan, room, call)


def answer_consent(tx: Tx, plan: Plan, room: Room, ref: str, *, allowed: bool) -> None:
    """The person has answered the consent sheet of a call."""
    call = calls.by_ref(tx, ref)
    if call is None:
        return
    app = load_shelf(tx, room).apps.get(call.key.app_scope)
    session = load_session(tx, room, call.conversation_id, call.key.app_scope)
    route = load_route(tx, room, app, session) if app is not None else None
    decide_consent(plan, call, session, route, allowed=allowed)


def end_stranded(tx: Tx, plan: Plan, room: Room) -> int:
    """Ends a chunk of the calls whose app has gone; how many."""
    shelf = load_shelf(tx, room)
    found = calls.stranded(tx, room.runtime_id, QUEUE_CHUNK)
    for call in found:
        assert call.activation_id is not None
        activation = sessions.activation_by_id(tx, call.activation_id)
        app = shelf.apps.get(call.key.app_scope)
        end_stranded_call(
            plan, call, activation, app.tool(call.key) if app is not None else None, room.schemas
        )
    return len(found)


def take_up(tx: Tx, plan: Plan, room: Room, ref: str) -> None:
    """A call that was with its app when the process died is handed out again, or its outcome is unknown."""
    call = calls.by_ref(tx, ref)
    if call is None or call.state != "dispatched":
        return
    app = load_shelf(tx, room).apps.get(call.key.app_scope)
    again = decide_after_restart(plan, call, app.tool(call.key) if app is not None else None)
    if not again.ended:
        plan.effects.append(Dispatch(again))
    else:
        start_next_command(tx, plan, room, call)
