"""Peers that are slow on purpose, over real sockets: none of them is waited for for ever.

Only the bound that a test is about is short, so that a loaded machine is not taken for a slow peer.
"""

from __future__ import annotations

import asyncio
import json
import logging
import select
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from lineloop.cli.connections import Patience
from lineloop.cli.listening import served
from lineloop.server.app import Server
from lineloop.server.settings import ServerSettings
from lineloop.testing.waiting import until

TOKEN = "token-of-the-test"
LONG_SECONDS = 60.0
SHORT_SECONDS = 0.3
pytestmark = pytest.mark.slow
KIB = 1024


class Peer:
    """A client's socket, that does what it is told and nothing else."""

    def __init__(self, receive_bytes: int = 64 * KIB) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self._socket.setblocking(False)
        self._loop = asyncio.get_running_loop()

    async def connect(self, port: int) -> None:
        await self._loop.sock_connect(self._socket, ("127.0.0.1", port))

    async def send(self, data: bytes) -> None:
        await self._loop.sock_sendall(self._socket, data)

    async def answer(self) -> bytes:
        """Everything until the other side ends."""
        parts: list[bytes] = []
        async with asyncio.timeout(LONG_SECONDS):
            while part := await self._loop.sock_recv(self._socket, 1024 * KIB):
                parts.append(part)
        return b"".join(parts)

    async def trickles(self, piece: bytes) -> bytes:
        """The answer that comes while `piece` is sent again and again."""
        answer = asyncio.ensure_future(self.answer())
        while not answer.done():
            # What is sent to who has ended takes the answer away before it is read.
            if not select.select([self._socket], [], [], 0)[0]:
                with suppress(ConnectionError):
                    await self.send(piece)
            await asyncio.wait((answer,), timeout=0.1)
        return answer.result()

    async def said(self, until: bytes) -> bytes:
        """What has come when it ends with `until`."""
        data = b""
        async with asyncio.timeout(LONG_SECONDS):
            while not data.endswith(until):
                part = await self._loop.sock_recv(self._socket, 1024 * KIB)
                assert part, data
                data += part
        return data

    async def is_let_go(self, piece: bytes) -> None:
        """Returns when the other side has ended, although `piece` is sent again and again."""
        with suppress(ConnectionError):
            assert await self.trickles(piece) == b""

    async def head(self) -> bytes:
        """The head of an answer, and nothing of what follows it."""
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += await self._loop.sock_recv(self._socket, 1)
        return head

    def close(self) -> None:
        self._socket.close()


