"""One contract for every transport: over a real socket and in process, a small server behind both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from lineloop.client.http import HttpTransport
from lineloop.client.in_process import InProcessTransport
from lineloop.client.link import Link
from lineloop.client.transport import Transport
from lineloop.kit import json
from lineloop.kit.clock import SystemClock
from lineloop.protocol.errors import Conflict, ConnectionLost, InvalidRequest, LoopError, Unauthorized
from lineloop.testing import until
from lineloop.testing.scripted import HELLO, ok_results

TOKEN = "good-token"


class Far:
    """The far side: a few routes that answer in every way a server can, and link sessions."""

    def __init__(self) -> None:
        self.stream_gone = asyncio.Event()
        self.sessions: list[Session] = []
        self.app = Starlette(
            routes=[
                Route("/echo", self.echo, methods=["GET", "POST", "PUT"]),
                Route("/empty", self.empty, methods=["POST"]),
                Route("/conflict", self.conflict),
                Route("/proxy", self.proxy),
                Route("/events", self.events),
                Route("/endless", self.endless),
                Route("/breaks", self.breaks),
                Route("/lines", self.lines),
                WebSocketRoute("/v1/link", self.link),
            ]
        )

    async def echo(self, request: Request) -> Response:
        body = await request.body()
        return JSONResponse(
            {
                "method": request.method,
                "json": json.loads(body) if body else None,
                "params": dict(request.query_params),
                "token": request.headers.get("authorization"),
                "type": request.headers.get("content-type"),
            },
            status_code=201,
        )

    async def empty(self, _: Request) -> Response:
        return Response(status_code=204)

    async def conflict(self, _: Request) -> Response:
        problem = LoopError("taken", code="key_conflict", detail={"id": "m1"}).to_problem()
        return JSONResponse(problem, status_code=409, media_type="application/problem+json")

    async def proxy(self, _: Request) -> Response:
        return PlainTextResponse("<html>Bad gateway</html>", status_code=502)

    async def events(self, request: Request) -> Response:
        resumed = request.headers.get("last-event-id", "")

        async def parts() -> AsyncGenerator[str, None]:
            yield f'id: 7\nevent: message\ndata: {{"resumed":"{resumed}",\ndata: "text":"zwei Zeilen ü"}}\n\n'
            yield ": a comment\n\n"
            yield "event: ping\ndata: {}\n\n"

        return StreamingResponse(parts(), media_type="text/event-stream")

    async def endless(self, _: Request) -> Response:
        async def parts() -> AsyncGenerator[str, None]:
            try:
                yield "event: ping\ndata: {}\n\n"
                await asyncio.Event().wait()
            finally:
                self.stream_gone.set()

        return StreamingResponse(parts(), media_type="text/event-stream")

    async def breaks(self, _: Request) -> Response:
        async def parts() -> AsyncGenerator[str, None]:
            yield "event: ping\ndata: {}\n\n"
            raise OSError("the far side failed on purpose")

        return StreamingResponse(parts(), media_type="text/event-stream")

    async def lines(self, _: Request) -> Response:
        async def parts() -> AsyncGenerator[str, None]:
            yield '{"type":"ADD'
            yield 'ED"}\n{"type":"BOOKMARK"}\n'

        return StreamingResponse(parts(), media_type="application/json")

    async def open_session(self, token: str) -> Session:
        session = Session(token == TOKEN)
        self.sessions.append(session)
        return session

    async def link(self, socket: WebSocket) -> None:
        await socket.accept()
        hello = await socket.receive_json()
        session = await self.open_session(hello["hello"]["token"])
        pump = asyncio.get_running_loop().create_task(_pump(socket, session))
        try:
            while True:
                await session.send(await socket.receive_text())
        except WebSocketDisconnect:
            await session.close()
        finally:
            await asyncio.wait([pump])


class Session:
    """One link session: says hello or refuses, acknowledges every frame, ends when told."""

    def __init__(self, known: bool) -> None:
        self.outgoing: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self.frames: list[dict[str, Any]] = []
        self.closed = False
        self.outgoing.put_nowait(HELLO if known else {"error": {"code": "unauthorized", "detail": "no"}})

    async def send(self, frame: str) -> None:
        sent = json.loads(frame)
        self.frames.append(sent)
        if "id" in sent:
            self.outgoing.put_nowait({"id": sent["id"], "results": ok_results(sent)})

    async def receive(self) -> dict[str, Any]:
        frame = await self.outgoing.get()
        if frame is None:
            raise ConnectionError("the session ended")
        return frame

    async def close(self) -> None:
        self.closed = True
        self.outgoing.put_nowait(None)


async def _pump(socket: WebSocket, session: Session) -> None:
    try:
        while True:
            await socket.send_json(await session.receive())
    except ConnectionError:
        if not session.closed:
            await socket.close()


@asynccontextmanager
async def over_http(far: Far, token: str) -> AsyncGenerator[Transport, None]:
    config = uvicorn.Config(far.app, port=0, log_config=None, lifespan="off", ws="websockets-sansio")
    server = uvicorn.Server(config)
    serving = asyncio.get_running_loop().create_task(server.serve())
    await until(lambda: server.started)
    port = server.servers[0].sockets[0].getsockname()[1]
    transport = HttpTransport(f"http://127.0.0.1:{port}/", token)
    try:
        yield transport
    finally:
        await transport.close()
        server.should_exit = True
        await serving


@asynccontextmanager
async def in_process(far: Far, token: str) -> AsyncGenerator[Transport, None]:
    transport = InProcessTransport(far.app, far.open_session, token)
    try:
        yield transport
    finally:
        await transport.close()


Opened = Callable[..., Awaitable[tuple[Transport, Far]]]


@pytest.fixture(params=[over_http, in_process])
async def opened(request: pytest.FixtureRequest) -> AsyncGenerator[Opened, None]:
    async with AsyncExitStack() as stack:

        async def open_one(token: str = TOKEN) -> tuple[Transport, Far]:
            far = Far()
            return await stack.enter_async_context(request.param(far, token)), far

        yield open_one


async def test_a_call_carries_method_body_parameters_and_token(opened: Opened) -> None:
    transport, _ = await opened()
    answer = await transport.request(
        "PUT", "/echo", json={"text": "ü", "n": 1}, params={"a": 1, "none": None, "yes": True}
    )
    assert answer.status == 201
    assert answer.body == {
        "method": "PUT",
        "json": {"text": "ü", "n": 1},
        "params": {"a": "1", "yes": "true"},
        "token": f"Bearer {TOKEN}",
        "type": "application/json",
    }


async def test_an_empty_answer_has_no_body(opened: Opened) -> None:
    transport, _ = await opened()
    assert (await transport.request("POST", "/empty")).body is None


async def test_a_problem_document_becomes_its_typed_error(opened: Opened) -> None:
    transport, _ = await opened()
    with pytest.raises(Conflict) as caught:
        await transport.request("GET", "/conflict")
    assert caught.value.code == "key_conflict"
    assert caught.value.detail == {"id": "m1"}


async def test_a_proxys_page_becomes_a_retryable_error(opened: Opened) -> None:
    transport, _ = await opened()
    with pytest.raises(ConnectionLost):
        await transport.request("GET", "/proxy")


async def test_events_arrive_whole_with_id_and_resume_header(opened: Opened) -> None:
    transport, _ = await opened()
    async with transport.events("/events", last_event_id="5") as events:
        # The decoder makes an event without data of a comment; stream_event passes it over.
        heard = [event async for event in events if event.data]
    assert [(event.event, event.id) for event in heard] == [("message", "7"), ("ping", "7")]
    assert json.loads(heard[0].data) == {"resumed": "5", "text": "zwei Zeilen ü"}


async def test_a_refused_stream_raises_the_coded_error_on_entering(opened: Opened) -> None:
    transport, _ = await opened()
    with pytest.raises(Conflict):
        async with transport.events("/conflict"):
            pass


async def test_an_answer_that_is_no_event_stream_is_a_lost_connection(opened: Opened) -> None:
    transport, _ = await opened()
    with pytest.raises(ConnectionLost):
        async with transport.events("/lines") as events:
            await anext(aiter(events))


async def test_a_stream_that_breaks_raises_connection_lost_after_what_came(opened: Opened) -> None:
    transport, _ = await opened()
    heard: list[str] = []
    with pytest.raises(ConnectionLost):
        async with transport.events("/breaks") as events:
            async for event in events:
                heard += [event.event]
    assert heard == ["ping"]


async def test_leaving_a_stream_ends_it_on_the_far_side(opened: Opened) -> None:
    transport, far = await opened()
    async with transport.events("/endless") as events:
        await anext(aiter(events))
    await until(far.stream_gone.is_set)


@pytest.mark.requirement("L176")
async def test_many_open_streams_do_not_starve_short_calls(opened: Opened) -> None:
    transport, _ = await opened()
    async with AsyncExitStack() as stack:
        for _ in range(80):
            events = await stack.enter_async_context(transport.events("/endless"))
            await anext(aiter(events))
        assert (await transport.request("GET", "/echo")).status == 201


async def test_lines_arrive_whole(opened: Opened) -> None:
    transport, _ = await opened()
    async with transport.lines("/lines") as lines:
        assert [line async for line in lines] == ['{"type":"ADDED"}', '{"type":"BOOKMARK"}']


async def test_a_link_says_hello_and_acknowledges(opened: Opened) -> None:
    transport, far = await opened()
    link = Link(transport.open_link, SystemClock())
    await link.start()
    message = await link.speak("c1", {"key": "k", "text": "hi"})
    assert message.key == "k"
    assert far.sessions[0].frames == [
        {"id": 1, "speak": [{"conversation_id": "c1", "key": "k", "text": "hi"}]}
    ]
    await link.close()
    await until(lambda: far.sessions[0].closed)


async def test_a_link_that_the_far_side_ends_comes_back(opened: Opened) -> None:
    transport, far = await opened()
    link = Link(transport.open_link, SystemClock())
    await link.start()
    await link.speak("c1", {"key": "a", "text": "hi"})
    far.sessions[0].outgoing.put_nowait(None)
    await until(lambda: len(far.sessions) == 2 and link.connected)
    await link.speak("c1", {"key": "b", "text": "hi"})
    await link.close()


async def test_a_link_with_a_wrong_token_is_refused_with_its_code(opened: Opened) -> None:
    transport, _ = await opened("bad-token")
    link = Link(transport.open_link, SystemClock())
    with pytest.raises(Unauthorized):
        await link.start()
    await link.close()


async def test_a_large_frame_passes(opened: Opened) -> None:
    transport, _ = await opened()
    link = Link(transport.open_link, SystemClock())
    await link.start()
    await link.speak("c1", {"key": "k", "text": "x" * 1_000_000})
    await link.close()


async def test_nobody_listening_is_a_lost_connection() -> None:
    transport = HttpTransport("http://127.0.0.1:1", "t")
    with pytest.raises(ConnectionLost):
        await transport.request("GET", "/")
    with pytest.raises(ConnectionLost):
        async with transport.events("/"):
            pass
    with pytest.raises(ConnectionLost):
        await transport.open_link()
    await transport.close()


@pytest.mark.parametrize("url", ["", "localhost:8100", "ftp://x", "http://"])
def test_what_is_no_http_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequest):
        HttpTransport(url, "t")
