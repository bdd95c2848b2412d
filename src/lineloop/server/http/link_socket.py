"""The WebSocket end of a link: text frames to a session and back. What they mean is decided in `link`."""

from __future__ import annotations

import asyncio

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
    async with Tasks("link") as tasks:
        ways = (
            tasks.spawn(_read(socket, session), name="read"),
            tasks.spawn(_write(socket, session), name="write"),
        )
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)


async def _read(socket: WebSocket, session: LinkSession) -> None:
    try:
        while True:
            await session.send(await _text(socket))
    except (WebSocketDisconnect, ConnectionLost):
        return


async def _write(socket: WebSocket, session: LinkSession) -> None:
    """Until the session ends or the connection does, which is not kept for a peer that takes nothing."""
    try:
        while True:
            frame = await session.next_frame()
            await socket.send_text(frame.text())
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
