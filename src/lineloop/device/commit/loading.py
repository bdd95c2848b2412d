"""Loads what a decision is about, by key, inside its job. Decides nothing."""

from __future__ import annotations

from dataclasses import replace

from lineloop.device.commit.catalogue import Shelf
from lineloop.device.commit.room import Room
from lineloop.device.decide.route import Route
from lineloop.device.decide.state import App, Session
from lineloop.device.store import calls, records, sessions
from lineloop.kit.database import Tx

QUEUE_CHUNK = 64
"""Waiting calls that one decision moves; whoever needs more comes again."""

CLOSING_CHUNK = 256
"""Live calls that one decision ends; the rest are found as stranded."""


def load_shelf(tx: Tx, room: Room) -> Shelf:
    """Registry and policy as of this job."""
    return room.catalogue.at(records.device_state(tx, room.runtime_id).generation)


def load_session(
    tx: Tx, room: Room, conversation_id: str, app_scope: str, *, rivals_only: bool = False
) -> Session:
    """Everything live about an app in a conversation; `rivals_only`: of the queue what a new call needs."""
    runtime_id = room.runtime_id
    instance = sessions.live_instance(tx, runtime_id, conversation_id, app_scope)
    activation = sessions.activation_of(tx, instance.instance_id) if instance is not None else None
    if instance is not None:
        app_session_id: str | None = instance.app_session_id
    else:
        app_session_id = sessions.open_sub_session(tx, runtime_id, conversation_id, app_scope)
    queue = ()
    running = False
    if app_session_id is not None:
        load = calls.rivals_of_new_call if rivals_only else calls.queue_of_session
        queue = load(tx, runtime_id, app_session_id, QUEUE_CHUNK)
        running = calls.has_running_command(tx, runtime_id, app_session_id)
    return Session(
        conversation_id=conversation_id,
        app_scope=app_scope,
        app_session_id=app_session_id,
        instance=instance,
        activation=activation,
        operation=sessions.active_operation(tx, runtime_id, conversation_id, app_scope),
        queue=queue,
        focus=sessions.focus_stack(tx, runtime_id, conversation_id),
        running_command=running,
    )


def load_whole_session(tx: Tx, room: Room, conversation_id: str, app_scope: str) -> Session:
    """As load_session, with every live call in the queue, also those that are with the app: for its end."""
    session = load_session(tx, room, conversation_id, app_scope)
    if session.app_session_id is None:
        return session
    queue = calls.live_of_session(tx, room.runtime_id, session.app_session_id, CLOSING_CHUNK)
    return replace(session, queue=queue)


def load_route(tx: Tx, room: Room, app: App, session: Session) -> Route:
    """What a decision needs besides the session."""
    operation = session.operation
    if operation is None:
        return Route(app, room.schemas, room.person)
    return Route(
        app, room.schemas, room.person, calls.by_ref(tx, operation.call_ref), room.elapsed_ms(operation)
    )
