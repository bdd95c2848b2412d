"""A device with a web host on real sockets, and pages that a test plays over real WebSockets.

    async with shell_world(tmp_path) as world:
        page = await world.page()
        await page.until_part("workspace", lambda w: w["lease"])

Time is the test's own; sockets are not. Nothing here knows how the host works.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from socket import SO_REUSEADDR, SOL_SOCKET, socket
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from lineloop.cli.listening import LOCAL_PAGES, served
from lineloop.device.host.web.host import WebHost
from lineloop.device.host.web.launches import served as served_file
from lineloop.kit import json
from lineloop.kit.ids import Ids
from lineloop.testing.clock import FakeClock
from lineloop.testing.device_world import DeviceWorld, device_world
from lineloop.testing.shell_page import PageProof
from lineloop.testing.waiting import until

STATIC = {
    "index.html": served_file("index.html", b"<!doctype html><title>shell</title>"),
    "assets/shell.js": served_file("assets/shell.js", b"// the shell"),
}
SURFACE = {"surface/main.js": "export {};", "surface/main.css": "body{}", "surface/part.js": "export {};"}


class Refused(AssertionError):
    """An error answer; `code` is its code."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(str(error))
        self.code = error["code"]
        self.error = error


@dataclass(slots=True, eq=False)
class ShellPage:
    """One page of the shell. `parts` holds the newest of each level-triggered event, `events` all others."""

    connection: ClientConnection
    welcome: dict[str, Any] = field(default_factory=dict[str, Any])
    key: str = ""
    parts: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    events: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    answers: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    closed: int | None = None
    asked: int = 0
    reader: asyncio.Task[None] | None = None

    async def read(self) -> None:
        try:
            async for text in self.connection:
                self._take(json.loads(text))
        except ConnectionClosed:
            pass
        self.closed = self.connection.close_code

    def _take(self, frame: dict[str, Any]) -> None:
        if "reply_to" in frame:
            self.answers[frame["reply_to"]] = frame
        elif frame["type"] in ("workspace", "apps", "connection", "consent"):
            self.parts[frame["type"]] = frame["payload"]
        else:
            self.events.append(frame)

    # ── sending ─────────────────────────────────────────────────────────────────────────────────────────────

    async def send(self, text: str) -> None:
        """What is sent after the end goes nowhere."""
        with suppress(ConnectionClosed):
            await self.connection.send(text)

    async def tell(self, kind: str, /, **payload: Any) -> None:
        await self.send(json.dumps({"v": 1, "type": kind, "payload": payload}))

    async def ask(self, kind: str, /, **payload: Any) -> Any:
        """The good answer. Raises Refused."""
        self.asked += 1
        name = f"r{self.asked}"
        await self.send(json.dumps({"v": 1, "id": name, "type": kind, "payload": payload}))
        await until(lambda: name in self.answers or self.closed is not None)
        answer = self.answers.get(name, {"error": {"code": f"closed_{self.closed}"}})
        if "error" in answer:
            raise Refused(answer["error"])
        return answer["ok"]

    async def refused(self, kind: str, /, **payload: Any) -> str:
        """The code with which it is refused."""
        try:
            await self.ask(kind, **payload)
        except Refused as refused:
            return refused.code
        raise AssertionError(f"{kind} was not refused")

    async def look(self, *, visible: bool = True, focused: bool = True) -> None:
        await self.tell("page", visible=visible, focused=focused)

    # ── seeing ──────────────────────────────────────────────────────────────────────────────────────────────

    async def until_part(self, part: str, wanted: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        """The newest of a part once it is as wanted."""
        await until(lambda: part in self.parts and wanted(self.parts[part]))
        return self.parts[part]

    @property
    def workspace(self) -> dict[str, Any]:
        return self.parts["workspace"]

    async def foreground(self) -> dict[str, Any]:
        """The instance that the person should see, once there is one."""
        shown = await self.until_part("workspace", lambda w: w["foreground"])
        place = shown["foreground"]
        return shown["conversations"][place["conversation_id"]]["stack"][-1]

    async def shows(self, instance: dict[str, Any] | None = None) -> dict[str, Any]:
        """This page shows what it was told to show, and says so."""
        instance = instance or await self.foreground()
        await self.tell(
            "surface.shown",
            instance_id=instance["instance_id"],
            activation_id=instance["activation_id"],
            generation=instance["generation"],
        )
        return instance

    async def shown(self) -> dict[str, Any]:
        """The foreground instance, shown and confirmed: as a page does, it is said for every new showing."""
        said: set[tuple[str, int]] = set()

        async def confirmed() -> dict[str, Any] | None:
            top = self._top()
            if top is None or top["confirmed"]:
                return top
            showing = (top["instance_id"], top["generation"])
            if showing not in said:
                said.add(showing)
                await self.shows(top)
            return None

        return await until(confirmed)  # pyright: ignore[reportReturnType]

    def _top(self) -> dict[str, Any] | None:
        place = self.parts.get("workspace", {}).get("foreground")
        if place is None:
            return None
        return self.workspace["conversations"][place["conversation_id"]]["stack"][-1]

    async def gone(self, launch: str) -> str:
        """Why a surface has gone."""

        def told() -> str | None:
            for event in self.events:
                if event["type"] == "surface.gone" and event["payload"]["launch"] == launch:
                    return event["payload"]["reason"]
            return None

        return await until(told)  # pyright: ignore[reportReturnType]

    async def close_code(self) -> int:
        await until(lambda: self.closed is not None)
        assert self.closed is not None
        return self.closed

    async def leave(self) -> None:
        """The page's connection ends."""
        await self.connection.close()
        if self.reader is not None:
            await self.reader


@dataclass(slots=True, eq=False)
class SurfaceFrame:
    """An app's surface in a page, as its SDK: what goes in and out are bridge frames."""

    page: ShellPage
    launch: str
    nonce: str
    url: str
    asked: int = 0

    @classmethod
    async def open(cls, page: ShellPage, instance_id: str, **payload: Any) -> SurfaceFrame:
        opened = await page.ask("surface.open", instance_id=instance_id, **payload)
        return cls(page, opened["launch"], opened["nonce"], opened["url"])

    @classmethod
    async def connected(cls, page: ShellPage, instance_id: str) -> SurfaceFrame:
        surface = await cls.open(page, instance_id)
        await surface.ask("hello", sdk="test", nonce=surface.nonce)
        await surface.event("init")
        return surface

    async def send(self, text: str) -> None:
        await self.page.tell("frame", launch=self.launch, text=text)

    async def tell(self, kind: str, /, **payload: Any) -> None:
        await self.send(json.dumps({"v": 1, "type": kind, "payload": payload}))

    async def ask(self, kind: str, /, **payload: Any) -> Any:
        self.asked += 1
        name = f"q{self.asked}"
        await self.send(json.dumps({"v": 1, "id": name, "type": kind, "payload": payload}))
        answer = await until(lambda: next((f for f in self.frames if f.get("reply_to") == name), None))
        assert answer is not None
        if "error" in answer:
            raise Refused(answer["error"])
        return answer["ok"]

    async def refused(self, kind: str, /, **payload: Any) -> str:
        try:
            await self.ask(kind, **payload)
        except Refused as refused:
            return refused.code
        raise AssertionError(f"{kind} was not refused")

    @property
    def frames(self) -> list[dict[str, Any]]:
        return [
            json.loads(event["payload"]["text"])
            for event in self.page.events
            if event["type"] == "frame" and event["payload"].get("launch") == self.launch
        ]

    async def event(
        self, kind: str, wanted: Callable[[dict[str, Any]], Any] = lambda _: True
    ) -> dict[str, Any]:
        """The newest payload of an event once it is as wanted."""

        def newest() -> list[dict[str, Any]]:
            found = [frame["payload"] for frame in self.frames if frame.get("type") == kind]
            return found[-1:] if found and wanted(found[-1]) else []

        return (await until(newest))[0]


@dataclass(slots=True, eq=False)
class ShellWorld:
    """A device world whose host is a web host; `pages` are all that the test has opened."""

    device: DeviceWorld
    host: WebHost
    stack: AsyncExitStack
    stand_in: bool = False
    held: dict[int, socket] = field(default_factory=dict[int, socket])
    pages: list[ShellPage] = field(default_factory=list[ShellPage])

    @property
    def clock(self) -> FakeClock:
        return self.device.clock

    @property
    def shell_url(self) -> str:
        return self.host.shell_origin

    async def connect(self, **headers: Any) -> ShellPage:
        """A connection that has not said hello. `origin`, `host` replace the right ones."""
        address = f"ws://{self.shell_url.removeprefix('http://')}/shell"
        more = {"Host": headers["host"]} if "host" in headers else None
        connection = await connect(
            address,
            origin=headers.get("origin", self.shell_url),
            additional_headers=more,
            max_size=None,
            compression=None,
            ping_interval=None,
        )
        page = ShellPage(connection)
        page.reader = asyncio.get_running_loop().create_task(page.read())
        self.pages.append(page)
        return page

    async def page(
        self,
        *,
        key: str | None = None,
        tab: str = "tab",
        visible: bool = True,
        focused: bool = True,
        language: str = "en",
    ) -> ShellPage:
        """A page that has been let in, by a new code or by its key."""
        page = await self.connect()
        proof = PageProof(key or await self.host.new_code(), self.shell_url)
        hello = {"tab": tab, "visible": visible, "focused": focused, "language": language, "versions": [3]}
        challenge = await page.ask("hello", **proof.hello, **hello)
        page.welcome = await page.ask("prove", proof=proof.answer(challenge))
        page.key = key or proof.key
        await page.until_part("workspace", lambda _: True)
        await page.until_part("apps", lambda _: True)
        return page

    async def serve(self) -> None:
        """Serves the host's two applications on its ports."""
        for app in (self.host.content, self.host.shell):
            port = int(app.origin.rpartition(":")[2])
            listener = self.held.pop(port, None) or bound(port)
            listener.listen(64)
            await self.stack.enter_async_context(served(app, listener, LOCAL_PAGES))

    async def restart(self) -> None:
        """The device's process dies and comes back on the same ports."""
        shell_port, content_port = (
            int(origin.rpartition(":")[2]) for origin in (self.shell_url, self.host.content.origin)
        )
        for page in self.pages:
            await page.leave()
        self.pages.clear()
        await self.stack.aclose()
        self.host = _host(self.clock, shell_port, content_port, stand_in=self.stand_in)
        await self.device.restart(host=self.host)
        await self.serve()


def _host(clock: FakeClock, shell_port: int, content_port: int, *, stand_in: bool) -> WebHost:
    return WebHost(
        Ids(clock), clock, STATIC, shell_port=shell_port, content_port=content_port, stand_in=stand_in
    )


def bound(port: int = 0) -> socket:
    """A socket that has its port, so that nobody else of this machine gets it meanwhile."""
    made = socket()
    made.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
    made.bind(("127.0.0.1", port))
    return made


def free_port() -> int:
    with socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@asynccontextmanager
async def shell_world(
    folder: Path, *, stand_in: bool = False, apps: Path | None = None, **changes: Any
) -> AsyncGenerator[ShellWorld]:
    """A started device that is served. Apps that come along: `apps`, else the shipped ones with surfaces."""
    made: list[WebHost] = []
    held = {held.getsockname()[1]: held for held in (bound(), bound())}

    def make(clock: FakeClock) -> WebHost:
        shell_port, content_port = held
        made.append(_host(clock, shell_port, content_port, stand_in=stand_in))
        return made[0]

    async with (
        device_world(folder, host=make, apps=apps, **changes) as device,
        AsyncExitStack() as stack,
    ):
        world = ShellWorld(device, made[0], stack, stand_in, held)
        await world.serve()
        try:
            yield world
        finally:
            for page in world.pages:
                await page.leave()
            await world.host.stop()


def with_surface(folder: Path, scope: str = "pomodoro") -> Path:
    """A folder of apps that come along: a shipped app, with a small built surface."""
    source = Path(__file__).parents[3] / "apps" / scope
    target = folder / scope
    target.mkdir(parents=True)
    manifest = json.loads((source / "manifest.json").read_bytes())
    manifest["surface"] = {"entry": "surface/main.js"}
    (target / "manifest.json").write_text(json.dumps(manifest))
    for name, text in SURFACE.items():
        (target / name).parent.mkdir(exist_ok=True)
        (target / name).write_text(text)
    return folder
