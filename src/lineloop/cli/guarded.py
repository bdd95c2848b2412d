"""HTTP connections within caps, for listeners that any program on this machine can reach.

Decides how many there may be and how large the head of a request; how long anything may take is decided in
connections.py, what a request may do by whoever answers it.
"""

from __future__ import annotations

import asyncio

from lineloop.cli.connections import HttpConnection, refused
from lineloop.kit.records import record
from lineloop.protocol.errors import LimitExceeded, Overloaded


@record
class Caps:
    """`connections` at once; a request's head has at most `head_bytes`; a WebSocket message at most
    `frame_bytes`.
    """

    connections: int
    head_bytes: int
    frame_bytes: int


def guarded(caps: Caps) -> type[HttpConnection]:
    """An HTTP connection within these caps."""

    class Guarded(HttpConnection):
        """`_head` counts the bytes of a head that has not come whole."""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._head = 0
            if len(self.connections) > caps.connections:
                self._end(_too_many(caps))

        def on_headers_complete(self) -> None:
            self._head = 0
            super().on_headers_complete()

        def data_received(self, data: bytes) -> None:
            if self.transport.is_closing():
                return
            self._head += len(data)
            super().data_received(data)
            # What is left of the count came after a whole head: a body, which has its own limits.
            if self._head_since is None:
                self._head = 0
            elif self._head > caps.head_bytes:
                self._end(_too_large(caps))

        def _end(self, answer: bytes) -> None:
            if not self.transport.is_closing():
                self.transport.write(answer)
                self.transport.close()

    return Guarded


def _too_large(caps: Caps) -> bytes:
    detail = {"limit": "head_bytes", "max": caps.head_bytes}
    error = LimitExceeded("the head of the request is too large", detail=detail)
    return refused("431 Request Header Fields Too Large", error)


def _too_many(caps: Caps) -> bytes:
    detail = {"limit": "connections", "max": caps.connections}
    error = Overloaded("too many connections are open", detail=detail)
    return refused("503 Service Unavailable", error)
