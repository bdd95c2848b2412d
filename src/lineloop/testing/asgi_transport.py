"""An ASGI application behind an httpx client, streaming: httpx's own waits for the whole body."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx

from lineloop.client.in_process import AsgiApp, Exchange, http_scope
from lineloop.kit.tasks import Tasks
from lineloop.protocol.errors import ConnectionLost


class AsgiTransport(httpx.AsyncBaseTransport):
    """Calls an ASGI application for httpx, body parts streaming as the application sends them."""

    def __init__(self, asgi: AsgiApp) -> None:
        self._asgi = asgi
        self._tasks = Tasks("test_calls")

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        headers = [(name.lower(), value) for name, value in request.headers.raw]
        path = url.raw_path.split(b"?")[0].decode()
        scope = http_scope(request.method, path, url.query, headers, url.host, url.port or 80)
        exchange = Exchange(scope, await request.aread())
        self._tasks.spawn(exchange.run(self._asgi), name=url.path)
        try:
            status, answered = await exchange.started
        except ConnectionLost as error:
            raise httpx.RemoteProtocolError(error.message) from error
        return httpx.Response(status, headers=answered, stream=_Body(exchange))

    async def aclose(self) -> None:
        await self._tasks.close()


class _Body(httpx.AsyncByteStream):
    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for part in self._exchange.parts():
                yield part
        except ConnectionLost as error:
            raise httpx.ReadError(error.message) from error

    async def aclose(self) -> None:
        self._exchange.leave()
