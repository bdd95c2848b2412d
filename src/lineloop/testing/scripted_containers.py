"""Containers whose handlers a test writes in Python, to play slow, wrong and crashing apps.

Implements the Containers port. A handler is an async function of the invocation that returns an Outcome.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

from lineloop.device.containers.port import (
    Completed,
    Container,
    ContainerEvents,
    ContainerFailed,
    Failed,
    InstalledApp,
    Invocation,
    Outcome,
    SessionContext,
)
from lineloop.protocol.error_codes import ErrorCode

Handler = Callable[[Invocation], Awaitable[Outcome]]


class Script:
    """What the apps of a test do; survives a restart of the device, as the test itself does.

    `gate` holds every start until it is set; `fail` is the reason with which starts fail. `ran` counts
    handler runs by call, `order` lists methods as they were begun.
    """

    def __init__(self) -> None:
        self.handlers: dict[str, Handler] = {}
        self.gate = asyncio.Event()
        self.gate.set()
        self.fail: str | None = None
        self.ran: Counter[str] = Counter()
        self.order: list[str] = []
        self.starts = 0
        self.cancelled: list[str] = []
        self.containers: ScriptedContainers | None = None

    def on(self, method: str, handler: Handler) -> None:
        self.handlers[method] = handler

    def make(self, events: ContainerEvents) -> ScriptedContainers:
        """For Runtime(make_containers=…)."""
        self.containers = ScriptedContainers(self, events)
        return self.containers


class ScriptedContainer:
    """Implements Container."""

    def __init__(self, script: Script, events: ContainerEvents) -> None:
        self._script = script
        self._events = events
        self._session: SessionContext | None = None
        self._calls: dict[str, asyncio.Future[Outcome]] = {}
        self._alive = False

    @property
    def session(self) -> SessionContext:
        assert self._session is not None
        return self._session

    @property
    def alive(self) -> bool:
        return self._alive

    async def start(self, app: InstalledApp, session: SessionContext) -> None:
        del app
        self._session = session
        self._script.starts += 1
        await self._script.gate.wait()
        if self._script.fail is not None:
            raise ContainerFailed(self._script.fail, "as the test wants")  # pyright: ignore[reportArgumentType]
        self._alive = True

    async def invoke(self, call: Invocation) -> Outcome:
        if call.call_id in self._calls:
            raise ValueError(f"call {call.call_id} is already with the app")
        self._script.ran[call.call_id] += 1
        self._script.order.append(call.method)
        handler = self._script.handlers.get(call.method)
        if handler is None:
            return Completed({})
        ended: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._calls[call.call_id] = ended
        running = asyncio.ensure_future(handler(call))  # noqa: TID251 (ends with the call)

        def over(done: asyncio.Future[Outcome]) -> None:
            if ended.done() or done.cancelled():
                return
            if done.exception() is not None:
                ended.set_result(Failed(ErrorCode.HANDLER_FAILED, "the handler threw", "threw"))
            else:
                ended.set_result(done.result())

        running.add_done_callback(over)
        try:
            return await ended
        finally:
            running.cancel()
            self._calls.pop(call.call_id, None)

    async def cancel(self, call_id: str) -> None:
        self._script.cancelled.append(call_id)
        ended = self._calls.get(call_id)
        if ended is not None and not ended.done():
            ended.set_result(Failed(ErrorCode.CANCELLED, "the call was cancelled"))

    def crash(self) -> None:
        """The process of this app session is gone."""
        self._alive = False
        for ended in self._calls.values():
            if not ended.done():
                ended.set_result(Failed(ErrorCode.HANDLER_FAILED, "the session ended", "crashed"))
        self._events.exited(self.session, "crashed")

    async def close(self) -> None:
        self._alive = False
        for ended in self._calls.values():
            if not ended.done():
                ended.set_result(Failed(ErrorCode.HANDLER_FAILED, "the session ended", "crashed"))


class ScriptedContainers:
    """Implements Containers."""

    def __init__(self, script: Script, events: ContainerEvents) -> None:
        self._script = script
        self.events = events
        self.all: dict[tuple[str, str], ScriptedContainer] = {}

    async def ensure(self, app: InstalledApp, session: SessionContext) -> Container:
        key = (session.app_scope, session.app_session_id)
        running = self.all.get(key)
        if running is not None and running.alive:
            return running
        container = ScriptedContainer(self._script, self.events)
        await container.start(app, session)
        self.all[key] = container
        return container

    def running(self, app_scope: str, app_session_id: str) -> Container | None:
        container = self.all.get((app_scope, app_session_id))
        return container if container is not None and container.alive else None

    async def stop(self, app_scope: str, app_session_id: str) -> None:
        container = self.all.pop((app_scope, app_session_id), None)
        if container is not None:
            await container.close()

    async def stop_app(self, app_scope: str) -> None:
        for scope, session in list(self.all):
            if scope == app_scope:
                await self.stop(scope, session)

    async def close(self) -> None:
        for scope, session in list(self.all):
            await self.stop(scope, session)
