"""Takes one delivered message: what it asks for and the cursor are one commit (design: runtime 3.8).

Decides whether a message is new (cursor, envelope id) and to whom it belongs. Its checks up to the protocol
step have been made outside; what is stored decides here.
"""

from __future__ import annotations

from typing import Protocol

from lineloop.device.commit.loading import (
    ALL_PARTS,
    NO_PARTS,
    Parts,
    complete_session,
    load_route,
    load_session,
    load_shelf,
)
from lineloop.device.commit.operations import end_now
from lineloop.device.commit.room import Room
from lineloop.device.containers.port import InstalledApp
from lineloop.device.decide.calls import (
    Answered,
    Invoke,
    InvokeState,
    Known,
    decide_cancel,
    decide_invoke,
    refuse_envelope,
)
from lineloop.device.decide.envelopes import Address
from lineloop.device.decide.facts import CursorMoved
from lineloop.device.decide.inbox import InboxMessage, MessageRefused, Receiver
from lineloop.device.decide.inventory import Question, decide_publication
from lineloop.device.decide.plan import Failure, Plan, answer_key
from lineloop.device.store import calls, outbox, records
from lineloop.device.store.snapshot import load_snapshot
from lineloop.kit.database import Tx
from lineloop.kit.records import record
from lineloop.protocol.envelopes import RuntimeEnvelope
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.tools import ActivationRequirement, CallModel, Delivery, ToolDescriptor


@record
class Arrival:
    """Where a delivered message stands in its conversation; `previous` is the offset delivered before it."""

    conversation_id: str
    offset: int
    previous: int
    message_id: str
    envelope_id: str
    agent: str


class Ahead(Protocol):
    """A call that its handler may have answered before it is stored."""

    @property
    def answered(self) -> Answered | None: ...


class MessageMissing(Exception):
    """The message before this one has not been taken; this one has to wait for it."""


def is_taken(tx: Tx, plan: Plan, room: Room, at: Arrival, position: int | None = None) -> bool:
    """Whether the message lies behind the cursor; else the cursor moves over it with this commit.

    `position` is the cursor if already loaded. Raises MessageMissing when the cursor has not reached the
    message delivered before.
    """
    if position is None:
        position = outbox.cursor(tx, room.runtime_id, at.conversation_id)
    if at.offset <= position:
        plan.effects.append(CursorMoved(at.conversation_id, position))
        return True
    if position < at.previous:
        raise MessageMissing(f"{at.conversation_id}: {at.previous} comes before {at.offset}")
    plan.effects.append(CursorMoved(at.conversation_id, at.offset))
    outbox.move_cursor(tx, room.runtime_id, at.conversation_id, at.offset, plan.now)
    return False


def is_repeated(tx: Tx, room: Room, at: Arrival) -> bool:
    """Whether this envelope was taken before under another message."""
    now = room.foundation.clock.now_ms()
    return not outbox.see_envelope(tx, room.runtime_id, at.agent, at.conversation_id, at.envelope_id, now)


def take_invoke(
    tx: Tx, plan: Plan, room: Room, at: Arrival, invoke: Invoke, ahead: Ahead | None = None
) -> None:
    """Steps 3 to 11 for an invoke that is a well-formed envelope of its agent; 12 if already answered."""
    about = (tx, room.runtime_id, invoke.conversation_id, invoke.key.app_scope)
    snapshot = load_snapshot(*about, agent=invoke.agent, call_id=invoke.call_id)
    if is_taken(tx, plan, room, at, snapshot.position):
        return
    known = calls.by_ref(tx, snapshot.known_ref) if snapshot.known_ref is not None else None
    shelf = room.catalogue.at(snapshot.generation)
    app = shelf.apps.get(invoke.key.app_scope)
    tool = app.tool(invoke.key) if app is not None else None
    parts = NO_PARTS if known is not None else parts_for(tool)
    session = complete_session(tx, room, invoke.conversation_id, invoke.key.app_scope, snapshot, parts)
    entry = None
    if known is not None:
        key = answer_key(known.ref, known.sequence)
        entry = outbox.by_key(tx, room.runtime_id, known.conversation_id, key)
    state = InvokeState(
        known=Known(known, entry.text if entry else None) if known is not None else None,
        view=shelf.view(invoke.agent, invoke.conversation_id),
        app=app,
        session=session,
    )
    route = load_route(tx, room, app, session) if app is not None else None
    decide_invoke(plan, state, invoke, route, room.schemas, ahead.answered if ahead is not None else None)


