"""Serving HTTP on loopback: a port, and uvicorn without its own signals and logs.

Decides ports (asked for, remembered, any free one), how much a stranger on this machine may take up of a
listener for pages, and the order of a stop: the server is drained first, then connections end.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import uvicorn

from lineloop.cli.connections import HttpConnection, LinkConnection, Patience, watch
from lineloop.cli.failures import CommandFailed, Exit
from lineloop.cli.guarded import Caps, guarded
from lineloop.cli.running import remember_port, remembered_port
from lineloop.kit.tasks import Tasks

LOOPBACK = "127.0.0.1"
BACKLOG = 2048
GRACE_SECONDS = 3
LOCAL_PAGES = Caps(connections=256, head_bytes=32 * 1024, frame_bytes=3 * 1024 * 1024)
"""For the listeners that browsers talk to."""


def bind(asked: int | None, data_dir: Path, name: str) -> socket.socket:
    """A bound loopback socket. An asked port must be free; a remembered one only matters when it is.

    A remembered one that is taken stays remembered: pages and bookmarks wait at that address, and the next
    start is there again. Raises CommandFailed (75) that names the taken port.
    """
    remembered = remembered_port(data_dir, name) if asked is None else None
    if asked is None:
        found = (remembered and _try(remembered)) or _try(0)
    else:
        found = _try(asked)
    if found is None:
        hint = "Another program listens there; choose another port, or 0 for any free one."
        raise CommandFailed(f"port {asked} is taken", Exit.TEMPORARY, hint=hint)
    if asked != 0 and remembered is None:
        remember_port(data_dir, name, port_of(found))
    return found


def _try(port: int) -> socket.socket | None:
    # With the protocol named, asyncio knows that the two pieces of an answer must not wait for each other.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((LOOPBACK, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            return None
        raise
    return listener


def port_of(listener: socket.socket) -> int:
    return int(listener.getsockname()[1])


def url_of(listener: socket.socket) -> str:
    return f"http://{LOOPBACK}:{port_of(listener)}"


class _Uvicorn(uvicorn.Server):
    """uvicorn as a part of a larger process: signals belong to the process."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


@asynccontextmanager
async def served(
    asgi: Any, listener: socket.socket, caps: Caps | None = None, *, patience: Patience | None = None
) -> AsyncGenerator[None]:
    """Answers HTTP on the socket inside the block, within `caps` if given."""
    # A link has a heartbeat of its own, and one that is heard later does not answer pings meanwhile.
    limits: dict[str, Any] = {"http": HttpConnection, "ws_ping_interval": None, "ws_ping_timeout": None}
    if caps is not None:
        limits = {
            "http": guarded(caps),
            "ws_max_size": caps.frame_bytes,
            "ws_per_message_deflate": False,
            "ws_ping_interval": 20.0,
            "ws_ping_timeout": 20.0,
        }
    config = uvicorn.Config(
        asgi,
        loop="none",
        ws=LinkConnection,
        **limits,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        date_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    server = _Uvicorn(config)
    async with Tasks("http") as tasks:
        serving = tasks.spawn(server.serve(sockets=[listener]), name="uvicorn")
        while not server.started:
            if serving.done():
                serving.result()
                raise RuntimeError("the HTTP server ended while it started")
            await asyncio.wait({serving}, timeout=0.005)
        tasks.spawn(watch(server.server_state.connections, patience or Patience()), name="connections")
        try:
            yield
        finally:
            server.should_exit = True
            await asyncio.wait({serving}, timeout=GRACE_SECONDS + 1)
