"""A server may speak with its answer to the handshake, also half a frame."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from lineloop.client.http import HttpTransport
from lineloop.kit import json
from lineloop.kit.text_frames import text_frame
from lineloop.protocol.errors import ConnectionLost

GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, section 1.3
FRAMES = b"".join(text_frame(json.dumps({"number": number})) for number in range(3))


@asynccontextmanager
async def speaking(*segments: bytes) -> AsyncGenerator[str]:
    """A server that answers the handshake together with the first segment, then sends the others."""

    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        (key,) = re.findall(r"(?i)sec-websocket-key: (\S+)", head)
        accept = base64.b64encode(hashlib.sha1((key + GUID).encode()).digest()).decode()
        lines = ("HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade")
        answer = "\r\n".join((*lines, f"Sec-WebSocket-Accept: {accept}", "", "")).encode()
        writer.write(answer + segments[0])
        for segment in segments[1:]:
            await reader.read(1)  # the client is at work: what comes now is a segment of its own
            writer.write(segment)
        await reader.read()
        writer.close()
        await writer.wait_closed()
        ended.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        await ended.wait()


@pytest.mark.requirement("L16")
@pytest.mark.parametrize("cut", [0, 1, 5, len(FRAMES) - 1, len(FRAMES)])
async def test_what_comes_with_the_answer_to_the_handshake_is_received_in_order(cut: int) -> None:
    async with speaking(FRAMES[:cut], FRAMES[cut:]) as url:
        transport = HttpTransport(url, "token")
        link = await transport.open_link()
        async with asyncio.timeout(10):
            assert [await link.receive() for _ in range(3)] == [{"number": number} for number in range(3)]
        await link.close()
        await transport.close()


@pytest.mark.requirement("L16")
async def test_what_comes_behind_the_servers_last_word_is_not_delivered() -> None:
    closing = b"\x88\x02\x03\xe9"
    async with speaking(b"", FRAMES + closing + FRAMES) as url:
        transport = HttpTransport(url, "token")
        link = await transport.open_link()
        async with asyncio.timeout(10):
            assert [await link.receive() for _ in range(3)] == [{"number": number} for number in range(3)]
            with pytest.raises(ConnectionLost):
                await link.receive()
        await link.close()
        await transport.close()
