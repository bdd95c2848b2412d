"""All running app sessions of a device: one process per app, one context per session.

Decides which process serves a session, that two starts of one session are one start, and which idle session
gives way when there are too many. Leaves to others: when a session is needed or closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from lineloop.device.containers.child import LogicLimits, LogicProcess
from lineloop.device.containers.logic import LogicContainer, OpenBridge
from lineloop.device.containers.port import (
    Container,
    ContainerEvents,
    ContainerFailed,
    InstalledApp,
    SessionContext,
)
from lineloop.kit.faults import Faults
from lineloop.protocol.fault_sites import FaultSite
from lineloop.protocol.tools import GLOBAL_CONVERSATION

_log = structlog.get_logger(__name__)

Key = tuple[str, str]


class ContainerPool:
    """Implements Containers with logic containers.

    At most `max_sessions` run at once; the one unused for longest gives way (its exit is reported with reason
    `idle`), a session with a call never does.
    """

    def __init__(
        self,
        events: ContainerEvents,
        open_bridge: OpenBridge,
        *,
        limits: LogicLimits | None = None,
        faults: Faults | None = None,
        max_sessions: int = 64,
    ) -> None:
        self._events = events
        self._open_bridge = open_bridge
        self._limits = limits or LogicLimits()
        self._faults = faults or Faults.none()
        self._max_sessions = max_sessions
        self._processes: dict[str, LogicProcess] = {}
        self._containers: dict[Key, LogicContainer] = {}
        self._starting: dict[Key, asyncio.Future[LogicContainer]] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._closed = False

    @property
    def idle(self) -> bool:
        """Whether no start is under way and every process has handled what it was sent."""
        return not self._starting and all(process.idle for process in self._processes.values())

    @property
    def pids(self) -> dict[str, int]:
        """The process of each running app, for diagnostics and tests."""
        return {scope: process.pid for scope, process in self._processes.items() if process.pid is not None}

    async def ensure(self, app: InstalledApp, session: SessionContext) -> Container:
        """See Containers.ensure. Raises ContainerFailed."""
        key = (session.app_scope, session.app_session_id)
        running = self.running(*key)
        if running is not None:
            return running
        starting = self._starting.get(key)
        if starting is None:
            starting = asyncio.get_running_loop().create_future()
            self._starting[key] = starting
            await self._start(key, app, session, starting)
        return await asyncio.shield(starting)

    def running(self, app_scope: str, app_session_id: str) -> LogicContainer | None:
        """See Containers.running."""
        container = self._containers.get((app_scope, app_session_id))
        if container is None or not container.alive:
            return None
        # The dict's order is the order of use.
        self._containers[app_scope, app_session_id] = self._containers.pop((app_scope, app_session_id))
        return container

    async def _start(
        self, key: Key, app: InstalledApp, session: SessionContext, done: asyncio.Future[LogicContainer]
    ) -> None:
        try:
            done.set_result(await self._started(key, app, session))
        except ContainerFailed as failure:
            done.set_exception(failure)
        except BaseException as error:
            done.set_exception(ContainerFailed("app_start_failed", "the start was given up"))
            if not isinstance(error, Exception):
                raise
            _log.exception("container_start_failed", app_scope=app.app_scope)
        finally:
            done.exception()  # whoever waits gets it; nobody waiting is no fault
            del self._starting[key]

    async def _started(self, key: Key, app: InstalledApp, session: SessionContext) -> LogicContainer:
        if self._closed:
            raise ContainerFailed("no_container", "the Runtime is stopping")
        if app.logic is None:
            raise ContainerFailed("no_container", f"{app.app_scope} has no logic.js")
        if app.kind != "core" and session.conversation_id == GLOBAL_CONVERSATION:
            raise ContainerFailed("app_start_failed", "this conversation belongs to the Runtime")
        await self._faults.areach(FaultSite.DEVICE_CONTAINER_START)
        await self._make_room()
        process = await self._process_of(app)
        container = LogicContainer(process, self._events, self._open_bridge)
        container.on_gone = lambda gone: self._forget(key, gone)
        await container.start(app, session)
        self._containers[key] = container
        return container

    async def _process_of(self, app: InstalledApp) -> LogicProcess:
        """The app's process; a lock per app, so that two sessions do not start two."""
        async with self._locks.setdefault(app.app_scope, asyncio.Lock()):
            process = self._processes.get(app.app_scope)
            if process is None or process.gone:
                if process is not None:
                    await process.close()
                process = await LogicProcess.start(app.app_scope, self._limits)
                self._processes[app.app_scope] = process
            return process

    async def _make_room(self) -> None:
        while len(self._containers) >= self._max_sessions:
            victim = next((item for item in self._containers.items() if not item[1].busy), None)
            if victim is None:
                raise ContainerFailed("no_container", "too many app sessions are busy")
            (scope, session_id), container = victim
            await self.stop(scope, session_id)
            self._events.exited(container.session, "idle")

    def _forget(self, key: Key, container: LogicContainer) -> None:
        if self._containers.get(key) is container:
            del self._containers[key]

    async def stop(self, app_scope: str, app_session_id: str) -> None:
        """See Containers.stop."""
        container = self._containers.get((app_scope, app_session_id))
        if container is not None:
            await container.close()
        if not any(scope == app_scope for scope, _ in [*self._containers, *self._starting]):
            await self._end_process(app_scope)

    async def stop_app(self, app_scope: str) -> None:
        """See Containers.stop_app."""
        await self._close_containers(lambda scope: scope == app_scope)
        await self._end_process(app_scope)

    async def close(self) -> None:
        """See Containers.close."""
        self._closed = True
        await self._close_containers(lambda _: True)
        for app_scope in list(self._processes):
            await self._end_process(app_scope)

    async def _close_containers(self, wanted: Callable[[str], bool]) -> None:
        for (scope, _), container in list(self._containers.items()):
            if wanted(scope):
                await container.close()

    async def _end_process(self, app_scope: str) -> None:
        process = self._processes.pop(app_scope, None)
        if process is not None:
            await process.close()
