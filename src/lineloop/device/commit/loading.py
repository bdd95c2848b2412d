"""Loads what a decision is about, by key, inside its job. Decides nothing."""

from __future__ import annotations

from dataclasses import replace

from lineloop.device.commit.catalogue import Shelf
from lineloop.device.commit.room import Room
from lineloop.device.decide.route import Route
from lineloop.device.decide.state import App, Call, Session
from lineloop.device.store import calls, records, sessions
from lineloop.device.store.snapshot import Snapshot, load_snapshot
from lineloop.kit.database import Tx
from lineloop.kit.records import record

QUEUE_CHUNK = 64
"""Waiting calls that one decision moves; whoever needs more comes again."""

CLOSING_CHUNK = 256
"""Live calls that one decision ends; the rest are found as stranded."""


@record
class Parts:
    """What a decision needs of a session besides its instance, activation and operation.

    rivals: waiting operations and the first waiting command. queue: all that may move on. turn: whether a
    command runs. focus: the conversation's stack.
    """

    rivals: bool = False
    queue: bool = False
    turn: bool = False
    focus: bool = False


NO_PARTS = Parts()
ALL_PARTS = Parts(queue=True, turn=True, focus=True)


def load_shelf(tx: Tx, room: Room) -> Shelf:
    """Registry and policy as of this job."""
    return room.catalogue.at(records.device_state(tx, room.runtime_id).generation)


def load_session(
    tx: Tx, room: Room, conversation_id: str, app_scope: str, parts: Parts = ALL_PARTS
) -> Session:
    """What is live about an app in a conversation."""
    snapshot = load_snapshot(tx, room.runtime_id, conversation_id, app_scope)
    return complete_session(tx, room, conversation_id, app_scope, snapshot, parts)


def complete_session(
    tx: Tx, room: Room, conversation_id: str, app_scope: str, snapshot: Snapshot, parts: Parts
) -> Session:
    """A snapshot with the parts that the decision needs."""
    runtime_id = room.runtime_id
    instance = snapshot.instance
    app_session_id = instance.app_session_id if instance is not None else snapshot.app_session_id
    queue: tuple[Call, ...] = ()
    running = False
    if app_session_id is not None:
        if parts.queue:
            queue = calls.queue_of_session(tx, runtime_id, app_session_id, QUEUE_CHUNK)
        elif parts.rivals:
            queue = calls.rivals_of_new_call(tx, runtime_id, app_session_id, QUEUE_CHUNK)
        running = parts.turn and calls.has_running_command(tx, runtime_id, app_session_id)
    operation = None
    if snapshot.operation_id is not None:
        operation = sessions.operation_by_id(tx, snapshot.operation_id)
    return Session(
        conversation_id=conversation_id,
        app_scope=app_scope,
        app_session_id=app_session_id,
        instance=instance,
        activation=snapshot.activation,
        operation=operation,
        queue=queue,
        focus=sessions.focus_stack(tx, runtime_id, conversation_id) if parts.focus else (),
        front=sessions.front_of_focus(tx, runtime_id) if parts.focus else None,
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
