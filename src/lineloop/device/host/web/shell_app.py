"""The shell listener: the built files of the shell, and the WebSocket of its pages.

Decides what a browser may do with the shell (headers), and that only the shell's own pages may connect: Host
and Origin are this listener's, both exactly. Who a page belongs to is decided by the host, by its hello.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from lineloop.device.host.web.answers import (
    LOOPBACK,
    NOT_HERE,
    Plain,
    Receive,
    Scope,
    Send,
    answer,
    header,
    refusal,
    said,
)
from lineloop.device.host.web.browsers import browser_named_in
from lineloop.device.host.web.downloads import PREFIX, Downloads
from lineloop.device.host.web.launches import ServedFile, served

SOCKET = "/shell"
INDEX = "index.html"
STATIC = Path(__file__).parent / "static"
_HASHED = "assets/"


class ShellMissing(Exception):
    """The shell has not been built, so there is nothing to serve."""


class ServePage(Protocol):
    """Talks to one accepted page until it is gone; `browser` is what its browser says of itself."""

    async def __call__(self, receive: Receive, send: Send, browser: str) -> None: ...


def load_static(folder: Path = STATIC) -> dict[str, ServedFile]:
    """Every built file by its path. Raises ShellMissing."""
    if not (folder / INDEX).is_file():
        raise ShellMissing(str(folder))
    files: dict[str, ServedFile] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            name = path.relative_to(folder).as_posix()
            files[name] = served(name, path.read_bytes())
    files[INDEX] = ServedFile(files[INDEX].data, "text/html; charset=utf-8")
    return files


def shell_security_policy(shell_host: str, content_origin: str) -> str:
    """What the shell may load: its own files, its socket, and surfaces in frames."""
    return "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self' data: blob:",
            "font-src 'self'",
            f"connect-src 'self' ws://{shell_host}",
            "worker-src 'self'",
            "manifest-src 'self'",
            f"frame-src {content_origin}/app/",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types lineloop-markdown lineloop-worker",
        )
    )


class ShellApp:
    """ASGI. `pages` talks to an accepted page."""

    def __init__(
        self,
        files: dict[str, ServedFile],
        pages: ServePage,
        downloads: Downloads,
        *,
        port: int,
        content_origin: str,
    ) -> None:
        self._files = files
        self._pages = pages
        self._downloads = downloads
        self._host = f"{LOOPBACK}:{port}"
        self.origin = f"http://{self._host}"
        policy = shell_security_policy(self._host, content_origin)
        self._headers = [
            (b"content-security-policy", policy.encode()),
            (b"x-frame-options", b"DENY"),
            (b"x-content-type-options", b"nosniff"),
            (b"referrer-policy", b"no-referrer"),
            (b"cross-origin-opener-policy", b"same-origin"),
            (b"cross-origin-resource-policy", b"same-origin"),
            (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._socket(scope, receive, send)
        elif scope["type"] == "http":
            refused = refusal(scope, self._host)
            if refused is None and scope["raw_path"].startswith(PREFIX.encode()):
                await self._downloads.serve(scope, send, self._headers)
                return
            await answer(scope, send, refused or self._find(scope), self._headers)

    def _find(self, scope: Scope) -> Plain:
        raw: bytes = scope["raw_path"]
        name = raw.decode("latin-1").removeprefix("/") or INDEX
        found = self._files.get(name)
        if found is None:
            return said(NOT_HERE, "nothing here")
        kept = b"max-age=31536000, immutable" if name.startswith(_HASHED) else b"no-cache"
        return Plain(200, found.data, found.media_type, ((b"cache-control", kept),))

    async def _socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        status = self._refused(scope)
        if status is None:
            agent = header(scope, b"user-agent") or ""
            await self._pages(receive, send, browser_named_in(agent))
            return
        if "websocket.http.response" in scope.get("extensions", {}):
            await send({"type": "websocket.http.response.start", "status": status, "headers": []})
            await send({"type": "websocket.http.response.body", "body": b""})
        else:
            await send({"type": "websocket.close", "code": 1008})

    def _refused(self, scope: Scope) -> int | None:
        """The status with which an upgrade is refused, None when it is not."""
        if header(scope, b"host") != self._host:
            return 421
        if header(scope, b"origin") != self.origin:
            return 403
        return None if scope["raw_path"] == SOCKET.encode() else NOT_HERE
