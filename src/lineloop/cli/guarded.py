"""HTTP connections within caps: how many, how large a head, how long it may take to come.

Decides only what a connection may take up before its request is known; what a request may do is decided by
whoever answers it.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from lineloop.kit.records import record


@record
class Caps:
    """`connections` at once; a request's head has at most `head_bytes` and `head_seconds`; a WebSocket
    message at most `frame_bytes`.
    """

    connections: int
    head_bytes: int
    head_seconds: float
    frame_bytes: int


_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_TOO_MANY = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_BASE: Any = AutoHTTPProtocol


def guarded(caps: Caps) -> type[asyncio.Protocol]:
    """uvicorn's protocol for HTTP, within these caps."""

    class Guarded(_BASE):
        """One connection. `_head` counts the bytes of a head that has not come whole; None = it has."""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._head: int | None = 0
            self._timer = self.loop.call_later(caps.head_seconds, self._end, _TOO_SLOW)
            if len(self.connections) > caps.connections:
                self._end(_TOO_MANY)

        def connection_lost(self, exc: Exception | None) -> None:
            self._timer.cancel()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self.transport.is_closing():
                return
            before = self.cycle
            if self._head is None:
                # What comes after a whole request is its body, or the head of the next one.
                self._head = 0
            super().data_received(data)
            if self.transport.is_closing() or self.transport.get_protocol() is not self:
                self._timer.cancel()
            elif self.cycle is not before:
                self._head = None
                self._timer.cancel()
            else:
                self._head += len(data)
                if self._head > caps.head_bytes:
                    self._end(_TOO_LARGE)

        def _end(self, answer: bytes) -> None:
            if not self.transport.is_closing():
                self.transport.write(answer)
                self.transport.close()

    return Guarded
