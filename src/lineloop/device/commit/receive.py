"""Takes one delivered message: what it asks for and the cursor are one commit (design: runtime 3.8).

Decides whether a message is new (cursor, envelope id) and to whom it belongs. Its checks up to the protocol
step have been made outside; what is stored decides here.
"""

from __future__ import annotations

from dataclasses import dataclass

from lineloop.device.commit.loading import load_route, load_session, load_shelf
from lineloop.device.commit.operations import end_now
from lineloop.device.commit.room import Room
from lineloop.device.decide.calls import (
    Invoke,
    InvokeState,
    Known,
    decide_cancel,
    decide_invoke,
    refuse_envelope,
)
from lineloop.device.decide.envelopes import Address
from lineloop.device.decide.inventory import Question, decide_publication
from lineloop.device.decide.plan import Failure, Plan, answer_key
from lineloop.device.store import calls, outbox, records
from lineloop.kit.database import Tx
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.tools import Delivery


@dataclass(frozen=True, slots=True)
class Arrival:
    """Where a delivered message stands in the order of its conversation."""

    conversation_id: str
    offset: int
    message_id: str
    envelope_id: str
    agent: str


def is_taken(tx: Tx, room: Room, at: Arrival) -> bool:
    """Whether the message lies behind the cursor; else the cursor moves over it with this commit."""
    if at.offset <= outbox.cursor(tx, room.runtime_id, at.conversation_id):
        return True
    now = room.foundation.clock.now_ms()
    outbox.move_cursor(tx, room.runtime_id, at.conversation_id, at.offset, now)
    return False


def is_repeated(tx: Tx, room: Room, at: Arrival) -> bool:
    """Whether this envelope was taken before under another message."""
    now = room.foundation.clock.now_ms()
    return not outbox.see_envelope(tx, room.runtime_id, at.agent, at.conversation_id, at.envelope_id, now)


def take_invoke(tx: Tx, plan: Plan, room: Room, at: Arrival, invoke: Invoke) -> None:
    """Steps 3 to 11 for an invoke that is a well-formed envelope of its agent."""
    if is_taken(tx, room, at):
        return
    known = calls.by_call_id(tx, room.runtime_id, invoke.agent, invoke.conversation_id, invoke.call_id)
    shelf = load_shelf(tx, room)
    app = shelf.apps.get(invoke.key.app_scope)
    tool = app.tool(invoke.key) if app is not None else None
    session = load_session(
        tx,
        room,
        invoke.conversation_id,
        invoke.key.app_scope,
        rivals_only=tool is not None and tool.delivery is Delivery.MINIAPP_SDK,
    )
    entry = None
    if known is not None:
        key = answer_key(known.ref, known.sequence)
        entry = outbox.by_key(tx, room.runtime_id, known.conversation_id, key)
    state = InvokeState(
        known=Known(known, entry.outbox_id if entry else None, entry.message if entry else None)
        if known is not None
        else None,
        view=shelf.view(invoke.agent, invoke.conversation_id),
        app=app,
        session=session,
    )
    route = load_route(tx, room, app, session) if app is not None else None
    decide_invoke(plan, state, invoke, route, room.schemas)


def take_cancel(tx: Tx, plan: Plan, room: Room, at: Arrival, app_scope: str, call_id: str) -> None:
    """An agent wants one of its own calls in this conversation to end."""
    if is_taken(tx, room, at) or is_repeated(tx, room, at):
        return
    call = calls.by_call_id(tx, room.runtime_id, at.agent, at.conversation_id, call_id)
    if call is None or call.key.app_scope != app_scope:
        address = Address(at.agent, at.conversation_id, app_scope, at.message_id, at.envelope_id)
        refuse_envelope(plan, address, Failure(ErrorCode.NOT_FOUND), call_id=call_id)
        return
    app = load_shelf(tx, room).apps.get(call.key.app_scope)
    session = load_session(tx, room, call.conversation_id, call.key.app_scope)
    if call.state == "operating" and session.operation is not None and app is not None:
        plan.audit_call(call, "cancel_asked")
        end_now(tx, plan, room, session.operation.operation_id, "interrupted", "cancelled_by_agent")
        return
    decide_cancel(plan, call, session, app, room.schemas)


def take_question(tx: Tx, plan: Plan, room: Room, at: Arrival) -> None:
    """An agent asks for its inventory."""
    if is_taken(tx, room, at) or is_repeated(tx, room, at):
        return
    publish(tx, plan, room, at.agent, at.conversation_id, Question(at.message_id, at.envelope_id))


def publish(
    tx: Tx, plan: Plan, room: Room, agent: str, conversation_id: str, asked_by: Question | None = None
) -> None:
    """Tells an agent what it sees here now, if it asks or does not know."""
    decide_publication(
        plan,
        agent,
        conversation_id,
        load_shelf(tx, room).inventory(agent, conversation_id),
        known_revision=records.known_revision(tx, room.runtime_id, agent, conversation_id),
        asked_by=asked_by,
    )


def take_refused(
    tx: Tx, plan: Plan, room: Room, at: Arrival, failure: Failure, app_scope: str, call_id: str | None
) -> None:
    """An envelope that failed the protocol step: answered and audited, nothing kept for any app."""
    if is_taken(tx, room, at):
        return
    address = Address(at.agent, at.conversation_id, app_scope, at.message_id, at.envelope_id or None)
    refuse_envelope(plan, address, failure, call_id=call_id)
