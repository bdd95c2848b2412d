"""Has queries answered by their app before they are stored, so that acceptance and answer are one commit.

Decides which call may go ahead of its commit and how long the commit waits for its answer. The commit decides
whether what was said counts: a call that it refuses, repeats or hands elsewhere never had it. A crash
in between is as if nothing was asked: the message is delivered again (docs/decisions/0030).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from lineloop.device.commit.room import Room
from lineloop.device.containers.port import Container, Containers, Invocation, Outcome
from lineloop.device.decide.calls import Answered, HandlerOutcome, Invoke, may_answer_ahead, refusal_of
from lineloop.device.decide.schemas import Schemas
from lineloop.device.decide.state import Call
from lineloop.kit.faults import FaultInjected, FaultMode
from lineloop.kit.tasks import Tasks
from lineloop.protocol.fault_sites import FaultSite

QUICK_SECONDS = 0.003
"""A commit takes about as long; who answers later gets the two commits of every other call."""

REMEMBERED_CALLS = 4_096

CallName = tuple[str, str, str]
"""Agent, conversation, call_id."""

HandlerSaid = Callable[[Outcome], HandlerOutcome | None]


class AskedAhead:
    """One query that is with its handler while its call is not stored yet.

    It is settled when the handler has answered, or when waiting any longer is not worth it; `on_settled` is
    called once then, on the loop. The answer may still come after that: whoever adopts the call gets it from
    `said`, which is cancelled when the handler must be asked again.
    """

    def __init__(self, invoke: Invoke, session_id: str, app_version: str) -> None:
        self.invoke = invoke
        self.session_id = session_id
        self.said: asyncio.Future[HandlerOutcome | None] = asyncio.get_running_loop().create_future()
        self.progress: list[Any] = []
        # How a call that was left open ended, before anybody had adopted it.
        self.ended: HandlerOutcome | None = None
        self.answered: Answered | None = None
        self.settled = False
        self.on_settled: Callable[[], None] | None = None
        self._app_version = app_version

    def take(self, outcome: HandlerOutcome | None) -> None:
        """The handler's word; None when it left the call open."""
        if outcome is not None and not self.progress:
            self.answered = Answered(self.session_id, self._app_version, outcome)
        self.said.set_result(outcome)
        self.settle()

    def give_up(self) -> None:
        """What the handler said is lost."""
        self.said.cancel()
        self.settle()

    def take_progress(self, value: Any) -> None:
        """Progress is told to the agent, so the call has to be stored first."""
        self.progress.append(value)
        self.settle()

    def settle(self) -> None:
        if not self.settled:
            self.settled = True
            if self.on_settled is not None:
                self.on_settled()


class AheadOfCommits:
    """The queries of one device that are asked ahead. `running` and `names` belong to its app sessions.

    `sessions` says which app session serves an app in a conversation, as far as this process has seen one.
    """

    def __init__(
        self, room: Room, tasks: Tasks, names: dict[tuple[str, str], str], understood: HandlerSaid
    ) -> None:
        self._room = room
        self._tasks = tasks
        self._names = names
        self._understood = understood
        self._schemas = Schemas()  # the room's belongs to the writer's thread
        self._asked: dict[CallName, AskedAhead] = {}
        # Calls whose handler was asked once: what comes again is answered from its record, or decided about.
        self._seen: dict[CallName, None] = {}
        self.sessions: dict[tuple[str, str], str] = {}

    def ask(self, containers: Containers, invoke: Invoke) -> AskedAhead | None:
        """Hands a query to its running app now; None when it has to wait for its commit like any other."""
        name = (invoke.agent, invoke.conversation_id, invoke.call_id)
        if (asked := self._asked.get(name)) is not None:
            return asked if asked.invoke == invoke else None
        if name in self._seen:
            return None
        container = self._container_for(containers, invoke)
        if container is None:
            return None
        session_id = container.session.app_session_id
        if (session_id, invoke.call_id) in self._names:
            return None  # another agent's call has this name with the app
        self._names[session_id, invoke.call_id] = ""
        self._remember(name)
        asked = self._asked[name] = AskedAhead(invoke, session_id, container.session.app_version)
        self._tasks.spawn(self._answer(asked, container, invoke), name="query ahead")
        # Time on the wall: it bounds a wait for another process, which no virtual clock drives.
        asyncio.get_running_loop().call_later(QUICK_SECONDS, asked.settle)
        return asked

    def _container_for(self, containers: Containers, invoke: Invoke) -> Container | None:
        session_id = self.sessions.get((invoke.key.app_scope, invoke.conversation_id))
        shelf = self._room.catalogue.newest
        app = shelf.apps.get(invoke.key.app_scope) if shelf is not None else None
        tool = app.tool(invoke.key) if app is not None else None
        if session_id is None or shelf is None or app is None or tool is None or not may_answer_ahead(tool):
            return None
        view = shelf.view(invoke.agent, invoke.conversation_id)
        if refusal_of(view, app, invoke, self._schemas) is not None:
            return None
        container = containers.running(invoke.key.app_scope, session_id)
        if container is None or container.session.app_version != app.version:
            return None
        return container

    async def _answer(self, asked: AskedAhead, container: Container, invoke: Invoke) -> None:
        faults = self._room.foundation.faults
        try:
            await faults.areach(FaultSite.DEVICE_HANDLER_BEFORE_INVOKE)
            key = invoke.key
            outcome = await container.invoke(
                Invocation(invoke.call_id, key.method, key.contract_version, invoke.params)
            )
            if await faults.areach(FaultSite.DEVICE_HANDLER_AFTER_INVOKE) is FaultMode.LOST_ACK:
                asked.give_up()
                return
        except FaultInjected:
            asked.give_up()
            return
        except BaseException:
            # Whoever waits for what it says must not wait for ever.
            asked.give_up()
            raise
        asked.take(self._understood(outcome))

    def progress(self, session_id: str, call_id: str, value: Any) -> None:
        """A handler's progress in a call that nobody has adopted yet."""
        if (asked := self._named(session_id, call_id)) is not None:
            asked.take_progress(value)

    def ended(self, session_id: str, call_id: str, outcome: HandlerOutcome) -> None:
        """The end of an open call that nobody has adopted yet."""
        if (asked := self._named(session_id, call_id)) is not None:
            asked.ended = outcome

    def _named(self, session_id: str, call_id: str) -> AskedAhead | None:
        for (_, _, name), asked in self._asked.items():
            if name == call_id and asked.session_id == session_id:
                return asked
        return None

    def adopt(self, call: Call) -> AskedAhead | None:
        """The call is stored and shall be handed to its app: here is what was asked of that session."""
        name = (call.agent, call.conversation_id, call.call_id)
        self._remember(name)
        asked = self._asked.get(name)
        if asked is None or asked.session_id != call.app_session_id:
            return None
        del self._asked[name]
        self._names[asked.session_id, call.call_id] = call.ref
        return asked

    def _remember(self, name: CallName) -> None:
        self._seen[name] = None
        while len(self._seen) > REMEMBERED_CALLS:
            del self._seen[next(iter(self._seen))]

    def leave(self, invoke: Invoke) -> None:
        """The commit is over. Whoever was not adopted by then was answered in it, or never accepted."""
        name = (invoke.agent, invoke.conversation_id, invoke.call_id)
        asked = self._asked.pop(name, None)
        if asked is None:
            return
        key = (asked.session_id, invoke.call_id)

        def free(_: object = None) -> None:
            if self._names.get(key) == "":
                del self._names[key]

        if asked.said.done():
            free()
        else:
            asked.said.add_done_callback(free)
