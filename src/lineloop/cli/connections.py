"""Connections that do not wait for ever: uvicorn's protocols, with a bound on every silence.

Decides when a connection has to go: a request head that does not come, the rest of a request that was
answered already, a peer that takes nothing of what is sent to it, a half-sent request at a stop. Leaves the
pace of bodies to the server, which answers with a coded problem. One clock looks at all connections: a timer
of its own for each wait would cost more than the wait is worth.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Protocol, cast, runtime_checkable

import structlog
from starlette.websockets import WebSocketDisconnect
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

from lineloop.kit import json
from lineloop.kit.clock import SystemClock
from lineloop.kit.records import record
from lineloop.kit.text_frames import FrameCutter, Other, text_frame
from lineloop.protocol.errors import ErrorCode, LoopError
from lineloop.server.http.link_socket import WIRE

_JOINED_BYTES = 64 * 1024

_log = structlog.get_logger(__name__)


@record
class Patience:
    """Seconds: for a request's head, for what is left of an answered request, for a peer to take anything."""

    head_seconds: float = 30.0
    rest_seconds: float = 30.0
    stalled_seconds: float = 30.0
    look_seconds: float = 1.0


@runtime_checkable
class Bounded(Protocol):
    """A connection that can be looked at."""

    def look(self, now: float, patience: Patience) -> None: ...


async def watch(connections: Iterable[object], patience: Patience) -> None:
    """Looks at all connections now and then, for as long as it runs."""
    loop, clock = asyncio.get_running_loop(), SystemClock()
    while True:
        await clock.sleep(patience.look_seconds)
        for connection in list(connections):
            if isinstance(connection, Bounded):
                connection.look(loop.time(), patience)


