"""The transport over a server URL: JSON calls, SSE and line streams, and the link as a WebSocket.

Decides connection pools (long streams never starve short calls), time-outs and how a broken connection is
named. Leaves the meaning of paths to the verbs and of frames to the link (spec/protocol.md §8).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus, WebSocketException
from websockets.protocol import State

from lineloop.client.event_stream import (
    EPOCH_HEADER,
    EVENT_STREAM,
    check_event_stream,
    events_of,
    lines_of,
    resume_headers,
)
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
from lineloop.kit import json
from lineloop.kit.text_frames import FrameCutter, MaskedFrames, Other
from lineloop.protocol.errors import ConnectionLost, InvalidRequest
from lineloop.protocol.versions import SPOKEN

STREAM_SILENCE_SECONDS = 45.0
MAX_LINK_FRAME_BYTES = 64 * 1024 * 1024
MAX_WAITING_FRAMES = 16
LINK_PATH = "/v1/link"

T = TypeVar("T")

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class HttpTransport:
    """Calls over HTTP with a bearer token, in two pools: one for short calls, one for streams."""

    def __init__(
        self,
        server_url: str,
        token: str | None,
        *,
        through: httpx.AsyncBaseTransport | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        """`server_url` like `http://127.0.0.1:8100`. Raises InvalidRequest when it is no http(s) URL.

        `through` replaces the network (tests, in-process servers) for everything but the link.
        """
        parts = urlsplit(server_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidRequest(f"{server_url!r} is not an http or https URL")
        self._url = server_url.rstrip("/")
        self._token = token
        # A proxy from the environment must never stand between two processes of one machine.
        self._direct = parts.hostname in _LOOPBACK
        sent = {**({"Authorization": f"Bearer {token}"} if token else {}), **(headers or {})}

        # Certificates take 40 ms to load; over plain http there are none to verify.
        verify = httpx.create_ssl_context() if parts.scheme == "https" and through is None else False

        def pool(limits: httpx.Limits, timeout: httpx.Timeout) -> httpx.AsyncClient:
            return httpx.AsyncClient(
                base_url=self._url,
                headers=sent,
                limits=limits,
                timeout=timeout,
                transport=through,
                verify=verify,
                trust_env=not self._direct and through is None,
            )

        self._calls = pool(httpx.Limits(max_connections=64), httpx.Timeout(30.0, connect=10.0))
        self._streams = pool(
            httpx.Limits(max_connections=None), httpx.Timeout(STREAM_SILENCE_SECONDS, connect=10.0)
        )

    async def request(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        params: Params | None = None,
        timeout_seconds: float = 30.0,
    ) -> Response:
        try:
            answer = await self._calls.request(
                method,
                path,
                content=encoded_body(json),
                headers={"Content-Type": "application/json"} if json is not None else None,
                params=given_params(params),
                timeout=httpx.Timeout(timeout_seconds, connect=10.0),
            )
        except httpx.HTTPError as error:
            raise _lost(error) from error
        body = decoded_body(answer.content)
        if answer.status_code >= 400:
            raise error_of_answer(answer.status_code, body)
        return Response(answer.status_code, body, answer.headers)

    async def upload(
        self, path: str, body: AsyncIterator[bytes], *, media_type: str, params: Params | None = None
    ) -> Response:
        try:
            answer = await self._streams.post(
                path, content=body, headers={"Content-Type": media_type}, params=given_params(params)
            )
        except httpx.HTTPError as error:
            raise _lost(error) from error
        decoded = decoded_body(answer.content)
        if answer.status_code >= 400:
            raise error_of_answer(answer.status_code, decoded)
        return Response(answer.status_code, decoded, answer.headers)

    def parts(
        self, path: str, *, params: Params | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._bytes(path, params)

    @asynccontextmanager
    async def _bytes(self, path: str, params: Params | None) -> AsyncGenerator[AsyncIterator[bytes], None]:
        async with self._opened(path, params, {"Accept": "*/*"}) as answer:
            yield _named_breaks(answer.aiter_bytes())

    def events(
        self, path: str, *, params: Params | None = None, last_event_id: str | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[ServerSentEvent]]:
        return self._events(path, params, last_event_id)

    @asynccontextmanager
    async def _events(
        self, path: str, params: Params | None, last_event_id: str | None
    ) -> AsyncGenerator[AsyncIterator[ServerSentEvent], None]:
        headers = {"Accept": EVENT_STREAM, "Cache-Control": "no-store", **resume_headers(last_event_id)}
        async with self._opened(path, params, headers) as answer:
            check_event_stream(answer.headers.get("content-type"))
            yield events_of(_named_breaks(answer.aiter_bytes()), answer.headers.get(EPOCH_HEADER))

    def lines(
        self, path: str, *, params: Params | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[str]]:
        return self._lines(path, params)

    @asynccontextmanager
    async def _lines(self, path: str, params: Params | None) -> AsyncGenerator[AsyncIterator[str], None]:
        async with self._opened(path, params, {"Accept": "application/json"}) as answer:
            yield lines_of(_named_breaks(answer.aiter_bytes()))

    @asynccontextmanager
    async def _opened(
        self, path: str, params: Params | None, headers: dict[str, str]
    ) -> AsyncGenerator[httpx.Response, None]:
        request = self._streams.build_request("GET", path, params=given_params(params), headers=headers)
        try:
            answer = await self._streams.send(request, stream=True)
        except httpx.HTTPError as error:
            raise _lost(error) from error
        try:
            if answer.status_code >= 400:
                try:
                    await answer.aread()
                except httpx.HTTPError as error:
                    raise _lost(error) from error
                raise error_of_answer(answer.status_code, decoded_body(answer.content))
            yield answer
        finally:
            await answer.aclose()

    async def open_link(self) -> LinkConnection:
        url = "ws" + self._url.removeprefix("http") + LINK_PATH
        try:
            socket = await connect(
                url,
                create_connection=_Socket,
                compression=None,  # small frames: compressing costs more than it saves
                max_size=MAX_LINK_FRAME_BYTES,
                ping_interval=None,  # the protocol has its own heartbeat
                close_timeout=2.0,
                proxy=None if self._direct else True,
            )
            assert isinstance(socket, _Socket)
            connection = WebSocketLink(socket)
        except InvalidStatus as error:
            raise error_of_answer(error.response.status_code, decoded_body(error.response.body)) from error
        except (OSError, WebSocketException) as error:
            raise ConnectionLost(f"no link to {self._url}: {error}") from error
        hello = {"token": self._token or "", **SPOKEN.hello()}
        await connection.send(json.dumps({"hello": hello}))
        return connection

    async def close(self) -> None:
        await self._calls.aclose()
        await self._streams.aclose()


class _Socket(ClientConnection):
    """The library's connection, past which whole messages go both ways (see kit.text_frames)."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._cutter: FrameCutter | None = None
        self._frames = MaskedFrames()
        # None: the message that the library has put together.
        self._messages: deque[str | bytes | None] = deque()
        self._waiting: asyncio.Future[None] | None = None
        self._held = False
        self._early = False

    def begin(self) -> None:
        """The handshake is done. What came behind it at once is with the library, and all that follows."""
        self._cutter = FrameCutter(masked=False, max_bytes=MAX_LINK_FRAME_BYTES)
        if self._early:
            self._cutter.give_up()

    def data_received(self, data: bytes) -> None:
        if self._cutter is None:
            was_open = self.state is State.OPEN
            super().data_received(data)
            is_open = self.state is State.OPEN
            self._early = self._early or was_open or (is_open and not data.endswith(b"\r\n\r\n"))
            return
        for found in self._cutter.cut(data):
            if isinstance(found, Other):
                super().data_received(found.data)
                if found.begins:
                    self._messages.append(None)
            elif self.state is State.OPEN:  # Behind its last word the server says nothing.
                self._messages.append(found)
        self._wake()
        if len(self._messages) > MAX_WAITING_FRAMES and not self._held:
            self._held = True
            self.transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def next_message(self) -> str | bytes:
        """Raises ConnectionClosed."""
        while not self._messages:
            if self._cutter is None or self._cutter.given_up:
                return await self.recv()
            if self.state is not State.OPEN:
                await self.close()  # waits a moment only for a server that has said its last word
                return await self.recv()
            self._waiting = self.loop.create_future()
            await self._waiting
        message = self._messages.popleft()
        if self._held and not self._messages:
            self._held = False
            if not self.transport.is_closing():
                self.transport.resume_reading()
        return await self.recv() if message is None else message

    async def send_text(self, text: str) -> None:
        """Waits while the peer takes nothing. Raises ConnectionClosed."""
        if self.state is not State.OPEN or self.transport.is_closing():
            await self.send(text)  # has the words for it
            return
        self.transport.write(self._frames.text_frame(text))
        if self.paused:
            await self.drain()