def parts_for(tool: ToolDescriptor | None) -> Parts:
    """What a new call of a tool has to know of its session: a query for a handler next to nothing."""
    if tool is None:
        return NO_PARTS
    if tool.delivery is Delivery.RUNTIME:
        return ALL_PARTS
    command = tool.call_model is CallModel.COMMAND
    foreground = tool.activation_requirement is ActivationRequirement.FOREGROUND_REQUIRED
    return Parts(rivals=command, turn=command, focus=foreground)


def take_cancel(tx: Tx, plan: Plan, room: Room, at: Arrival, app_scope: str, call_id: str) -> None:
    """An agent wants one of its own calls in this conversation to end."""
    if is_taken(tx, plan, room, at) or is_repeated(tx, room, at):
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
    if is_taken(tx, plan, room, at) or is_repeated(tx, room, at):
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
    if is_taken(tx, plan, room, at):
        return
    address = Address(at.agent, at.conversation_id, app_scope, at.message_id, at.envelope_id or None)
    refuse_envelope(plan, address, failure, call_id=call_id)


def pass_over(tx: Tx, plan: Plan, room: Room, at: Arrival) -> None:
    """A message that asks for nothing, behind one that could not be stored at first."""
    is_taken(tx, plan, room, at)


def take_app_message(tx: Tx, plan: Plan, room: Room, at: Arrival, envelope: RuntimeEnvelope) -> None:
    """A checked envelope goes to its app's inbox; a critical one that the app does not get is answered."""
    if is_taken(tx, plan, room, at) or is_repeated(tx, room, at):
        return
    app_scope = envelope.scope.app_scope
    installed = load_shelf(tx, room).installed.get(app_scope)
    payload = envelope.payload if isinstance(envelope.payload, dict) else {"value": envelope.payload}
    message = InboxMessage(app_scope, at.conversation_id, envelope.id, str(envelope.type), payload)
    decided = room.inbox.receive_in(tx, message, receiver_of(installed)) if room.inbox is not None else None
    plan.audit(
        "app_message_refused" if isinstance(decided, MessageRefused) else "app_message_kept",
        actor=at.agent,
        conversation_id=at.conversation_id,
        app_scope=app_scope,
        code=str(decided.code) if isinstance(decided, MessageRefused) else None,
        detail={"envelope_id": envelope.id, "type": str(envelope.type)},
    )
    if isinstance(decided, MessageRefused) and message.critical:
        address = Address(at.agent, at.conversation_id, app_scope, at.message_id, at.envelope_id)
        refuse_envelope(plan, address, Failure(decided.code), call_id=None)


def receiver_of(installed: InstalledApp | None) -> Receiver | None:
    """What the inbox has to know of an app."""
    if installed is None:
        return None
    code = ErrorCode.TOOL_NOT_VISIBLE if installed.enabled else ErrorCode.APP_DISABLED
    types = tuple(subscription.type for subscription in installed.manifest.agent_subscriptions)
    return Receiver(installed.startable, code, types)


def answer_for_gone_app(tx: Tx, plan: Plan, room: Room, refused: MessageRefused) -> None:
    """A critical message that its app will never acknowledge is answered, never silently dropped."""
    message = refused.message
    agent = outbox.sender_of_envelope(tx, room.runtime_id, message.conversation_id, message.message_id)
    if agent is not None:
        address = Address(agent, message.conversation_id, message.app_scope, None, message.message_id)
        refuse_envelope(plan, address, Failure(refused.code), call_id=message.call_id)