class _Outflow:
    """Whether the peer takes what is sent to it. Only what was paused for is looked at."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._least = 0

    def flows(self) -> None:
        self._since = None

    def is_stalled(self, waiting: int, now: float, seconds: float) -> bool:
        """`waiting` is the number of bytes that are not taken yet; less than ever before is progress."""
        if self._since is None or waiting < self._least:
            self._since, self._least = now, waiting
        return now - self._since > seconds


class HeadWithBody:
    """A transport on which the head of an answer goes out with the first bytes of its body, or at the end of
    this turn of the loop: one packet to send, and for the peer one to wake up for.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self.real = transport
        self._loop = loop
        self._head = b""

    def write(self, data: bytes) -> None:
        if self._head:
            head, self._head = self._head, b""
            if len(data) <= _JOINED_BYTES:
                self.real.write(head + data)
                return
            self.real.write(head)
        elif data.startswith(b"HTTP/"):
            self._head = data
            self._loop.call_soon(self.flush)
            return
        self.real.write(data)

    def flush(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self.real.write(head)

    def close(self) -> None:
        self.flush()
        self.real.close()

    def abort(self) -> None:
        self._head = b""
        self.real.abort()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


class HttpConnection(HttpToolsProtocol):
    """An HTTP connection. `look` is called by `watch`."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.transport = cast("asyncio.Transport", HeadWithBody(transport, self.loop))
        self._outflow = _Outflow()
        self._head_since: float | None = self.loop.time()
        self._rest_since: float | None = None

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_since = self.loop.time()

    def on_headers_complete(self) -> None:
        self._head_since = None
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._rest_since = None
        super().on_message_complete()

    def on_response_complete(self) -> None:
        if self.cycle.response_complete and self.cycle.more_body:
            self._rest_since = self.loop.time()
        super().on_response_complete()

    def handle_websocket_upgrade(self) -> None:
        """The connection goes on as another protocol, which has its own way of writing."""
        if isinstance(self.transport, HeadWithBody):
            self.transport.flush()
            self.transport = self.transport.real
        super().handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP is refused in the words of every other refusal. Called by uvicorn."""
        self.transport.write(refused("400 Bad Request", LoopError(msg, code=ErrorCode.MALFORMED_REQUEST)))
        self.transport.close()

    def resume_writing(self) -> None:
        self._outflow.flows()
        super().resume_writing()

    def look(self, now: float, patience: Patience) -> None:
        if self.flow.write_paused or self.transport.is_closing():
            waiting = self.transport.get_write_buffer_size()
            if self._outflow.is_stalled(waiting, now, patience.stalled_seconds):
                _log.info("peer_stalled", waiting_bytes=waiting)
                self.transport.abort()
        elif self._head_since is not None and now - self._head_since > patience.head_seconds:
            self._head_since = None
            self.transport.write(_too_late())
            self.transport.close()
        elif self._rest_since is not None and now - self._rest_since > patience.rest_seconds:
            self.transport.close()

    def shutdown(self) -> None:
        """At a stop nobody waits for the rest of a request, nor for who takes no answer."""
        if self.flow.write_paused:
            self.transport.abort()
            return
        cycle = self.cycle
        if cycle is not None and cycle.more_body and not cycle.response_started:  # pyright: ignore[reportUnnecessaryComparison]
            cycle.disconnected = True
            cycle.message_event.set()
            self.transport.close()
            return
        super().shutdown()


class LinkConnection(WebSocketsSansIOProtocol):
    """A WebSocket connection. `look` is called by `watch`.

    Whole messages go past the application's queue to who takes them (see `link_socket.Wire`), and past the
    library on both ways: it keeps the handshake, pings, the end, and whatever is no whole message.
    """

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._outflow = _Outflow()
        self._taker: Callable[[str | bytes], None] | None = None
        self._cutter = FrameCutter(masked=True, max_bytes=self.config.ws_max_size)

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if hasattr(self, "scope"):
            self.scope["extensions"][WIRE] = self  # pyright: ignore[reportTypedDictNotRequiredAccess, reportArgumentType]

    def data_received(self, data: bytes) -> None:
        if not self.handshake_complete:
            if self.handshake_initiated:
                # Frames before the answer to the request: where they end is known to the library only.
                self._cutter.give_up()
            super().data_received(data)
            return
        for found in self._cutter.cut(data):
            if isinstance(found, Other):
                super().data_received(found.data)
            else:
                self._message(found)

    def _message(self, message: str | bytes) -> None:
        if self.close_sent:
            return
        if self._taker is not None and self.queue.empty():
            self._taker(message)
            return
        kind = "text" if isinstance(message, str) else "bytes"
        self.queue.put_nowait({"type": "websocket.receive", kind: message})  # pyright: ignore[reportArgumentType]
        if not self.read_paused:
            self.read_paused = True
            self.transport.pause_reading()

    def take_messages(self, taker: Callable[[str | bytes], None]) -> None:
        """See `link_socket.Wire`. What waits in the queue is still received from there."""
        self._taker = taker

    async def send_text(self, text: str) -> None:
        """See `link_socket.Wire`."""
        if not self.writable.is_set():
            await self.writable.wait()
        if self.disconnected or self.close_sent or self.transport.is_closing():
            raise WebSocketDisconnect
        self.transport.write(text_frame(text))

    def pause(self) -> None:
        """See `link_socket.Wire`."""
        if not self.transport.is_closing():
            self.transport.pause_reading()

    def resume(self) -> None:
        """See `link_socket.Wire`."""
        if not self.transport.is_closing() and not self.read_paused:
            self.transport.resume_reading()

    def resume_writing(self) -> None:
        self._outflow.flows()
        super().resume_writing()

    def look(self, now: float, patience: Patience) -> None:
        if self.writable.is_set() and not self.transport.is_closing():
            return
        waiting = self.transport.get_write_buffer_size()
        if self._outflow.is_stalled(waiting, now, patience.stalled_seconds):
            _log.info("peer_stalled", waiting_bytes=waiting)
            self.transport.abort()

    def shutdown(self) -> None:
        if self.writable.is_set():
            super().shutdown()
        else:
            self.transport.abort()


def _too_late() -> bytes:
    """The answer to a request whose head did not come in time."""
    error = LoopError("the request did not arrive in time", code=ErrorCode.REQUEST_TIMEOUT)
    return refused("408 Request Timeout", error)


def refused(status: str, error: LoopError) -> bytes:
    """A whole answer with the problem document of `error`, after which the connection ends.

    The document tells the status that is answered, which may say more than the code's own.
    """
    body = json.dumps({**error.to_problem(), "status": int(status[:3])}).encode()
    head = (
        f"HTTP/1.1 {status}\r\n"
        "content-type: application/problem+json\r\n"
        f"content-length: {len(body)}\r\n"
        "connection: close\r\n\r\n"
    )
    return head.encode() + body
