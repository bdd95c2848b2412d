"""Implements Host for browsers: pages that connect, the lease among them, the surfaces in them.

Everything that pages are told is level-triggered: whatever changes, the truth is read anew and each page gets
the parts of it that differ from what it has. Decides who may confirm a showing (the visible page that holds
the lease) and, as a stand-in, that a terminal does when no page is visible. What a page asks is taken in
visit.py.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import structlog

from lineloop.device.bridge.shapes import encode
from lineloop.device.containers.port import SessionContext
from lineloop.device.decide.intents import IntentKind
from lineloop.device.decide.startup import StartEntry
from lineloop.device.decide.state import Instance
from lineloop.device.host.port import ConsentSheet, Showing, Stage
from lineloop.device.host.web.access import Access
from lineloop.device.host.web.answers import LOOPBACK, Receive, Send
from lineloop.device.host.web.content import ContentApp
from lineloop.device.host.web.downloads import Downloads
from lineloop.device.host.web.launches import Launches, ServedFile
from lineloop.device.host.web.lease import ForegroundLease
from lineloop.device.host.web.pages import Page
from lineloop.device.host.web.shell_app import ShellApp
from lineloop.device.host.web.surfaces import Surface
from lineloop.device.host.web.views import apps_view, workspace_view
from lineloop.device.host.web.visit import HEARTBEAT_MS, UNAUTHORIZED, Visit
from lineloop.device.store import shell as store
from lineloop.device.store.startup import explanation
from lineloop.device.store.workspace import SurfaceFacts, Workspace, read_surface_facts, read_workspace
from lineloop.kit.clock import Clock
from lineloop.kit.database import Tx
from lineloop.kit.ids import Ids
from lineloop.kit.tasks import Tasks
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import LoopError, NotFound
from lineloop.protocol.tools import GLOBAL_CONVERSATION

BOOT = Path(__file__).parent / "boot.js"
AGAIN_SECONDS = 0.5
MAX_PAGES = 32
MAX_LAUNCHES = 128
KEPT_TABS = 256
STOPPED = frozenset({"navigated", "flood", "protocol", "unresponsive", "crashed"})
STOPPING = 4503
STOP_SECONDS = 1.0

_log = structlog.get_logger(__name__)


class WebHost:
    """The host of one device's browser pages.

    `shell` and `content` are the ASGI applications of two listeners on these ports; `static` are the shell's
    built files. With `stand_in` whoever started this program sees what is shown even without a page.
    """

    def __init__(
        self,
        ids: Ids,
        clock: Clock,
        static: dict[str, ServedFile],
        *,
        shell_port: int,
        content_port: int,
        stand_in: bool = False,
    ) -> None:
        self._ids = ids
        self._clock = clock
        self._stand_in = ids.make("hst") if stand_in else None
        self.launches = Launches(ids, BOOT.read_bytes())
        self.shell_origin = f"http://{LOOPBACK}:{shell_port}"
        self.access = Access(ids, self.shell_origin)
        self.content = ContentApp(self.launches, port=content_port, shell_origin=self.shell_origin)
        self.downloads = Downloads(ids, clock)
        self.shell = ShellApp(
            static, self._serve, self.downloads, port=shell_port, content_origin=self.content.origin
        )
        self.lease = ForegroundLease()
        self.pages: dict[str, Page] = {}
        self._arriving = 0
        self._revoked: set[str] = set()
        self._tabs: OrderedDict[str, None] = OrderedDict()
        self.surfaces: dict[str, Surface] = {}
        self.workspace = Workspace()
        self._entry: StartEntry | None = None
        self._notice: dict[str, Any] | None = None
        self._stage: Stage | None = None
        self._sheets: dict[str, ConsentSheet] = {}
        self._committed: str | None = None
        self._settling = asyncio.Lock()
        self._dirty = asyncio.Event()
        self._tasks = Tasks("web host")
        self._stops: list[Callable[[], None]] = []
        self._stopped = False
        self._empty = asyncio.Event()

    # ── Host ────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def features(self) -> frozenset[str]:
        return frozenset()

    @property
    def stage(self) -> Stage:
        assert self._stage is not None, "the host has not been started"
        return self._stage

    async def start(self, stage: Stage) -> None:
        """Takes pages from now on."""
        self._stage = stage
        self.access.use(stage.foundation)
        self._stops = [
            stage.connection.subscribe(self._tell_connection),
            stage.registry.subscribe(lambda _: self.changed()),
        ]
        self._tasks.spawn(self._project(), name="projection")
        self._tasks.spawn(self._beat(), name="heartbeat")
        self.changed()

    async def show(self, showing: Showing) -> None:  # noqa: ARG002
        """What is to be shown stands in the database; pages are told of it from there."""
        self.changed()

    async def close(self, instance_id: str) -> None:
        """Takes every surface of the instance away, after the time that they ask for."""
        leaving = [one for one in self.surfaces.values() if one.context.instance_id == instance_id]
        if leaving:
            closings = [
                self._tasks.spawn(one.be_closed(self.changed), name="surface closing") for one in leaving
            ]
            self.changed()
            await asyncio.wait(closings)
        for surface in leaving:
            self.end_surface(surface.launch.id, "closed")
        if self._stage is not None:
            foundation = self._stage.foundation
            await foundation.write(lambda tx: store.forget_snapshot(tx, foundation.runtime_id, instance_id))
        self.changed()

    async def ask_consent(self, sheet: ConsentSheet) -> None:
        self._sheets[sheet.call_ref] = sheet
        self._tell_consent()

    async def withdraw_consent(self, call_ref: str) -> None:
        if self._sheets.pop(call_ref, None) is not None:
            self._tell_consent()

    async def project(self, instance_id: str | None) -> None:  # noqa: ARG002
        """All of it is read anew: there is little of it, and many changes in a row are read once."""
        self.changed()

    async def stop(self) -> None:
        """Sends every page away; each comes back by itself when there is a host again. Idempotent."""
        if self._stopped:
            return
        self._stopped = True
        for stop in self._stops:
            stop()
        for page in list(self.pages.values()):
            page.leave("stopping", STOPPING)
        if self.pages:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._empty.wait(), STOP_SECONDS)
        await self._tasks.close()

    # ── links and pages ─────────────────────────────────────────────────────────────────────────────────────

    async def new_code(self) -> str:
        """A code that lets one page in, once. Raises StorageUnavailable."""
        return await self.access.new_code()

    async def link(self) -> str:
        """An address that opens the shell once. Raises StorageUnavailable."""
        return f"{self.shell_origin}/#code={await self.new_code()}"

    async def _serve(self, receive: Receive, send: Send, browser: str) -> None:
        await send({"type": "websocket.accept"})
        await Visit(self, self._clock, receive, send, browser).run()

    async def revoke_key(self, name: str) -> None:
        """A key lets nobody in from now on, and the pages that it let in are sent away.

        Raises LoopError: not_found, storage_unavailable.
        """
        await self.access.revoke(name)
        self._revoked.add(name)
        for page in list(self.pages.values()):
            if page.key_name == name:
                page.leave("revoked", UNAUTHORIZED)

    def new_page(self, tab: str, language: str) -> Page:
        return Page(self._ids.make("hst"), tab, language)

    @property
    def full(self) -> bool:
        pages = len(self.pages) + self._arriving
        return self._stopped or self._stage is None or pages >= MAX_PAGES

    @contextmanager
    def arriving(self) -> Generator[None]:
        """A page that is being let in has a place already, also while that is stored."""
        self._arriving += 1
        try:
            yield
        finally:
            self._arriving -= 1

    def seen_before(self, page: Page) -> bool:
        """Whether this tab was here before: then it was reloaded, or its connection broke."""
        seen = page.tab in self._tabs
        self._tabs[page.tab] = None
        self._tabs.move_to_end(page.tab)
        while len(self._tabs) > KEPT_TABS:
            self._tabs.popitem(last=False)
        return seen

    def enter(self, page: Page) -> None:
        """A page that was let in is told everything."""
        self.pages[page.host_session_id] = page
        if page.key_name in self._revoked:
            # Its key went while it was on its way in.
            page.leave("revoked", UNAUTHORIZED)
        self._empty.clear()
        self._tell_connection()
        self._tell_consent()
        self._tell_workspace(page)
        self.changed()

    def leave(self, page: Page) -> None:
        """A page has gone, and its surfaces with it."""
        self.pages.pop(page.host_session_id, None)
        if not self.pages:
            self._empty.set()
        for surface in list(self.surfaces.values()):
            if surface.launch.host_session_id == page.host_session_id:
                self.end_surface(surface.launch.id, "unmounted")
        self.lease.gone(page.host_session_id)
        self.changed()

    async def note(self, page: Page, kind: IntentKind) -> None:
        """A condition of the display: noted, and nothing else comes of it."""
        front = self.workspace.instance(self.workspace.front)
        conversation_id = front.conversation_id if front is not None else GLOBAL_CONVERSATION
        try:
            await self.stage.reports.reported(page.host_session_id, kind, conversation_id)
        except Exception as error:
            _log.warning("condition_not_noted", kind=str(kind), error=repr(error))

    def note_soon(self, page: Page, kind: IntentKind) -> None:
        if not self._stopped:
            self._tasks.spawn(self.note(page, kind), name="condition")

    # ── the lease ───────────────────────────────────────────────────────────────────────────────────────────

    async def settle_lease(self) -> None:
        """Makes the database say who holds the lease. Raises StorageUnavailable."""
        async with self._settling:
            holder = self.lease.holder or self._stand_in
            if holder is not None and holder != self._committed:
                await self.stage.reports.session_opened(holder)
                self._committed = holder

    async def confirm(self, page: Page, instance_id: str, activation_id: str, generation: int) -> bool:
        """A page says that the person sees an instance now. Counts from the visible lease holder only."""
        await self.settle_lease()
        if self.lease.holder != page.host_session_id or not self.lease.is_visible(page.host_session_id):
            _log.info("confirmation_without_lease", instance_id=instance_id)
            return False
        return await self.stage.reports.foreground_confirmed(
            page.host_session_id, instance_id, activation_id, generation
        )

    async def _stand_in_confirms(self, workspace: Workspace) -> None:
        """Without a visible page, whoever started the program is the one who sees what is shown."""
        front = workspace.instance(workspace.front)
        activation = workspace.activations.get(workspace.front or "")
        if self._stand_in is None or self.lease.any_visible or front is None or activation is None:
            return
        if not front.confirmed:
            await self.stage.reports.foreground_confirmed(
                self._stand_in, front.instance_id, activation.activation_id, front.generation
            )

    # ── the truth, told ─────────────────────────────────────────────────────────────────────────────────────

    def changed(self) -> None:
        """Something that is shown may have changed."""
        self._dirty.set()

    async def _project(self) -> None:
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            try:
                await self.settle_lease()
                workspace, facts, self._notice = await self._read()
                self.workspace = workspace
                for page in self.pages.values():
                    self._tell_workspace(page)
                for surface in list(self.surfaces.values()):
                    about = facts.get(surface.context.instance_id or "")
                    if about is not None:
                        surface.show(about)
                await self._stand_in_confirms(workspace)
            except Exception as error:
                # Whatever it was, what is to be told is read anew; nothing here is remembered.
                _log.warning("projection_waits", error=repr(error))
                await self._clock.sleep(AGAIN_SECONDS)
                self._dirty.set()

    def begun_with(self, entry: StartEntry) -> None:
        """What a page began with; that it did not come up is explained to every page."""
        self._entry = entry
        self.changed()

    async def _read(self) -> tuple[Workspace, dict[str, SurfaceFacts], dict[str, Any] | None]:
        foundation = self.stage.foundation
        shown = {surface.context.instance_id or "" for surface in self.surfaces.values()}

        def job(tx: Tx) -> tuple[Workspace, dict[str, SurfaceFacts], dict[str, Any] | None]:
            found = {name: read_surface_facts(tx, name) for name in shown}
            facts = {name: about for name, about in found.items() if about is not None}
            return read_workspace(tx, foundation.runtime_id), facts, explanation(tx, self._entry)

        return await foundation.read(job)

    def _tell_workspace(self, page: Page) -> None:
        apps = self.stage.registry.apps
        lease = self.lease.holder == page.host_session_id
        view = workspace_view(self.workspace, apps, self._wait_ms, lease=lease)
        page.tell("workspace", {**view, "notice": self._notice})
        page.tell("apps", apps_view(self.workspace, apps))

    def _wait_ms(self, instance_id: str) -> int | None:
        waits = [
            surface.wait_ms or 0
            for surface in self.surfaces.values()
            if surface.context.instance_id == instance_id and surface.wait_ms is not None
        ]
        return max(waits, default=None)

    def _tell_connection(self) -> None:
        for page in self.pages.values():
            page.tell("connection", self.stage.connection.now())

    def _tell_consent(self) -> None:
        for page in self.pages.values():
            page.tell("consent", {"sheets": [sheet.to_wire() for sheet in self._sheets.values()]})

    async def _beat(self) -> None:
        while True:
            await self._clock.sleep(HEARTBEAT_MS / 1000)
            self._tell_connection()
            for page in self.pages.values():
                page.send(encode("ping", {}))

    # ── surfaces ────────────────────────────────────────────────────────────────────────────────────────────

    async def open_surface(self, page: Page, instance_id: str, theme: str | None) -> Surface:
        """A new launch of an instance's surface for a page; an earlier one of that page ends.

        Raises LoopError: not_found, app_activation_failed, limit_exceeded.
        """
        facts = await self.stage.foundation.read(lambda tx: read_surface_facts(tx, instance_id))
        if facts is None or facts.instance.ended_at is not None or facts.instance.state == "stopping":
            raise NotFound("this app does not run any more")
        app = self.stage.registry.apps.get(facts.instance.app_scope)
        if app is None:
            raise NotFound("there is no such app")
        for earlier in list(self.surfaces.values()):
            mine = earlier.launch.host_session_id == page.host_session_id
            if mine and earlier.context.instance_id == instance_id:
                self.end_surface(earlier.launch.id, "replaced")
        if len(self.launches) >= MAX_LAUNCHES:
            raise LoopError("too many surfaces are open", code=ErrorCode.LIMIT_EXCEEDED)
        launch = await self.launches.open(
            app,
            host_session_id=page.host_session_id,
            instance_id=instance_id,
            language=page.language,
            theme=theme,
            shell_origin=self.shell_origin,
        )
        if page.host_session_id not in self.pages:
            self.launches.close(launch.id)
            raise NotFound("the page has gone")
        surface = Surface(
            launch,
            _context(facts.instance),
            self.stage,
            self._tasks,
            lambda text: page.send(encode("frame", {"launch": launch.id, "text": text})),
            lambda reason: self.end_surface(launch.id, reason),
        )
        surface.show(facts)
        self.surfaces[launch.id] = surface
        return surface

    def end_surface(self, launch_id: str, reason: str) -> None:
        """A surface goes, and its address with it. Its page is told; again is no harm."""
        self.launches.close(launch_id)
        surface = self.surfaces.pop(launch_id, None)
        if surface is None:
            return
        surface.close()
        page = self.pages.get(surface.launch.host_session_id)
        if page is not None:
            page.send(encode("surface.gone", {"launch": launch_id, "reason": reason}))
        if reason in STOPPED and not self._stopped:
            self._tasks.spawn(self._note_stopped(surface, reason), name="surface stopped")

    async def _note_stopped(self, surface: Surface, reason: str) -> None:
        instance_id = surface.context.instance_id or ""
        try:
            await self.stage.reports.surface_stopped(surface.launch.host_session_id, instance_id, reason)
        except Exception as error:
            _log.warning("stopped_surface_not_noted", reason=reason, error=repr(error))

    def surface_of(self, page: Page, launch_id: str) -> Surface | None:
        """The page's own surface; another page's is none of its business."""
        surface = self.surfaces.get(launch_id)
        if surface is None or surface.launch.host_session_id != page.host_session_id:
            return None
        return surface

    def consent_given(self, call_ref: str) -> None:
        """A sheet has been answered; it is not shown any more."""
        if self._sheets.pop(call_ref, None) is not None:
            self._tell_consent()


def _context(instance: Instance) -> SessionContext:
    return SessionContext(
        app_scope=instance.app_scope,
        app_session_id=instance.app_session_id,
        conversation_id=instance.conversation_id,
        app_version=instance.app_version,
        instance_id=instance.instance_id,
    )
