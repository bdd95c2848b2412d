"""Takes what the server delivers, message by message, each with its cursor in one commit.

Decides the order: the messages of a conversation are taken in the order of delivery, and none is passed over
because storing the one before it failed, or because that waits a moment for its app's answer. What a message
asks for is read by the agents' entry.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import structlog

from lineloop.client.link import LinkParticipant
from lineloop.device.commit import receive, registry
from lineloop.device.commit.receive import Arrival
from lineloop.device.commit.room import Decide, Room
from lineloop.device.decide.calls import Invoke
from lineloop.device.entries.agent_tool import (
    SOURCE,
    AppMessage,
    CancelRequest,
    InventoryRequest,
    Refused,
    envelope_id,
    read_request,
)
from lineloop.device.reconcile.ahead import AskedAhead
from lineloop.device.reconcile.app_sessions import AppSessions
from lineloop.device.reconcile.insist import insist
from lineloop.device.reconcile.outbox import OutboxSender
from lineloop.kit.database import DatabaseError
from lineloop.kit.tasks import Tasks
from lineloop.protocol.messages import Message

SITE = "device.receive"
SITE_INVENTORY = "device.inventory"
RETRY_SECONDS = 0.2

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Read:
    """A message that was read: what is decided about it, and the query that was asked ahead, if it is one."""

    decide: Decide[None]
    ahead: AskedAhead | None = None
    invoke: Invoke | None = None


class Intake:
    """What comes over the link of one device."""

    def __init__(self, room: Room, tasks: Tasks, sender: OutboxSender, apps: AppSessions) -> None:
        self._room = room
        self._tasks = tasks
        self._sender = sender
        self._apps = apps
        self._previous: dict[str, int] = {}
        self._failed: dict[str, deque[Decide[None]]] = {}
        # Read, in order, and not submitted: the first one of each conversation waits for its app's answer.
        self._held: dict[str, deque[_Read]] = {}
        # How many messages of a conversation that are no query are being stored.
        self._storing: Counter[str] = Counter()
        # What came before it is known which server that is.
        self._early: list[Callable[[], None]] | None = None
        self._closed = False

    @property
    def idle(self) -> bool:
        """Whether nothing is held back."""
        return not self._held and self._early is None

    def connected(self, *, known: bool) -> None:
        """A new connection delivers anew from what the server knows to be committed. Unless the server is
        `known`, what comes waits for `begin`.
        """
        self._previous.clear()
        self._early = None if known else []

    def begin(self) -> None:
        """Takes what has come, in order, and everything from now on."""
        early, self._early = self._early or [], None
        for one in early:
            one()

    def disconnected(self) -> None:
        """What was not taken is delivered again."""
        self._early = None

    def close(self) -> None:
        """Take nothing more; what was not taken is delivered again to the next process."""
        self._closed = True

    def take(self, messages: list[Message]) -> None:
        """Queues each message now, so that those of one push share a commit."""
        if self._early is not None:
            self._early.append(lambda: self.take(messages))
            return
        for message in messages:
            if message.offset is None or self._closed:
                continue
            conversation_id = message.conversation_id
            previous = self._previous.get(conversation_id, 0)
            if message.offset <= previous:
                continue
            self._previous[conversation_id] = message.offset
            at = Arrival(
                conversation_id=conversation_id,
                offset=message.offset,
                previous=previous,
                message_id=message.id,
                envelope_id=envelope_id(message),
                agent=str(message.speaker),
            )
            request = read_request(message, self._room.device, self._room.refused)
            if request is None:
                self._pass_over(at)
            elif isinstance(request, Invoke):
                self._take_invoke(at, request)
            else:
                self._take(at.conversation_id, _Read(self._decision(request, at)))

    def _take_invoke(self, at: Arrival, invoke: Invoke) -> None:
        """A query may be asked at once, unless something before it may change what it is about."""
        place = at.conversation_id
        alone = place not in self._failed and not self._storing[place]
        ahead = self._apps.ask_ahead(invoke) if alone else None
        decide = partial(receive.take_invoke, room=self._room, at=at, invoke=invoke, ahead=ahead)
        if ahead is not None:
            ahead.on_settled = partial(self._release, place)
        self._take(place, _Read(decide, ahead, invoke))

    def _decision(
        self, request: CancelRequest | InventoryRequest | AppMessage | Refused, at: Arrival
    ) -> Decide[None]:
        """The decision that a message asks for which is no invoke."""
        room = self._room
        match request:
            case CancelRequest(app_scope, call_id):
                return partial(receive.take_cancel, room=room, at=at, app_scope=app_scope, call_id=call_id)
            case InventoryRequest():
                return partial(receive.take_question, room=room, at=at)
            case AppMessage(envelope):
                return partial(receive.take_app_message, room=room, at=at, envelope=envelope)
            case Refused(failure, app_scope, call_id):
                return partial(
                    receive.take_refused,
                    room=room,
                    at=at,
                    failure=failure,
                    app_scope=app_scope,
                    call_id=call_id,
                )

    def _take(self, place: str, read: _Read) -> None:
        """Stores what was read now, or after what is held back before it."""
        if read.invoke is None or read.ahead is None:
            self._storing[place] += 1
        held = self._held.setdefault(place, deque())
        held.append(read)
        self._release(place)

    def _release(self, place: str) -> None:
        held = self._held.get(place)
        if held is None or self._closed:
            return
        while held and (held[0].ahead is None or held[0].ahead.settled):
            self._submit(place, held.popleft())
        if not held:
            del self._held[place]

    def _pass_over(self, at: Arrival) -> None:
        """Nothing to store but the cursor, which may wait for company."""
        if at.conversation_id in self._failed or at.conversation_id in self._held:
            self._take(at.conversation_id, _Read(partial(receive.pass_over, room=self._room, at=at)))
            return
        self._room.pending.cursors[at.conversation_id] = at.offset
        self._sender.note_position(at.conversation_id, at.offset)

    def _submit(self, conversation_id: str, read: _Read) -> None:
        waiting = self._failed.get(conversation_id)
        if waiting is not None:
            waiting.append(read.decide)
            self._stored(conversation_id, read)
            return
        try:
            future = self._room.submit(SOURCE, read.decide, SITE)
        except DatabaseError as error:
            # Too much waits, or the storage is gone: as if the commit had failed.
            self._stored(conversation_id, read)
            self._not_taken(conversation_id, read.decide, error)
            return
        future.add_done_callback(lambda _: self._stored(conversation_id, read))
        future.add_done_callback(partial(self._taken, conversation_id, read.decide))

    def _stored(self, place: str, read: _Read) -> None:
        if read.ahead is not None and read.invoke is not None:
            self._apps.commit_over(read.invoke)
            return
        self._storing[place] -= 1
        if not self._storing[place]:
            del self._storing[place]

    def _taken(self, conversation_id: str, decide: Decide[None], done: asyncio.Future[None]) -> None:
        if not done.cancelled() and (error := done.exception()) is not None:
            self._not_taken(conversation_id, decide, error)

    def _not_taken(self, conversation_id: str, decide: Decide[None], error: BaseException) -> None:
        if self._closed:
            return
        _log.warning("message_not_taken", conversation_id=conversation_id, error=repr(error))
        waiting = self._failed.get(conversation_id)
        if waiting is not None:
            waiting.append(decide)
            return
        self._failed[conversation_id] = deque([decide])
        self._tasks.spawn(self._take_again(conversation_id), name="take again")

    async def _take_again(self, conversation_id: str) -> None:
        """Takes what failed, and everything that came after it, one by one in order."""
        room = self._room
        await room.foundation.clock.sleep(RETRY_SECONDS)
        waiting = self._failed[conversation_id]
        while waiting:
            again = partial(room.submit, SOURCE, waiting[0], SITE)
            await insist(room.foundation.clock, "message", again)
            waiting.popleft()
        del self._failed[conversation_id]

    def greet(self, participants: list[LinkParticipant]) -> None:
        """Operators that have become active are told their inventory, unless they know it."""
        if self._early is not None:
            self._early.append(lambda: self.greet(participants))
            return
        for participant in participants:
            if participant.actor.operator_key is not None:
                self.publish(str(participant.actor), participant.conversation_id)

    def forget(self, departed: list[LinkParticipant]) -> None:
        """Who left a conversation is told nothing there any more, until it comes back."""
        if self._closed:
            return
        if self._early is not None:
            self._early.append(lambda: self.forget(departed))
            return
        gone = [(str(one.actor), one.conversation_id) for one in departed]
        decide = partial(registry.forget_agents, room=self._room, gone=gone)
        self._tasks.spawn(
            insist(
                self._room.foundation.clock,
                "departed",
                lambda: self._room.submit("runtime", decide, SITE_INVENTORY),
            ),
            name="forget agents",
        )

    def publish(self, agent: str, conversation_id: str) -> None:
        """Tells one agent what it sees in a conversation, if that is new to it."""
        if self._closed:
            return
        room = self._room
        decide = partial(registry.publish_inventory, room=room, agent=agent, conversation_id=conversation_id)
        self._tasks.spawn(
            insist(
                room.foundation.clock,
                "inventory",
                lambda: room.submit("runtime", decide, SITE_INVENTORY),
            ),
            name="publish inventory",
        )
