"""The content listener: the files of surfaces, each launch under its own address, and nothing else.

Decides what a browser may do with them (headers), that a launch's HTML is served once and only into a frame,
and that only exact names of the launch's files are found. No API, no cookies, no redirects, no file system
(design: apps 4.4).
"""

from __future__ import annotations

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
from lineloop.device.host.web.launches import BOOT, Launch, Launches

PREFIX = "/app/"
MAX_PATH_BYTES = 512

_DENIED = (
    "accelerometer", "ambient-light-sensor", "attribution-reporting", "autoplay", "battery", "bluetooth",
    "browsing-topics", "camera", "clipboard-read", "clipboard-write", "compute-pressure",
    "cross-origin-isolated", "display-capture", "encrypted-media", "fullscreen", "gamepad", "geolocation",
    "gyroscope", "hid", "identity-credentials-get", "idle-detection", "keyboard-map", "local-fonts",
    "magnetometer", "microphone", "midi", "otp-credentials", "payment", "picture-in-picture",
    "publickey-credentials-create", "publickey-credentials-get", "screen-wake-lock", "serial",
    "speaker-selection", "storage-access", "usb", "web-share", "window-management", "xr-spatial-tracking",
)  # fmt: skip
# Where a file would become a document: an SVG with scripts, say, which would run without the boot shim.
_DOCUMENTS = frozenset({"document", "iframe", "frame", "object", "embed", "fencedframe"})
_PERMISSIONS = ", ".join(f"{name}=()" for name in _DENIED).encode()


def content_security_policy(origin: str, launch_path: str, shell_origin: str) -> str:
    """What a surface may load: its own files by their path, and nothing from anywhere else."""
    own = f"{origin}{launch_path}"
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {own}",
            f"style-src {own}",
            f"img-src {own} data: blob:",
            f"font-src {own}",
            "connect-src 'none'",
            "media-src 'none'",
            "object-src 'none'",
            "child-src 'none'",
            "frame-src 'none'",
            "worker-src 'none'",
            "manifest-src 'none'",
            "form-action 'none'",
            "base-uri 'none'",
            f"frame-ancestors {shell_origin}",
            "sandbox allow-scripts",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
            "webrtc 'block'",
        )
    )


class ContentApp:
    """ASGI. `port` is this listener's, `shell_origin` the only page that may frame a surface."""

    def __init__(self, launches: Launches, *, port: int, shell_origin: str) -> None:
        self._launches = launches
        self._host = f"{LOOPBACK}:{port}"
        self.origin = f"http://{self._host}"
        self._shell_origin = shell_origin

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
        elif scope["type"] == "http":
            plain, path = self._find(scope)
            await answer(scope, send, plain, self._headers(path))

    def _find(self, scope: Scope) -> tuple[Plain, str]:
        """The answer, and the path below which its page may load things."""
        nothing = (said(NOT_HERE, "nothing here"), PREFIX)
        refused = refusal(scope, self._host)
        if refused is not None:
            return refused, PREFIX
        raw: bytes = scope["raw_path"]
        if len(raw) > MAX_PATH_BYTES or not raw.isascii():
            return nothing
        # The path as it was sent: what is encoded or walks upwards is the name of no file.
        path = raw.decode("ascii")
        launch_id, slash, name = path.removeprefix(PREFIX).partition("/")
        launch = self._launches.find(launch_id) if path.startswith(PREFIX) and slash else None
        if launch is None:
            return nothing
        if not name:
            return _page(scope, launch), launch.path
        found = self._launches.boot if name == BOOT else launch.surface.files.get(name)
        if found is None:
            return nothing[0], launch.path
        if header(scope, b"sec-fetch-dest") in _DOCUMENTS:
            return said(403, "this file is a part of a page, not a page"), launch.path
        return Plain(200, found.data, found.media_type), launch.path

    def _headers(self, path: str) -> list[tuple[bytes, bytes]]:
        policy = content_security_policy(self.origin, path, self._shell_origin)
        return [
            (b"content-security-policy", policy.encode()),
            (b"connection-allowlist", f'("{self.origin}{path}*")'.encode()),
            (b"permissions-policy", _PERMISSIONS),
            (b"x-content-type-options", b"nosniff"),
            (b"cache-control", b"no-store"),
            (b"referrer-policy", b"no-referrer"),
            (b"cross-origin-resource-policy", b"cross-origin"),
            (b"access-control-allow-origin", b"*"),
            (b"origin-agent-cluster", b"?1"),
            (b"x-dns-prefetch-control", b"off"),
        ]


def _page(scope: Scope, launch: Launch) -> Plain:
    """The launch's HTML: once, into a frame. Whoever opens the address otherwise has not used it up."""
    if header(scope, b"sec-fetch-dest") != "iframe":
        return said(403, "this page is shown by the Lineloop shell only")
    if launch.loaded:
        return said(410, "this launch has been loaded; the shell asks for another")
    if scope["method"] == "GET":
        launch.loaded = True
    return Plain(200, launch.html(), "text/html; charset=utf-8")
