"""Commits the end of operations: their deadline, and interruptions by whoever may interrupt."""

from __future__ import annotations

from dataclasses import replace

from lineloop.device.commit.loading import load_route, load_session, load_shelf
from lineloop.device.commit.room import Room
from lineloop.device.decide.inventory import describe_app
from lineloop.device.decide.operations import end_operation
from lineloop.device.decide.plan import Plan
from lineloop.device.decide.state import App
from lineloop.device.store import sessions
from lineloop.kit.database import Tx


def end_now(tx: Tx, plan: Plan, room: Room, operation_id: str, outcome: str, reason: str | None) -> bool:
    """Ends an active operation with an outcome. False when it has ended already: another end has won."""
    operation = sessions.operation_by_id(tx, operation_id)
    if operation is None or operation.state != "active":
        plan.audit(
            "operation_end_late",
            conversation_id=operation.conversation_id if operation is not None else None,
            app_scope=operation.app_scope if operation is not None else None,
            detail={"outcome": outcome},
        )
        return False
    session = load_session(tx, room, operation.conversation_id, operation.app_scope)
    app = load_shelf(tx, room).apps.get(operation.app_scope) or _gone(operation.app_scope)
    route = load_route(tx, room, app, session)
    if outcome == "completed":
        route = replace(route, elapsed_ms=operation.duration_ms)
    end_operation(plan, session, route, outcome, reason)
    return True


def reach_deadline(tx: Tx, plan: Plan, room: Room, operation_id: str) -> None:
    """The operation's time is up: by the timer while the process lives, by ends_at after a restart."""
    end_now(tx, plan, room, operation_id, "completed", None)


def _gone(app_scope: str) -> App:
    """Stands for an app that is no longer installed: its name is its scope, it offers nothing."""
    return App(app_scope, "", app_scope, False, None, False, False, {}, describe_app(app_scope, "", "", ()))