class WebSocketLink:
    """A link connection over a WebSocket: one JSON object per text frame."""

    def __init__(self, socket: _Socket) -> None:
        self._socket = socket
        socket.begin()

    async def send(self, frame: str) -> None:
        try:
            await self._socket.send_text(frame)
        except (OSError, WebSocketException) as error:
            raise ConnectionLost(f"the link broke: {error}") from error

    async def receive(self) -> dict[str, Any]:
        try:
            frame = json.loads(await self._socket.next_message())
        except (OSError, WebSocketException) as error:
            raise ConnectionLost(f"the link broke: {error}") from error
        except ValueError as error:
            raise ConnectionLost("the server sent a frame that is not JSON") from error
        if not isinstance(frame, dict):
            raise ConnectionLost("the server sent a frame that is not an object")
        return frame

    async def close(self) -> None:
        await self._socket.close()


async def _named_breaks(source: AsyncIterator[T]) -> AsyncGenerator[T, None]:
    """The same items, with every kind of break called ConnectionLost."""
    try:
        async for item in source:
            yield item
    except (httpx.HTTPError, httpx.StreamError) as error:
        raise _lost(error) from error


def _lost(error: Exception) -> ConnectionLost:
    message = f"the connection broke: {type(error).__name__} {error}".rstrip()
    # Without a connection nothing of the call can have arrived.
    never = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
    return ConnectionLost(message, detail={"reached": False} if never else None)
