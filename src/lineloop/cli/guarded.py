"""HTTP connections within caps, for listeners that any program on this machine can reach.

Decides how many there may be and how large the head of a request; how long anything may take is decided in
connections.py, what a request may do by whoever answers it.
"""

from __future__ import annotations

import asyncio

from lineloop.cli.connections import HttpConnection
from lineloop.kit.records import record


@record
class Caps:
    """`connections` at once; a request's head has at most `head_bytes`; a WebSocket message at most
    `frame_bytes`.
    """

    connections: int
    head_bytes: int
    frame_bytes: int


_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_TOO_MANY = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


def guarded(caps: Caps) -> type[HttpConnection]:
    """An HTTP connection within these caps."""

    class Guarded(HttpConnection):
        """`_head` counts the bytes of a head that has not come whole."""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._head = 0
            if len(self.connections) > caps.connections:
                self._end(_TOO_MANY)

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
                self._end(_TOO_LARGE)

        def _end(self, answer: bytes) -> None:
            if not self.transport.is_closing():
                self.transport.write(answer)
                self.transport.close()

    return Guarded
