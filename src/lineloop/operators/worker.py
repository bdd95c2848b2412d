"""An operator at work: registered, woken, one turn at a time per conversation.

Decides what wakes a turn and that nothing else does: messages pushed over the link (quick), the Conversation
resources of the server (true, also after anything was missed), and both tell at start-up what was left
uncommitted. How often a failing turn is tried again is the work queue's decision; what a turn does, the
operator's (spec/protocol.md §9).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from types import TracebackType
from typing import Any, Self

import structlog

from lineloop.client import Loop
from lineloop.client.presence import DEFAULT_LEASE_SECONDS, Registration
from lineloop.control.controller import Controller, Manager, Request, Result, TerminalError
from lineloop.control.resources import DEFAULT_NAMESPACE, ResourceKey
from lineloop.control.stores.server import ServerStore
from lineloop.kit.clock import with_timeout
from lineloop.operators.inbox import wakes
from lineloop.operators.operator import Operator
from lineloop.operators.turn import Turn
from lineloop.protocol.errors import LoopError, NotFound
from lineloop.protocol.messages import Message
from lineloop.protocol.resources import CONVERSATION_KIND, Participant, conversation_predicate, participant

GRACE_SECONDS = 8.0
LINK_SECONDS = 5.0
# How many conversations' lines are remembered between turns, so that a turn begins without asking.
REMEMBERED = 10_000

_log = structlog.get_logger("lineloop.operator")


class OperatorWorker:
    """Runs one operator through `loop`, whose token must be the operator's (or cover it).

    Different conversations run concurrently, at most `workers` of them; one conversation never twice at once.
    An exception of a turn is logged and the turn comes again, later each time. An async context manager.
    """

    def __init__(
        self,
        operator: Operator,
        loop: Loop,
        *,
        workers: int = 16,
        lease_seconds: float = DEFAULT_LEASE_SECONDS,
    ) -> None:
        self.operator = operator
        self._loop = loop
        self._lease_seconds = lease_seconds
        self._registration: Registration | None = None
        self._undo_deliver: Any = None
        self._known: OrderedDict[str, Participant] = OrderedDict()
        self._parents: OrderedDict[str, str | None] = OrderedDict()
        self._controller = Controller(
            for_=CONVERSATION_KIND,
            reconcile=self._reconcile,
            predicates=[conversation_predicate(operator.actor)],
            workers=workers,
            name=str(operator.actor),
        )
        self._manager = Manager(ServerStore(loop.apis), loop.clock, grace_seconds=GRACE_SECONDS)
        self._manager.add(self._controller)

    async def start(self) -> None:
        """Register and begin to listen; returns when turns can start [write].

        Raises the LoopError of a refused registration.
        """
        self._registration = await self._loop.operators.register(
            self.operator.key,
            display_name=self.operator.display_name,
            description=self.operator.description,
            lease_seconds=self._lease_seconds,
        )
        await self._manager.start()
        link = self._loop.link()
        self._undo_deliver = link.on_deliver(self._hear)
        try:
            await with_timeout(self._loop.clock, LINK_SECONDS, link.start())
        except (LoopError, TimeoutError) as error:
            # A token without a link (an administrator's), a proxy that passes none: the resources still wake.
            _log.warning("operator_without_link", operator=self.operator.key, reason=str(error))
        _log.info("operator_started", operator=self.operator.key)

    async def stop(self) -> None:
        """No new turns; running ones get a few seconds to end. Repeating is harmless.

        The registration ends with its lease; the loop stays open and is the caller's.
        """
        if self._registration is not None:
            self._registration.close()
            self._registration = None
        if self._undo_deliver is not None:
            self._undo_deliver()
            self._undo_deliver = None
        await self._manager.stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _hear(self, messages: list[Message]) -> None:
        """A push is a hint that a conversation has input; the turn polls for itself."""
        for message in messages:
            if wakes(message):
                self._manager.enqueue(
                    self._controller.name, Request(CONVERSATION_KIND, message.conversation_id)
                )

    async def _reconcile(self, request: Request) -> Result | None:
        line = await self._line(request.name)
        if line is None or line.conversation_id is None:
            # Not ours, or its workspace is not known yet: becoming known wakes us. If it is a workspace itself,
            # what ended there (a run) is a matter of the conversation above it.
            if line is not None and (parent_id := await self._parent(request.name)) is not None:
                self._manager.enqueue(self._controller.name, Request(CONVERSATION_KIND, parent_id))
            return None
        turn = Turn(self._loop, self.operator.actor, request.name, line)
        result = await self.operator.take(turn)
        if result is None and turn.inbox is not None and turn.inbox.full:
            return Result(requeue_after_seconds=0.0)
        return result

    async def _parent(self, conversation_id: str) -> str | None:
        """The conversation above a process conversation; None for a root. Never changes, so it is remembered."""
        if conversation_id not in self._parents:
            self._parents[conversation_id] = (await self._loop.conversation(conversation_id).info()).parent_id
            if len(self._parents) > REMEMBERED:
                self._parents.popitem(last=False)
        return self._parents[conversation_id]

    async def _line(self, conversation_id: str) -> Participant | None:
        """The operator's line of a conversation: from the watched copy, from memory, or asked for.

        Only its workspace is relied on, which never changes once it is known; positions come from polling.
        """
        actor = self.operator.actor
        informer = self._manager.informers.get(CONVERSATION_KIND)
        key = ResourceKey(CONVERSATION_KIND, DEFAULT_NAMESPACE, conversation_id)
        seen = informer.cache.get(key) if informer is not None else None
        line = participant(seen, actor) if seen is not None else None
        if line is None or line.conversation_id is None:
            line = self._known.get(conversation_id)
        if line is None:
            try:
                resource = await self._loop.conversation(conversation_id).resource()
            except NotFound as error:
                raise TerminalError(f"conversation {conversation_id} is gone") from error
            line = participant(resource, actor)
        if line is not None and line.conversation_id is not None:
            self._known[conversation_id] = line
            self._known.move_to_end(conversation_id)
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return line


async def run_operator(operator: Operator, loop: Loop, *, stop: asyncio.Event | None = None) -> None:
    """Run an operator until `stop` is set, or for ever; cancelling stops it gracefully too.

    Raises the LoopError of a refused registration.
    """
    async with OperatorWorker(operator, loop):
        await (stop or asyncio.Event()).wait()
