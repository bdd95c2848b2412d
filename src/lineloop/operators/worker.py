"""An operator at work: registered, woken, one turn at a time per conversation.

Decides what wakes a turn and that nothing else does: messages pushed over the link (quick), the Conversation
resources of the server (true, also after anything was missed), and both tell at start-up what was left
uncommitted. How often a failing turn is tried again is the work queue's decision; what a turn does, the
operator's (spec/protocol.md §9).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from types import TracebackType
from typing import Self

import structlog

from lineloop.client import LinkState, Loop
from lineloop.client.presence import DEFAULT_LEASE_SECONDS, Registration
from lineloop.control.controller import Controller, Manager, Request, Result, TerminalError
from lineloop.control.resources import DEFAULT_NAMESPACE, ResourceKey
from lineloop.control.stores.server import ServerStore
from lineloop.kit.clock import with_timeout
from lineloop.operators.inbox import wakes
from lineloop.operators.operator import Operator
from lineloop.operators.turn import Turn
from lineloop.protocol.errors import Conflict, LoopError, NotFound
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
        self._undo: list[Callable[[], None]] = []
        self._epoch: str | None = None
        self._known: OrderedDict[str, Participant] = OrderedDict()
        self._roots: dict[str, str] = {}
        self._heard: dict[str, dict[str, int]] = {}
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
        self._registration = await self._register()
        await self._manager.start()
        link = self._loop.link()
        self._undo = [link.on_deliver(self._hear), link.on_state(self._link_changed)]
        try:
            await with_timeout(self._loop.clock, LINK_SECONDS, link.start())
        except (LoopError, TimeoutError) as error:
            # A token without a link (an administrator's), a proxy that passes none: the resources still wake.
            _log.warning("operator_without_link", operator=self.operator.key, reason=str(error))
        _log.info("operator_started", operator=self.operator.key)

    async def describe(self, description: str) -> None:
        """People read something else about the operator from now on [write].

        A description that cannot be told now is told with the next start; nobody's work depends on it.
        """
        self.operator.description = description
        if self._registration is None:
            return
        try:
            renewed = await self._register()
        except LoopError as error:
            _log.warning("description_not_told", operator=self.operator.key, code=error.code)
            return
        self._registration.close()
        self._registration = renewed

    async def _register(self) -> Registration:
        return await self._loop.operators.register(
            self.operator.key,
            display_name=self.operator.display_name,
            description=self.operator.description,
            lease_seconds=self._lease_seconds,
        )

    async def stop(self) -> None:
        """No new turns; running ones get a few seconds to end. Repeating is harmless.

        The registration ends with its lease; the loop stays open and is the caller's.
        """
        if self._registration is not None:
            self._registration.close()
            self._registration = None
        while self._undo:
            self._undo.pop()()
        await self._manager.stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _hear(self, messages: list[Message]) -> None:
        """A push is a hint that a conversation has input; the turn polls for itself.

        What arrives in a workspace (the output of a run, say) is a reason to look at its conversation.
        """
        for message in messages:
            if not wakes(message):
                continue
            root = self._roots.get(message.conversation_id, message.conversation_id)
            if message.offset is not None and root != message.conversation_id:
                self._heard.setdefault(root, {})[message.conversation_id] = message.offset
            self._wake(root)

    def _link_changed(self, state: LinkState) -> None:
        if state.connected and state.epoch != self._epoch:
            # A restored database may have given other workspaces; nothing remembered counts.
            self._epoch = state.epoch
            self._known.clear()
            self._roots.clear()
            self._heard.clear()

    def _wake(self, conversation_id: str) -> None:
        self._manager.enqueue(self._controller.name, Request(CONVERSATION_KIND, conversation_id))

    async def _reconcile(self, request: Request) -> Result | None:
        line = await self._line(request.name)
        if line is None or line.conversation_id is None:
            return None  # not ours, or its workspace is not known yet: becoming known wakes us
        heard = self._heard.pop(request.name, {})
        turn = Turn(self._loop, self.operator.actor, request.name, line)
        try:
            result = await self.operator.take(turn)
        except BaseException:
            self._heard[request.name] = {**heard, **self._heard.get(request.name, {})}
            raise
        for workspace, offset in heard.items():
            # Only now: had the process died before, the push would have come again.
            await self._commit_hint(workspace, offset)
        if result is None and turn.inbox is not None and turn.inbox.full:
            return Result(requeue_after_seconds=0.0)
        return result

    async def _commit_hint(self, workspace: str, offset: int) -> None:
        place = self._loop.conversation(workspace, actor=self.operator.actor)
        try:
            await place.commit(offset)
        except Conflict:
            # The link that pushed it has gone, and with it the record that it was pushed.
            polled = await place.poll()
            await place.commit(min(offset, polled.position))

    async def _line(self, conversation_id: str) -> Participant | None:
        """The operator's line of a conversation: from the watched copy, from memory, or asked for.

        Only its workspace is relied on, which never changes once it is known; positions come from polling.
        """
        informer = self._manager.informers.get(CONVERSATION_KIND)
        key = ResourceKey(CONVERSATION_KIND, DEFAULT_NAMESPACE, conversation_id)
        seen = informer.cache.get(key) if informer is not None else None
        line = participant(seen, self.operator.actor) if seen is not None else None
        if line is None or line.conversation_id is None:
            line = self._known.get(conversation_id)
        if line is None:
            line = await self._asked_for(conversation_id)
        if line is not None and line.conversation_id is not None:
            self._remember(conversation_id, line, line.conversation_id)
        return line

    async def _asked_for(self, conversation_id: str) -> Participant | None:
        try:
            resource = await self._loop.conversation(conversation_id).resource()
        except NotFound as error:
            raise TerminalError(f"conversation {conversation_id} is gone") from error
        parent_id = resource["spec"].get("parentID")
        if parent_id and parent_id != conversation_id:
            # A workspace from before this process began: its conversation is what can be reconciled.
            self._wake(parent_id)
            return None
        return participant(resource, self.operator.actor)

    def _remember(self, conversation_id: str, line: Participant, workspace: str) -> None:
        self._known[conversation_id] = line
        self._known.move_to_end(conversation_id)
        self._roots[workspace] = conversation_id
        if len(self._known) > REMEMBERED:
            _, oldest = self._known.popitem(last=False)
            self._roots.pop(oldest.conversation_id or "", None)


async def run_operator(operator: Operator, loop: Loop, *, stop: asyncio.Event | None = None) -> None:
    """Run an operator until `stop` is set, or for ever; cancelling stops it gracefully too.

    Raises the LoopError of a refused registration.
    """
    async with OperatorWorker(operator, loop):
        await (stop or asyncio.Event()).wait()
