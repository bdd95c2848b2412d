"""The transport to a server in the same process: its ASGI application and its link sessions, handed in.

Decides how an ASGI application is called with streaming bodies. Imports no server: whoever composes the
process passes both callables (spec/protocol.md §8).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any, Protocol

import httpx

from lineloop.client.http import HttpTransport
from lineloop.client.transport import LinkConnection
from lineloop.kit.tasks import Tasks
from lineloop.protocol.errors import ConnectionLost, LoopError

AsgiMessage = MutableMapping[str, Any]
AsgiApp = Callable[
    [AsgiMessage, Callable[[], Awaitable[AsgiMessage]], Callable[[AsgiMessage], Awaitable[None]]],
    Awaitable[None],
]

# How many body parts may wait for a reader: the application is held back like behind a slow socket.
BODY_PARTS = 16


class ServerSession(Protocol):
    """What a server offers as one end of a link; its first frame is the server's hello."""

    async def send(self, frame: dict[str, Any]) -> None: ...
    async def receive(self) -> dict[str, Any]: ...
    async def close(self) -> None: ...


class InProcessTransport(HttpTransport):
    """`asgi` answers calls and streams; `open_link(token)` gives a link session. No sockets."""

    def __init__(
        self,
        asgi: AsgiApp,
        open_link: Callable[[str], Awaitable[ServerSession]],
        token: str,
        *,
        host: str = "127.0.0.1",
    ) -> None:
        self._application = AsgiTransport(asgi)
        self._open_session = open_link
        self._link_token = token
        super().__init__(f"http://{host}", token, through=self._application)

    async def open_link(self) -> LinkConnection:
        return InProcessLink(await self._open_session(self._link_token))

    async def close(self) -> None:
        await super().close()
        await self._application.aclose()


class InProcessLink:
    """A server's link session behind the client's port: an ended session is a lost connection."""

    def __init__(self, session: ServerSession) -> None:
        self._session = session
        self._ended = asyncio.Event()

    async def send(self, frame: dict[str, Any]) -> None:
        if self._ended.is_set():
            raise ConnectionLost("the link is closed")
        await self._guarded(self._session.send(frame))

    async def receive(self) -> dict[str, Any]:
        if self._ended.is_set():
            raise ConnectionLost("the link is closed")
        return await self._guarded(self._session.receive())

    async def close(self) -> None:
        if not self._ended.is_set():
            self._ended.set()
            await self._session.close()

    async def _guarded(self, step: Awaitable[Any]) -> Any:
        try:
            return await step
        except LoopError:
            raise
        except Exception as error:
            raise ConnectionLost(f"the link session ended: {error}") from error


class AsgiTransport(httpx.AsyncBaseTransport):
    """Calls an ASGI application for httpx, body parts streaming as the application sends them."""

    def __init__(self, asgi: AsgiApp) -> None:
        self._asgi = asgi
        self._tasks = Tasks("in_process_calls")

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        exchange = _Exchange(request, await request.aread())
        exchange.task = self._tasks.spawn(exchange.run(self._asgi), name=request.url.path)
        status, headers = await exchange.started
        return httpx.Response(status, headers=headers, stream=exchange)

    async def aclose(self) -> None:
        # Called once per pool; the applications' open streams end with the transport that owns both pools.
        await self._tasks.close()


class _Exchange(httpx.AsyncByteStream):
    """One request and its answer."""

    def __init__(self, request: httpx.Request, body: bytes) -> None:
        self._request = request
        self._body: bytes | None = body
        self._parts: asyncio.Queue[bytes | None] = asyncio.Queue(BODY_PARTS)
        self._gone = asyncio.Event()
        self._failure: BaseException | None = None
        self.started: asyncio.Future[tuple[int, list[tuple[bytes, bytes]]]] = (
            asyncio.get_running_loop().create_future()
        )
        self.task: asyncio.Task[Any] | None = None

    async def run(self, asgi: AsgiApp) -> None:
        url = self._request.url
        scope: AsgiMessage = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": self._request.method,
            "headers": [(name.lower(), value) for name, value in self._request.headers.raw],
            "scheme": url.scheme,
            "path": url.path,
            "raw_path": url.raw_path.split(b"?")[0],
            "query_string": url.query,
            "server": (url.host, url.port or 80),
            "client": ("127.0.0.1", 0),
            "root_path": "",
        }
        try:
            await asgi(scope, self._receive, self._send)
        except asyncio.CancelledError as error:  # the transport closes: whoever reads must not wait for ever
            self._failure = error
            self._drop_parts()
            raise
        except Exception as error:
            self._failure = error
        finally:
            if not self.started.done():
                failed = httpx.RemoteProtocolError(f"the application gave no answer: {self._failure!r}")
                self.started.set_exception(failed)
        if not self._gone.is_set():
            await self._parts.put(None)

    def _drop_parts(self) -> None:
        while not self._parts.empty():
            self._parts.get_nowait()
        self._parts.put_nowait(None)

    async def _receive(self) -> AsgiMessage:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: AsgiMessage) -> None:
        if message["type"] == "http.response.start":
            if not self.started.done():
                self.started.set_result((message["status"], list(message.get("headers", ()))))
        elif message["type"] == "http.response.body":
            if self._gone.is_set():
                raise OSError("the reader has gone")
            if body := message.get("body", b""):
                await self._parts.put(body)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (part := await self._parts.get()) is not None:
            yield part
        if self._failure is not None:
            raise httpx.ReadError(f"the application failed: {self._failure!r}") from self._failure

    async def aclose(self) -> None:
        self._gone.set()
        self._drop_parts()  # an application that waits for room goes on and sees that the reader has gone
