"""One surface in a real browser, served by the content listener's own application; only the page around it is
the test's. For what a surface may do and shows by itself, without a Runtime behind it.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread
from typing import Any

import uvicorn
from playwright.sync_api import BrowserContext, Frame, Page

from lineloop.device.app_files import read_app
from lineloop.device.containers.port import InstalledApp
from lineloop.device.host.web import content as content_module
from lineloop.device.host.web.content import ContentApp
from lineloop.device.host.web.launches import Launches
from lineloop.kit.clock import SystemClock
from lineloop.kit.ids import Ids

BOOT = Path(str(content_module.__file__)).with_name("boot.js").read_bytes()


class Served:
    """An ASGI application on a free loopback port, in its own thread."""

    def __init__(self, make: Callable[[int], Any]) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.app = make(self.port)
        self._server = uvicorn.Server(
            uvicorn.Config(self.app, log_level="error", lifespan="off", timeout_graceful_shutdown=1)
        )
        self._thread = Thread(target=self._server.run, args=([self._socket],), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(10)
        self._socket.close()


class Around:
    """The page around the surface: it frames one launch and runs `script`."""

    def __init__(self, script: str) -> None:
        self.frame_url = ""
        self._script = script

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        style = "html,body{margin:0;height:100%}iframe{border:0;width:100%;height:100%;display:block}"
        page = (
            f"<!doctype html><title>shell</title><style>{style}</style><script>{self._script}</script>"
            f'<iframe sandbox="allow-scripts" referrerpolicy="no-referrer" src="{self.frame_url}"></iframe>'
        )
        headers = [
            (b"content-type", b"text/html"),
            (b"content-security-policy", f"frame-src {self.frame_url}".encode()),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": page.encode()})


class Stand:
    """Opens surfaces of the app in `directory`. `close` ends what serves them."""

    def __init__(self, directory: Path, *, script: str, boot: bytes = BOOT) -> None:
        folder = read_app(directory)
        manifest, digest = folder.candidate.manifest, folder.candidate.digest
        self._app = InstalledApp(
            manifest.app_scope, manifest.version, "installed", True, manifest, (), digest, directory
        )
        self._launches = Launches(Ids(SystemClock()), boot)
        self._around = Around(script)
        self._page = Served(lambda _: self._around)
        self._origin = f"http://127.0.0.1:{self._page.port}"
        self._content = Served(lambda port: ContentApp(self._launches, port=port, shell_origin=self._origin))

    def open(
        self, context: BrowserContext, *, language: str = "en", theme: str | None = None
    ) -> tuple[Page, Frame]:
        """A new launch: the page around it and its frame, as soon as the page has loaded."""
        opening = self._launches.open(
            self._app,
            host_session_id="hs_1",
            instance_id="ins_1",
            language=language,
            theme=theme,
            shell_origin=self._origin,
        )
        # In a thread of its own: Playwright's loop stands in this one.
        with ThreadPoolExecutor(1) as thread:
            launch = thread.submit(asyncio.run, opening).result()
        self._around.frame_url = f"{self._content.app.origin}{launch.path}"
        page = context.new_page()
        page.goto(self._origin)
        (frame,) = [one for one in page.frames if one.url == self._around.frame_url]
        return page, frame

    def close(self) -> None:
        self._page.close()
        self._content.close()