@dataclass
class Served:
    """A server on a socket whose patience is short."""

    server: Server
    port: int
    stop: Callable[[], Awaitable[None]]
    peers: list[Peer] = field(default_factory=list[Peer])

    async def peer(self, receive_bytes: int = 64 * KIB) -> Peer:
        peer = Peer(receive_bytes)
        self.peers.append(peer)
        await peer.connect(self.port)
        return peer

    async def request(self, head: str, body: bytes = b"", receive_bytes: int = 64 * KIB) -> Peer:
        """A peer that has sent this."""
        peer = await self.peer(receive_bytes)
        lines = (head, f"Host: 127.0.0.1:{self.port}", f"Authorization: Bearer {TOKEN}")
        await peer.send("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        return peer

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        raw = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {len(raw)}"
        answer = await (await self.request(head, raw)).answer()
        return json.loads(answer.partition(b"\r\n\r\n")[2] or b"null")


@asynccontextmanager
async def served_at(path: Path, *short: str) -> AsyncGenerator[Served]:
    """`short` names the bounds (of bodies, heads, rests, stalls) that are short."""

    def bound(name: str, seconds: float = SHORT_SECONDS) -> float:
        return seconds if name in short else LONG_SECONDS

    stalled = 3.0 if "patient" in short else bound("stalled")

    settings = ServerSettings(
        path / "server.db",
        admin_token=TOKEN,
        body_idle_seconds=bound("body"),
        body_seconds=bound("body", 1.0),
    )
    patience = Patience(bound("head"), bound("rest"), stalled, look_seconds=0.02)
    server = Server(settings)
    await server.start()
    listener = socket.create_server(("127.0.0.1", 0))
    async with AsyncExitStack() as stack:
        stack.push_async_callback(server.close)
        await stack.enter_async_context(served(server.asgi, listener, patience=patience))
        stack.push_async_callback(server.drain)
        world = Served(server, listener.getsockname()[1], stack.aclose)
        try:
            yield world
        finally:
            for peer in world.peers:
                peer.close()


@pytest.fixture
async def world(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncGenerator[Served]:
    async with served_at(tmp_path, *getattr(request, "param", ())) as world:
        yield world


def problem_in(answer: bytes) -> tuple[int, str]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"connection: close" in head.lower()
    return int(head.split()[1]), json.loads(body)["code"]


@pytest.mark.parametrize(
    "head",
    [
        "POST /v1/conversations HTTP/1.1\r\nContent-Length: 100",
        "POST /v1/conversations/con_x/messages HTTP/1.1\r\nContent-Length: 100",
        "POST /v1/conversations HTTP/1.1\r\nTransfer-Encoding: chunked",
    ],
)
@pytest.mark.parametrize("world", [("body", "rest")], indirect=True)
async def test_a_body_that_does_not_come_is_answered_and_the_connection_ends(
    world: Served, head: str
) -> None:
    peer = await world.request(head)
    assert problem_in(await peer.answer()) == (408, "request_timeout")


@pytest.mark.parametrize("world", [("body", "rest")], indirect=True)
async def test_a_body_that_trickles_has_a_bound_in_all(world: Served) -> None:
    peer = await world.request("POST /v1/conversations HTTP/1.1\r\nContent-Length: 100")
    assert problem_in(await peer.trickles(b" ")) == (408, "request_timeout")


@pytest.mark.parametrize("start", [b"", b"GET /healthz HT"])
@pytest.mark.parametrize("world", [("head",)], indirect=True)
async def test_a_head_that_does_not_come_ends_the_connection(world: Served, start: bytes) -> None:
    peer = await world.peer()
    await peer.send(start)
    assert problem_in(await peer.answer()) == (408, "request_timeout")


@pytest.mark.parametrize(
    "words",
    [
        b"hello\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: x\r\n\r\n",
        b"G\xff / HTTP/1.1\r\n\r\n",
    ],
)
async def test_what_is_no_http_gets_a_coded_refusal_and_the_connection_ends(
    world: Served, words: bytes
) -> None:
    peer = await world.peer()
    await peer.send(words)
    assert problem_in(await peer.answer()) == (400, "malformed_request")


@pytest.mark.parametrize("world", [("head", "rest")], indirect=True)
async def test_a_head_that_trickles_ends_the_connection(world: Served) -> None:
    peer = await world.peer()
    await peer.send(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: ")
    assert problem_in(await peer.trickles(b"a")) == (408, "request_timeout")


@pytest.mark.parametrize("world", [("rest",)], indirect=True)
async def test_the_rest_of_an_answered_request_is_not_waited_for(world: Served) -> None:
    peer = await world.request("POST /v1/nowhere HTTP/1.1\r\nContent-Length: 100")
    assert b"route_not_found" in await peer.said(b"}")
    await peer.is_let_go(b" ")


async def test_half_sent_requests_do_not_hold_up_a_stop_nor_break_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with served_at(tmp_path) as world:
        for _ in range(20):
            await world.request("POST /v1/conversations HTTP/1.1\r\nContent-Length: 100", b"{")
        for _ in range(5):
            await (await world.peer()).send(b"GET /healthz HTTP/1.1\r\nHos")
        with caplog.at_level(logging.WARNING):
            started = asyncio.get_running_loop().time()
            await world.stop()
            assert asyncio.get_running_loop().time() - started < LONG_SECONDS / 2
    assert [record.getMessage() for record in caplog.records] == []


async def conversation_of_mass(world: Served) -> str:
    """More than the sockets of both sides take without anybody reading."""
    conversation = (await world.call("POST", "/v1/conversations", {}))["id"]
    target = {"kind": "operator", "key": "echo"}
    for number in range(24):
        body = {"key": str(number), "text": "x" * 900 * KIB, "target": target}
        await world.call("POST", f"/v1/conversations/{conversation}/messages", body)
    return conversation


@pytest.mark.parametrize("world", [("stalled",)], indirect=True)
async def test_a_viewer_that_does_not_read_is_let_go(world: Served) -> None:
    conversation = await conversation_of_mass(world)
    with capture_logs() as logs:
        await world.request(f"GET /v1/conversations/{conversation}/stream HTTP/1.1", b"", 4 * KIB)
        await until(lambda: world.server.metrics.viewers.value == 1, LONG_SECONDS)
        await until(lambda: world.server.metrics.viewers.value == 0, LONG_SECONDS)
    assert [line["event"] for line in logs] == ["peer_stalled"]


@pytest.mark.parametrize("world", [("stalled",)], indirect=True)
async def test_an_answer_that_nobody_takes_does_not_stay_in_memory(world: Served) -> None:
    conversation = await conversation_of_mass(world)
    with capture_logs() as logs:
        await world.request(f"GET /v1/conversations/{conversation}/messages HTTP/1.1", b"", 4 * KIB)
        await until(lambda: [line["event"] for line in logs] == ["peer_stalled"], LONG_SECONDS)


@pytest.mark.parametrize("world", [("patient",)], indirect=True)
async def test_an_answer_that_is_taken_slowly_arrives_whole(world: Served) -> None:
    conversation = await conversation_of_mass(world)
    head = f"GET /v1/conversations/{conversation}/messages HTTP/1.1\r\nConnection: close"
    peer = await world.request(head, b"", 4 * KIB)
    _, _, body = (await peer.answer()).partition(b"\r\n\r\n")
    assert len(json.loads(body)["items"]) == 24


@pytest.mark.parametrize("world", [("stalled",)], indirect=True)
async def test_a_link_whose_peer_does_not_read_is_closed_and_no_longer_live(world: Served) -> None:
    conversation = await conversation_of_mass(world)
    token = (await world.call("POST", "/v1/tokens", {"actor": "operator/echo"}))["token"]
    upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13"
    key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
    peer = await world.request(f"GET /v1/link HTTP/1.1\r\n{upgrade}\r\n{key}", b"", 4 * KIB)
    hello = json.dumps({"hello": {"token": token, "protocol": 1}}).encode()
    assert len(hello) < 126
    assert b" 101 " in await peer.head()
    await peer.send(bytes([0x81, 0x80 | len(hello), 0, 0, 0, 0]) + hello)
    await until(lambda: len(world.server.services.links) == 1, LONG_SECONDS)
    await until(lambda: len(world.server.services.links) == 0, LONG_SECONDS)
    await until(lambda: world.server.metrics.links.value == 0, LONG_SECONDS)
    assert (await world.call("GET", f"/v1/conversations/{conversation}"))["id"] == conversation


async def test_who_asks_on_a_link_without_listening_is_not_heard_without_bound(world: Served) -> None:
    token = (await world.call("POST", "/v1/tokens", {"actor": "operator/echo"}))["token"]
    session = await world.server.open_link(token)
    asked = 0

    async def ask() -> None:
        nonlocal asked
        while asked < 500:
            await session.send({"ping": {}})
            asked += 1

    asking = asyncio.ensure_future(ask())
    await asyncio.wait((asking,), timeout=0.2)
    assert asked < 200
    while not asking.done():
        await session.receive()
    await session.close()
