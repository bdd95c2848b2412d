"""The WebSocket end of a link: text frames to a session and back. What they mean is decided in `link`.

Where the server that carries the application offers a `Wire`, frames take the short way past its queues; any
other server carries them the way ASGI has it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from lineloop.kit.clock import with_timeout
from lineloop.kit.tasks import Tasks
from lineloop.protocol.errors import ConnectionLost, LoopError, Unauthorized
from lineloop.protocol.link_requests import LinkHello
from lineloop.protocol.requests import parse_body
from lineloop.protocol.versions import SPOKEN
from lineloop.server.http.link import LinkSession, error_frame
from lineloop.server.http.routing import Routes
from lineloop.server.http.services import Services

HELLO_SECONDS = 10.0
REFUSED = 4400
ENDED = 1001
CLOSE_SECONDS = 1.0
WIRE = "lineloop.wire"
"""The name of a connection's `Wire` among the extensions of its ASGI scope."""


class Wire(Protocol):
    """A connection that can hand over whole messages as they come, and send texts at once."""

    def take_messages(self, taker: Callable[[str | bytes], None]) -> None:
        """From now on messages go to `taker`, except while older ones wait to be received."""
        ...

    async def send_text(self, text: str) -> None:
        """Waits while the peer takes nothing. Raises WebSocketDisconnect."""
        ...

    def pause(self) -> None:
        """Read nothing more for now."""
        ...

    def resume(self) -> None: ...


class _Ear:
    """Hands messages to a session. While the session makes wait, nothing more is read."""

    def __init__(self, wire: Wire, session: LinkSession, tasks: Tasks) -> None:
        self._wire = wire
        self._session = session
        self._tasks = tasks
        self._waiting: deque[str | bytes] = deque()
        self._busy = False
        self._free = asyncio.Event()
        self._free.set()

    async def free(self) -> None:
        """Returns when the session takes messages. Who receives from a queue waits for it before the next
        one: receiving has the connection read on.
        """
        await self._free.wait()

    def take(self, message: str | bytes) -> None:
        if self._busy:
            self._waiting.append(message)
            return
        try:
            rest = self._session.take(message)
        except ConnectionLost:
            return  # The session has ended, and its socket with it.
        if rest is not None:
            self._busy = True
            self._free.clear()
            self._wire.pause()
            self._tasks.spawn(self._catch_up(rest), name="catch up")

    async def _catch_up(self, rest: Coroutine[Any, Any, None]) -> None:
        try:
            await rest
            while self._waiting:
                await self._session.send(self._waiting.popleft())
            self._busy = False
            self._wire.resume()
        except ConnectionLost:
            return
        finally:
            self._free.set()


def link_routes(services: Services) -> Routes:
    router = Routes()

    @router.websocket("/v1/link")
    async def link(socket: WebSocket) -> None:
        await socket.accept()
        try:
            session = await _welcomed(services, socket)
        except LoopError as error:
            socket.scope.setdefault("state", {}).setdefault("route", "link")
            services.refusals.of_request(socket.scope, error)
            await _refuse(socket, error)
            return
        except WebSocketDisconnect:
            return
        services.metrics.links.inc()
        try:
            await _serve(socket, session)
        finally:
            services.metrics.links.dec()
            session.end()
            await _close(socket, ENDED)

    return router


async def _welcomed(services: Services, socket: WebSocket) -> LinkSession:
    """The session that the first frame asks for. Raises LoopError, WebSocketDisconnect."""
    try:
        raw = await with_timeout(services.clock, HELLO_SECONDS, _text(socket))
    except TimeoutError:
        raise Unauthorized("no hello came in time") from None
    hello = parse_body(LinkHello, raw).hello
    agreed = SPOKEN.agree(hello.versions)
    grant = await services.identity.of_token(hello.token)
    session = await services.links.open(grant, protocol=agreed)
    try:
        services.identity.require_valid(grant)
    except LoopError:
        session.end()
        raise
    return session


async def _serve(socket: WebSocket, session: LinkSession) -> None:
    """Both directions until one of them ends."""
    wire: Wire | None = socket.scope.get("extensions", {}).get(WIRE)
    async with Tasks("link") as tasks:
        ear = None
        if wire is not None:
            ear = _Ear(wire, session, tasks)
            wire.take_messages(ear.take)
        ways = (
            tasks.spawn(_read(socket, session, ear), name="read"),
            tasks.spawn(_write(wire.send_text if wire else socket.send_text, session), name="write"),
        )
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)


async def _read(socket: WebSocket, session: LinkSession, ear: _Ear | None) -> None:
    try:
        while True:
            message = await _text(socket)
            if ear is not None:
                ear.take(message)
                await ear.free()
            else:
                await session.send(message)
    except (WebSocketDisconnect, ConnectionLost):
        return


async def _write(send: Callable[[str], Coroutine[Any, Any, None]], session: LinkSession) -> None:
    """Until the session ends or the connection does, which is not kept for a peer that takes nothing."""
    try:
        while True:
            frame = await session.next_frame()
            await send(frame.text())
    except (WebSocketDisconnect, LoopError, OSError):
        return


async def _text(socket: WebSocket) -> str | bytes:
    message = await socket.receive()
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code", 1005))
    text = message.get("text")
    return text if text is not None else message.get("bytes", b"")


async def _refuse(socket: WebSocket, error: LoopError) -> None:
    try:
        await socket.send_text(error_frame(error))
    except (WebSocketDisconnect, OSError):
        return
    await _close(socket, REFUSED)


async def _close(socket: WebSocket, code: int) -> None:
    if socket.application_state is not WebSocketState.DISCONNECTED:
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await socket.close(code)
        except (WebSocketDisconnect, RuntimeError, OSError, TimeoutError):
            return
