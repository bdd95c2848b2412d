"""The transport to a server in the same process: its ASGI application and its link sessions, handed in.

Decides how an ASGI application is called with streaming bodies. Imports no server: whoever composes the
process passes both callables (spec/protocol.md §8).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol
from urllib.parse import quote, unquote, urlencode

from lineloop.client.event_stream import EPOCH_HEADER, check_event_stream, events_of, lines_of, resume_headers
from lineloop.client.transport import (
    LinkConnection,
    Params,
    Response,
    ServerSentEvent,
    decoded_body,
    encoded_body,
    error_of_answer,
    given_params,
)
from lineloop.kit.tasks import Tasks
from lineloop.protocol.errors import ConnectionLost, LoopError

AsgiMessage = MutableMapping[str, Any]
AsgiApp = Callable[
    [AsgiMessage, Callable[[], Awaitable[AsgiMessage]], Callable[[AsgiMessage], Awaitable[None]]],
    Awaitable[None],
]
Headers = list[tuple[bytes, bytes]]

# How many body parts may wait for a reader: the application is held back like behind a slow socket.
BODY_PARTS = 16


class ServerSession(Protocol):
    """What a server offers as one end of a link; its first frame is the server's hello."""

    async def send(self, frame: str) -> None: ...
    async def receive(self) -> dict[str, Any]: ...
    async def close(self) -> None: ...


class InProcessTransport:
    """`asgi` answers calls and streams; `open_link(token)` gives a link session. No sockets.

    A call has no time-out of its own: nothing between the two can lose it.
    """

    def __init__(
        self,
        asgi: AsgiApp,
        open_link: Callable[[str], Awaitable[ServerSession]],
        token: str,
        *,
        host: str = "127.0.0.1",
    ) -> None:
        self._asgi = asgi
        self._open_session = open_link
        self._link_token = token
        self._host = host
        self._headers = [(b"host", host.encode()), (b"authorization", f"Bearer {token}".encode())]
        self._tasks = Tasks("in_process_calls")

    async def request(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        params: Params | None = None,
        timeout_seconds: float = 30.0,  # noqa: ARG002 (part of the port)
    ) -> Response:
        body = encoded_body(json) or b""
        sent = [(b"content-type", b"application/json")] if body else []
        if body or method != "GET":
            sent.append((b"content-length", str(len(body)).encode()))
        async with self._called(method, path, params, sent, body) as (exchange, status, headers):
            answer = decoded_body(await exchange.whole())
        if status >= 400:
            raise error_of_answer(status, answer)
        return Response(status, answer, headers)

    async def upload(
        self, path: str, body: AsyncIterator[bytes], *, media_type: str, params: Params | None = None
    ) -> Response:
        whole = b"".join([part async for part in body])
        sent = [(b"content-type", media_type.encode()), (b"content-length", str(len(whole)).encode())]
        async with self._called("POST", path, params, sent, whole) as (exchange, status, headers):
            answer = decoded_body(await exchange.whole())
        if status >= 400:
            raise error_of_answer(status, answer)
        return Response(status, answer, headers)

    def parts(
        self, path: str, *, params: Params | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._bytes(path, params)

    @asynccontextmanager
    async def _bytes(self, path: str, params: Params | None) -> AsyncGenerator[AsyncIterator[bytes], None]:
        async with self._opened(path, params, [(b"accept", b"*/*")]) as (exchange, _):
            yield exchange.parts()

    def events(
        self, path: str, *, params: Params | None = None, last_event_id: str | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[ServerSentEvent]]:
        return self._events(path, params, last_event_id)

    @asynccontextmanager
    async def _events(
        self, path: str, params: Params | None, last_event_id: str | None
    ) -> AsyncGenerator[AsyncIterator[ServerSentEvent], None]:
        sent = [(b"accept", b"text/event-stream")]
        sent += [(name.encode(), value.encode()) for name, value in resume_headers(last_event_id).items()]
        async with self._opened(path, params, sent) as (exchange, headers):
            check_event_stream(headers.get("content-type"))
            yield events_of(exchange.parts(), headers.get(EPOCH_HEADER))

    def lines(
        self, path: str, *, params: Params | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[str]]:
        return self._lines(path, params)

    @asynccontextmanager
    async def _lines(self, path: str, params: Params | None) -> AsyncGenerator[AsyncIterator[str], None]:
        async with self._opened(path, params, [(b"accept", b"application/json")]) as (exchange, _):
            yield lines_of(exchange.parts())

    @asynccontextmanager
    async def _opened(
        self, path: str, params: Params | None, sent: Headers
    ) -> AsyncGenerator[tuple[Exchange, Mapping[str, str]], None]:
        async with self._called("GET", path, params, sent, b"") as (exchange, status, headers):
            if status >= 400:
                raise error_of_answer(status, decoded_body(await exchange.whole()))
            yield exchange, headers

    @asynccontextmanager
    async def _called(
        self, method: str, path: str, params: Params | None, sent: Headers, body: bytes
    ) -> AsyncGenerator[tuple[Exchange, int, Mapping[str, str]], None]:
        """One request as far as the head of its answer; on leaving, the application learns of it."""
        query = urlencode(given_params(params)).encode()
        scope = http_scope(method, path, query, [*self._headers, *sent], self._host)
        exchange = Exchange(scope, body)
        self._tasks.spawn(exchange.run(self._asgi), name=path)
        try:
            status, headers = await exchange.started
            yield (
                exchange,
                status,
                {name.decode("latin-1").lower(): v.decode("latin-1") for name, v in headers},
            )
        finally:
            exchange.leave()

    async def open_link(self) -> LinkConnection:
        return InProcessLink(await self._open_session(self._link_token))

    async def close(self) -> None:
        await self._tasks.close()


class InProcessLink:
    """A server's link session behind the client's port: an ended session is a lost connection."""

    def __init__(self, session: ServerSession) -> None:
        self._session = session
        self._ended = asyncio.Event()

    async def send(self, frame: str) -> None:
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


def http_scope(
    method: str, path: str, query: bytes, headers: Headers, host: str, port: int = 80
) -> AsgiMessage:
    """The ASGI scope of a request; `path` may have percent escapes, header names are in lower case."""
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "headers": headers,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": quote(path, safe="/%:@!$&'()*+,;=~-._").encode(),
        "query_string": query,
        "server": (host, port),
        "client": ("127.0.0.1", 0),
        "root_path": "",
    }


