"""A transport to whatever system runs on a data directory, also after it came back on another port.

Decides only when to look again: after a broken connection, before the next call. Who calls again, and when,
is decided by whoever uses the transport, as with any other.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from lineloop.cli.running import Ready, find_running
from lineloop.client.http import HttpTransport
from lineloop.client.transport import LinkConnection, Params, Response, ServerSentEvent
from lineloop.protocol.errors import ConnectionLost

T = TypeVar("T")


class FollowingTransport:
    """Calls to the running system of `data_dir`, with the token that `token_of` knows for it.

    Raises InvalidRequest when the ready file names no http(s) URL.
    """

    def __init__(self, data_dir: Path, ready: Ready, token_of: Callable[[Ready], str | None]) -> None:
        self._data_dir = data_dir
        self._token_of = token_of
        self._at = self._place(ready)
        self._broken = False
        self._now = HttpTransport(*self._at)
        # Streams of before may still be on their way out: they end with this transport.
        self._left: list[HttpTransport] = []

    def _place(self, ready: Ready) -> tuple[str, str | None]:
        return ready.server_url or "", self._token_of(ready)

    def _transport(self) -> HttpTransport:
        if self._broken:
            ready = find_running(self._data_dir)
            if ready is not None and ready.server_url and self._place(ready) != self._at:
                self._left.append(self._now)
                self._at = self._place(ready)
                self._now = HttpTransport(*self._at)
        return self._now

    @contextmanager
    def _watched(self) -> Generator[HttpTransport]:
        transport = self._transport()
        try:
            yield transport
        except ConnectionLost:
            self._broken = True
            raise
        else:
            self._broken = self._broken and transport is not self._now

    async def request(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        params: Params | None = None,
        timeout_seconds: float = 30.0,
    ) -> Response:
        with self._watched() as transport:
            return await transport.request(
                method, path, json=json, params=params, timeout_seconds=timeout_seconds
            )

    async def upload(
        self, path: str, body: AsyncIterator[bytes], *, media_type: str, params: Params | None = None
    ) -> Response:
        with self._watched() as transport:
            return await transport.upload(path, body, media_type=media_type, params=params)

    def parts(
        self, path: str, *, params: Params | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._stream(lambda now: now.parts(path, params=params))

    def events(
        self, path: str, *, params: Params | None = None, last_event_id: str | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[ServerSentEvent]]:
        return self._stream(lambda now: now.events(path, params=params, last_event_id=last_event_id))

    def lines(
        self, path: str, *, params: Params | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[str]]:
        return self._stream(lambda now: now.lines(path, params=params))

    @asynccontextmanager
    async def _stream(
        self, opened: Callable[[HttpTransport], AbstractAsyncContextManager[AsyncIterator[T]]]
    ) -> AsyncGenerator[AsyncIterator[T]]:
        with self._watched() as transport:
            async with opened(transport) as stream:
                yield stream

    async def open_link(self) -> LinkConnection:
        with self._watched() as transport:
            return await transport.open_link()

    async def close(self) -> None:
        for transport in (*self._left, self._now):
            await transport.close()
