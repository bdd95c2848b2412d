"""The device Runtime: puts the parts of one device together, starts and ends them in order.

Composition only. What becomes of calls is decided in decide/, stored through commit/, carried out by
reconcile/; what comes in goes through entries/ and transport/.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import structlog

from lineloop.client.link import Link, LinkState
from lineloop.client.transport import Transport
from lineloop.device.apps import AppRegistry
from lineloop.device.bridge.session_bridge import SessionBridge
from lineloop.device.commit import registry as registry_commits
from lineloop.device.commit.catalogue import Catalogue
from lineloop.device.commit.room import Room
from lineloop.device.commit.server_epoch import meet_server
from lineloop.device.commit_inbox import AppInbox
from lineloop.device.commit_session_data import SessionData
from lineloop.device.connection import Connection, ConnectionState
from lineloop.device.containers.pool import ContainerPool
from lineloop.device.containers.port import ContainerEvents, Containers, RegistryChanged, SessionContext
from lineloop.device.core_apps.port import CoreParts
from lineloop.device.core_apps.sessions import CoreSessions
from lineloop.device.decide import facts as f
from lineloop.device.decide.inventory import PolicyRule
from lineloop.device.entries.host_intent import HostIntentEntry
from lineloop.device.entries.ui_action import UiActionEntry
from lineloop.device.foundation import Foundation
from lineloop.device.host.headless import HeadlessHost
from lineloop.device.host.port import Host, Stage
from lineloop.device.migrations import HEAD
from lineloop.device.models import AnnouncedModels, ModelChoice
from lineloop.device.person.side import PersonSide
from lineloop.device.reconcile.app_sessions import AppSessions
from lineloop.device.reconcile.deadlines import Deadlines
from lineloop.device.reconcile.display import Display
from lineloop.device.reconcile.insist import insist
from lineloop.device.reconcile.outbox import OutboxSender
from lineloop.device.reconcile.restore import Restorer
from lineloop.device.reconcile.retention import RetentionSweep
from lineloop.device.settings import DeviceSettings
from lineloop.device.store import stories
from lineloop.device.store.outbox import Entry
from lineloop.device.transport.intake import Intake
from lineloop.kit.clock import Clock
from lineloop.kit.database import Tx
from lineloop.kit.faults import Faults
from lineloop.kit.ids import Ids
from lineloop.kit.schema import ensure_schema
from lineloop.kit.sqlite.database import SqliteDatabase
from lineloop.kit.tasks import Tasks
from lineloop.protocol.machines import RUNTIME, RuntimeEvent, RuntimeState
from lineloop.protocol.tools import CORE_SCOPES

MakeContainers = Callable[[ContainerEvents], Containers]

_LINK = {
    RuntimeState.ONLINE: ConnectionState.ONLINE,
    RuntimeState.OFFLINE_DEGRADED: ConnectionState.OFFLINE,
    RuntimeState.STOPPING: ConnectionState.OFFLINE,
    RuntimeState.STOPPED: ConnectionState.OFFLINE,
}

_log = structlog.get_logger(__name__)


class Runtime:
    """One device. `transport` carries the device's own credential, `person_transport` its person's.

    Make it, `await start()`, `await close()`; a second start is not possible. Both transports belong to the
    Runtime from `start` on. `on_fatal` is called when the database is gone and the process should end;
    `on_action` gets the UI actions that passed their checks; `models`, set before `start`, lets the person
    choose one. `make_containers` replaces the logic containers.
    """

    def __init__(
        self,
        settings: DeviceSettings,
        transport: Transport,
        *,
        clock: Clock,
        ids: Ids | None = None,
        faults: Faults | None = None,
        host: Host | None = None,
        person_transport: Transport | None = None,
        make_containers: MakeContainers | None = None,
    ) -> None:
        self.settings = settings
        self._transport = transport
        self._clock = clock
        self._ids = ids or Ids(clock)
        self._faults = faults or Faults.none()
        self._host: Host = host or HeadlessHost(self._ids)
        self._person_transport = person_transport
        self._make_containers = make_containers
        self.models: ModelChoice | None = None
        self.on_fatal: Callable[[BaseException], None] | None = None
        self.on_action: Callable[[f.DeliverAction], None] | None = None
        self._state = RuntimeState.CREATED
        self._tasks = Tasks("runtime")
        self._ready = asyncio.Event()
        self._epoch: str | None = None
        self._meeting: asyncio.Task[None] | None = None
        self.person: PersonSide | None = None
        self.connection = Connection(clock)
        self.connection.count(lambda: self.outbox_waiting)

    # ── state ───────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def state(self) -> RuntimeState:
        return self._state

    @property
    def ready(self) -> bool:
        """Whether the Runtime is online: restored, connected, taking calls."""
        return self._state is RuntimeState.ONLINE

    async def wait_ready(self) -> None:
        """Returns when the Runtime has been online once."""
        await self._ready.wait()

    @property
    def outbox_waiting(self) -> int:
        """Messages that the server has not acknowledged; what the shell counts while offline."""
        return self._sender.waiting if hasattr(self, "_sender") else 0

    @property
    def idle(self) -> bool:
        """Whether every message has been taken and every submitted commit answered."""
        return self._database.idle and self._intake.idle

    def _move(self, event: RuntimeEvent) -> None:
        self._state = RUNTIME.next(self._state, event)
        _log.info("runtime_state", device=self.settings.device_key, state=str(self._state))
        self.connection.link_is(_LINK.get(self._state, ConnectionState.CONNECTING))

    # ── start and end ───────────────────────────────────────────────────────────────────────────────────────

    async def start(self) -> None:
        """Restores everything from the database, then connects; works without a server.

        Raises DatabaseTooNew, DatabaseError, NetworkFilesystem, LoopError (packaged apps).
        """
        self._move(RuntimeEvent.START)
        await self._open()
        await self._restorer.restore_outbox()
        await self.registry.load()
        await self._database.write(
            lambda tx: registry_commits.new_generation(tx, self.room, self.registry.apps_in(tx))
        )
        await self._host.start(self._stage())
        await self._restorer.restore()
        if self.person is not None:
            await self.person.start()
        self._connect()
        self._tasks.spawn(self._sweep(), name="sweep")
        if self.settings.retention.is_on:
            sweep = RetentionSweep(self.foundation, self.settings.retention)
            self._tasks.spawn(sweep.run(), name="retention")

    async def _open(self) -> None:
        path = self.settings.database_path
        package = "lineloop.device.migrations"
        await asyncio.to_thread(ensure_schema, path, package=package, head=HEAD)
        self._database = await SqliteDatabase.open(
            path, clock=self._clock, faults=self._faults, on_fatal=self._fatal
        )
        self.foundation = Foundation(
            self._database, self._clock, self._ids, self.settings.device_key, self._faults
        )
        self.inbox = AppInbox(self.foundation)
        self.session_data = SessionData(self.foundation)
        self.registry = AppRegistry(
            self.foundation,
            apps_dir=self.settings.data_dir / "apps",
            inbox=self.inbox,
            on_changed=self._registry_changed,
            packaged=self.settings.packaged,
        )
        self.room = Room(
            self.foundation,
            Catalogue(self._host.features),
            person=self.settings.person,
            limits=self.settings.limits,
            on_effects=self._carry_out,
            inbox=self.inbox,
        )
        if self._person_transport is not None:
            self.person = PersonSide(
                self.foundation,
                self._person_transport,
                self.inbox,
                self.registry,
                person=self.settings.person,
                connection=self.connection,
            )
        self.host_reports = HostIntentEntry(self.room)
        self.ui_actions = UiActionEntry(self.room)
        self.core_sessions = self._core_sessions()
        self._assemble()

    def _assemble(self) -> None:
        room, tasks, settings = self.room, self._tasks, self.settings
        self._sender = OutboxSender(
            room,
            tasks,
            hold_seconds=settings.receipt_hold_seconds,
            lazy_seconds=settings.lazy_write_seconds,
            on_waiting=self.connection.waiting_changed,
        )
        self._app_sessions = AppSessions(room, tasks)
        self._intake = Intake(room, tasks, self._sender, self._app_sessions)
        self.containers: Containers = (
            self._make_containers(self._app_sessions)
            if self._make_containers is not None
            else ContainerPool(self._app_sessions, self._open_bridge, faults=self._faults)
        )
        self._app_sessions.use(self.containers)
        self._deadlines = Deadlines(room, tasks)
        self._display = Display(room, tasks, self._host, self._app_sessions)
        self._restorer = Restorer(
            room,
            app_sessions=self._app_sessions,
            deadlines=self._deadlines,
            display=self._display,
            sender=self._sender,
        )
        self._effects: dict[type[Any], Callable[[Any], object]] = {
            f.CursorMoved: lambda e: self._sender.note_position(e.conversation_id, e.position),
            f.SendSoon: lambda e: self._sender.add(Entry(e.conversation_id, e.key, e.text), urgent=e.urgent),
            f.Dispatch: self._app_sessions.dispatch,
            f.ArmDeadline: lambda e: self._deadlines.arm(e.kind, e.id, e.at, e.span_ms),
            f.StartContainer: self._app_sessions.start,
            f.CancelHandler: self._app_sessions.cancel,
            f.ShowInstance: self._display.show,
            f.CloseInstance: self._display.close,
            f.AskConsent: self._display.ask,
            f.WithdrawConsent: self._display.withdraw,
            f.ProjectInstance: self._display.project,
            f.PublishInventory: lambda e: self._intake.publish(e.agent, e.conversation_id),
            f.PumpSession: lambda e: tasks.spawn(
                self._restorer.pump(e.conversation_id, e.app_scope), name="waiting calls"
            ),
            f.EndStranded: lambda _: tasks.spawn(self._restorer.end_stranded(), name="stranded calls"),
            f.DeliverAction: self._deliver_action,
        }

    def _carry_out(self, effects: list[f.Effect]) -> None:
        if self._state in (RuntimeState.STOPPING, RuntimeState.STOPPED):
            return
        for effect in effects:
            try:
                self._effects[type(effect)](effect)
            except Exception:
                # The sweep makes up for it; those that follow are not its affair.
                _log.exception("effect_failed", effect=type(effect).__name__)

    def _open_bridge(self, session: SessionContext, send: Callable[[str], None]) -> SessionBridge:
        return SessionBridge(
            session,
            send,
            session_data=self.session_data,
            inbox=self.inbox,
            tasks=self._tasks,
            core=session.app_scope in CORE_SCOPES,
        )

    def _core_sessions(self) -> CoreSessions:
        parts = CoreParts(
            foundation=self.foundation,
            room=self.room,
            registry=self.registry,
            connection=self.connection,
            person=self.settings.person,
            person_side=self.person,
            audit=self.audit,
            place=self.settings.place,
            choose_default=self.host_reports.default_chosen,
        )
        sessions = CoreSessions(parts, self.session_data, self.inbox)
        if self.models is not None:
            models = self.models = AnnouncedModels(self.models, sessions.model_changed)
            sessions.model = lambda: models.current().to_wire()
        return sessions

    def _stage(self) -> Stage:
        return Stage(
            reports=self.host_reports,
            foundation=self.foundation,
            registry=self.registry,
            session_data=self.session_data,
            inbox=self.inbox,
            ui_actions=self.ui_actions,
            connection=self.connection,
            open_core=lambda app_scope, send, *, drained: self.core_sessions.open(
                app_scope, send, drained=drained
            ),
            elapsed_ms=self.room.elapsed_ms,
            person=self.settings.person,
            models=self.models,
            knows_conversation=None if self.person is None else self.person.conversations.knows,
            export=None if self.person is None else self.person.export,
        )

    def _deliver_action(self, effect: f.DeliverAction) -> None:
        """A checked action goes to whoever holds the app's frames."""
        if self.on_action is not None:
            self.on_action(effect)

    def _registry_changed(self, tx: Tx, change: RegistryChanged) -> None:
        decide = partial(registry_commits.registry_changed, room=self.room, change=change)
        self.room.join(tx, "runtime", decide, "device.inventory")

    def _fatal(self, error: BaseException) -> None:
        _log.error("device_database_fatal", error=repr(error))
        if self.on_fatal is not None:
            self.on_fatal(error)

    # ── the link ────────────────────────────────────────────────────────────────────────────────────────────

    def _connect(self) -> None:
        self._link = Link(self._transport.open_link, self._clock, faults=self._faults)
        self._sender.use(self._link)
        self._link.on_deliver(self._intake.take)
        self._link.on_participants(self._intake.greet)
        self._link.on_departed(self._intake.forget)
        self._link.on_state(self._link_changed)
        self._move(RuntimeEvent.CONNECT)
        self._tasks.spawn(self._link.start(wait=False), name="link")
        self._tasks.spawn(self._become_offline(), name="offline watch")

    def _link_changed(self, link: LinkState) -> None:
        if self._state in (RuntimeState.STOPPING, RuntimeState.STOPPED):
            return
        if self._meeting is not None:
            self._meeting.cancel()
            self._meeting = None
        if link.connected or link.error is not None:
            refused = link.error is not None and not link.error.retryable
            self.connection.refused_with(str(link.error.code) if link.error and refused else None)
        if link.connected:
            if self._state is not RuntimeState.AUTHENTICATING:
                self._move(RuntimeEvent.CONNECT)
            known = link.epoch == self._epoch
            self._intake.connected(known=known)
            self._move(RuntimeEvent.AUTHENTICATED)
            if known:
                self._synchronized()
            else:
                self._sender.forget_positions()
                self._meeting = self._tasks.spawn(self._meet(link.epoch or ""), name="meet server")
        elif self._state not in (RuntimeState.RECONNECTING, RuntimeState.OFFLINE_DEGRADED):
            self._intake.disconnected()
            self._move(RuntimeEvent.LOSE_CONNECTION)
            self._tasks.spawn(self._become_offline(), name="offline watch")

    async def _meet(self, epoch: str) -> None:
        """Nothing is taken from a server, nor said to it, before it is stored which life of it this is."""
        meet = partial(meet_server, room=self.room, epoch=epoch)
        await insist(self._clock, "server epoch", lambda: self.room.submit("runtime", meet))
        self._epoch = epoch
        self._intake.begin()
        self._synchronized()

    def _synchronized(self) -> None:
        self._move(RuntimeEvent.SYNCHRONIZED)
        self._ready.set()
        self._sender.connected()

    async def _become_offline(self) -> None:
        """Without a connection for a while, the Runtime says so; everything local goes on."""
        await self._clock.sleep(self.settings.offline_after_seconds)
        if self._state in (RuntimeState.AUTHENTICATING, RuntimeState.RECONNECTING):
            self._move(RuntimeEvent.GO_OFFLINE)

    async def _sweep(self) -> None:
        while True:
            await self._clock.sleep(self.settings.sweep_seconds)
            try:
                await self._restorer.sweep(round(self.settings.sweep_seconds * 4000))
            except Exception as error:
                _log.warning("sweep_failed", error=repr(error))

    async def close(self) -> None:
        """Ends everything in order; what is unfinished is in the database and goes on at the next start."""
        if self._state in (RuntimeState.STOPPING, RuntimeState.STOPPED):
            return
        self._move(RuntimeEvent.STOP)
        closers: list[Callable[[], Awaitable[object]]] = []
        if hasattr(self, "core_sessions"):
            closers.append(self.core_sessions.close)
        if hasattr(self, "_link"):
            closers.append(self._link.close)
        if self.person is not None:
            closers.append(self.person.close)
        if hasattr(self, "_database"):
            self._sender.close()
            self._intake.close()
            closers += [self.registry.close, self._host.stop, self.containers.close, self._tasks.close]
            closers += [self._flush, self._database.close]
        closers.append(self._transport.close)
        for close in closers:
            try:
                await close()
            except Exception as error:
                _log.warning("close_failed", error=repr(error))
        self._move(RuntimeEvent.FINISH)

    async def _flush(self) -> None:
        flushed = self.room.flush()
        if flushed is not None:
            await flushed

    # ── questions and policy ────────────────────────────────────────────────────────────────────────────────

    async def audit(
        self,
        *,
        call_id: str | None = None,
        app_scope: str | None = None,
        conversation_id: str | None = None,
    ) -> list[dict[str, Any]]:
        """What the audit knows, as stories (store/stories). Raises StorageUnavailable."""
        return await self.foundation.read(
            lambda tx: stories.read_stories(
                tx,
                self.room.runtime_id,
                call_id=call_id,
                app_scope=app_scope,
                conversation_id=conversation_id,
            )
        )

    async def surface(self, instance_id: str) -> dict[str, Any] | None:
        """What an instance's surface shows now. Raises StorageUnavailable."""
        return await self.foundation.read(lambda tx: stories.read_surface(tx, instance_id))

    async def set_policy(self, rules: list[PolicyRule]) -> None:
        """Replaces the rules that hide tools from agents; inventories change in the same commit."""

        def decide(tx: Tx, plan: Any) -> None:
            registry_commits.policy_changed(tx, plan, self.room, rules, self.registry.apps_in(tx))

        await self.room.submit("runtime", decide, "device.inventory")
