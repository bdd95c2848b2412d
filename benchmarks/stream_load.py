"""Streams as a load: viewers that look for nothing but marks, and a link that sends patches."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect

from benchmarks.http_load import Connection
from lineloop.kit.clock import SystemClock
from lineloop.kit.ids import Ids

# A mark in a text: ~<number>~.
_MARK = re.compile(rb"~(\d+)~")
_LONGEST_MARK = 24

OnMark = Callable[[int, float], None]


class Viewer(asyncio.Protocol):
    """One connection that asks for a stream and hands on the marks in it, with the time they came."""

    def __init__(self, request: bytes, on_mark: OnMark) -> None:
        self._request = request
        self._on_mark = on_mark
        self._rest = b""
        self.transport: asyncio.Transport | None = None
        self.opened = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        if not self.opened.is_set() and b" 200 " in data[:32]:
            self.opened.set()
        data = self._rest + data
        end = 0
        for found in _MARK.finditer(data):
            self._on_mark(int(found[1]), now)
            end = found.end()
        self._rest = data[max(end, len(data) - _LONGEST_MARK) :]

    def close(self) -> None:
        if self.transport is not None:
            self.transport.close()


@asynccontextmanager
async def viewers(
    url: str, token: str, paths: Sequence[str], on_marks: Sequence[OnMark]
) -> AsyncGenerator[list[Viewer]]:
    """One viewer per path, all of them answered."""
    address = urlsplit(url)
    host, port = address.hostname or "", address.port or 80
    opened: list[Viewer] = []
    loop = asyncio.get_running_loop()
    try:
        for path, on_mark in zip(paths, on_marks, strict=True):
            head = f"GET {path} HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: Bearer {token}\r\n\r\n"
            _, viewer = await loop.create_connection(
                lambda head=head, on_mark=on_mark: Viewer(head.encode(), on_mark),
                host,
                port,
            )
            opened.append(viewer)
        for viewer in opened:
            await asyncio.wait_for(viewer.opened.wait(), 30)
        yield opened
    finally:
        for viewer in opened:
            viewer.close()


class LinkWriter:
    """One link of the administrator. `send` is one frame of appends and returns when it is durable."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._sent = 0

    @classmethod
    @asynccontextmanager
    async def open(cls, server_url: str, token: str) -> AsyncGenerator[LinkWriter]:
        url = server_url.replace("http", "ws", 1) + "/v1/link"
        async with connect(url, compression=None, max_size=None) as socket:
            await socket.send(json.dumps({"hello": {"token": token, "protocol": 1}}))
            await socket.recv()
            yield cls(socket)

    async def send(self, patches: dict[str, list[dict[str, Any]]]) -> None:
        """Raises RuntimeError when one of them was refused."""
        self._sent += 1
        items = [{"message_id": name, "patches": some} for name, some in patches.items()]
        await self._socket.send(json.dumps({"id": self._sent, "patches": items}, separators=(",", ":")))
        while True:
            frame = json.loads(await self._socket.recv())
            if frame.get("id") == self._sent:
                break
        for result in frame["results"]:
            if not result.get("ok"):
                raise RuntimeError(str(result))


def appended(seq: int, text: str) -> dict[str, Any]:
    block = {"id": "text", "content": text}
    return {"op": "append", "seq": seq, "mask": "block.content", "block": block}


async def conversation(connection: Connection) -> str:
    return (await connection.post("/v1/conversations", {"name": "bench"}))["id"]


async def open_message(connection: Connection, place: str) -> str:
    """A streaming message with one empty block, at revision 1."""
    body = {"key": Ids(SystemClock()).uuid7(), "stream": True}
    message = await connection.post(f"/v1/conversations/{place}/messages", body)
    block = {"id": "text", "type": "text", "content": ""}
    await connection.post(
        f"/v1/messages/{message['id']}/patches", {"patches": [{"op": "set", "seq": 1, "block": block}]}
    )
    return message["id"]


async def end_message(connection: Connection, message_id: str, seq: int) -> None:
    await connection.post(f"/v1/messages/{message_id}/end", {"seq": seq})