class Exchange:
    """One request to an ASGI application and its answer, body parts streaming as the application sends them.

    Spawn `run`, await `started` (status and headers; raises ConnectionLost when no answer comes), read
    `parts`, and `leave` at the end.
    """

    def __init__(self, scope: AsgiMessage, body: bytes) -> None:
        self._scope = scope
        self._body: bytes | None = body
        self._parts: asyncio.Queue[bytes | None] = asyncio.Queue(BODY_PARTS)
        self._gone = asyncio.Event()
        self._failure: BaseException | None = None
        self.started: asyncio.Future[tuple[int, Headers]] = asyncio.get_running_loop().create_future()

    async def run(self, asgi: AsgiApp) -> None:
        """Calls the application once. Its failure is the reader's ConnectionLost, never raised here."""
        try:
            await asgi(self._scope, self._receive, self._send)
        except asyncio.CancelledError as error:  # the transport closes: whoever reads must not wait for ever
            self._failure = error
            self._drop_parts()
            raise
        except Exception as error:
            self._failure = error
        finally:
            if not self.started.done():
                lost = ConnectionLost(f"the application gave no answer: {self._failure!r}")
                self.started.set_exception(lost)
        if not self._gone.is_set():
            await self._parts.put(None)

    async def parts(self) -> AsyncGenerator[bytes, None]:
        """The parts of the body. Raises ConnectionLost when the application failed in the middle."""
        while (part := await self._parts.get()) is not None:
            yield part
        if self._failure is not None:
            raise ConnectionLost(f"the application failed: {self._failure!r}") from self._failure

    async def whole(self) -> bytes:
        """The body to its end. Raises ConnectionLost."""
        return b"".join([part async for part in self.parts()])

    def leave(self) -> None:
        """Nobody reads any more: the application sees a disconnect, and one that waits for room goes on."""
        self._gone.set()
        self._drop_parts()

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
