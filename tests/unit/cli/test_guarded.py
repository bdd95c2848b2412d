"""Connections to a listener for pages: how many, how large a head, how slow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from socket import socket
from typing import Any

from lineloop.cli.connections import Patience
from lineloop.cli.guarded import Caps
from lineloop.cli.listening import served
from lineloop.kit.json import loads

CAPS = Caps(connections=3, head_bytes=2_000, frame_bytes=1_000)
QUICK = Patience(head_seconds=0.2, look_seconds=0.05)
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def answers_hello(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"hello"})


@asynccontextmanager
async def listening(patience: Patience | None = None) -> AsyncGenerator[int]:
    with socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        async with served(answers_hello, listener, CAPS, patience=patience):
            yield listener.getsockname()[1]


async def said_to(port: int, data: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    return reader, writer


async def first_words(reader: asyncio.StreamReader) -> bytes:
    return await asyncio.wait_for(reader.read(12), 5)


async def problem_in(reader: asyncio.StreamReader) -> tuple[bytes, dict[str, Any]]:
    """The first words of an answer, and the problem document that is its body."""
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
    assert b"content-type: application/problem+json" in head
    return head[:12], loads(await asyncio.wait_for(reader.read(), 5))


async def test_one_connection_answers_many_requests_of_ordinary_size() -> None:
    async with listening() as port:
        reader, writer = await said_to(port, b"")
        for _ in range(40):
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 500 + b"\r\n\r\n")
            assert (await asyncio.wait_for(reader.readuntil(b"hello"), 5)).startswith(b"HTTP/1.1 200")
        writer.close()


async def test_a_head_that_is_too_large_is_refused_also_in_small_pieces() -> None:
    async with listening() as port:
        reader, writer = await said_to(port, b"GET / HTTP/1.1\r\nX: ")
        for _ in range(30):
            writer.write(b"y" * 100)
            await writer.drain()
        words, problem = await problem_in(reader)
        assert (words, problem["code"], problem["status"]) == (b"HTTP/1.1 431", "limit_exceeded", 431)
        assert problem["context"] == {"limit": "head_bytes", "max": 2_000}
        writer.close()


async def test_a_head_that_does_not_come_is_not_waited_for() -> None:
    async with listening(QUICK) as port:
        reader, writer = await said_to(port, b"GET / HTTP/1.1\r\n")
        assert await first_words(reader) == b"HTTP/1.1 408"
        writer.close()


async def test_too_many_connections_are_turned_away_until_others_end() -> None:
    async with listening() as port:
        held = [await said_to(port, GET) for _ in range(3)]
        for reader, _ in held:
            assert await first_words(reader) == b"HTTP/1.1 200"
        turned_away, writer = await said_to(port, GET)
        words, problem = await problem_in(turned_away)
        assert (words, problem["code"], problem["retryable"]) == (b"HTTP/1.1 503", "overloaded", True)
        writer.close()
        for reader, writer in held:
            writer.close()
            await writer.wait_closed()
            await asyncio.wait_for(reader.read(), 5)
        for _ in range(50):
            reader, writer = await said_to(port, GET)
            words = await first_words(reader)
            writer.close()
            if words == b"HTTP/1.1 200":
                return
        raise AssertionError("nobody got in again")
