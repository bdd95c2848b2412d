"""A lean HTTP/1.1 client on standing connections, so that a load costs the machine little itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit


class Connection:
    """One standing connection with a bearer token; one request at a time."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, token: str
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._head = f"Host: {host}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"

    async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Raises RuntimeError for an answer that is no success."""
        return await self.post_text(path, json.dumps(body, separators=(",", ":")))

    async def post_text(self, path: str, text: str) -> dict[str, Any]:
        data = text.encode()
        self._writer.write(
            f"POST {path} HTTP/1.1\r\n{self._head}Content-Length: {len(data)}\r\n\r\n".encode() + data
        )
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = int(head.split("content-length:", 1)[1].split("\r\n", 1)[0])
        answer = await self._reader.readexactly(length)
        if not head.startswith("http/1.1 2"):
            raise RuntimeError(f"{head.splitlines()[0]}: {answer[:300]!r}")
        return json.loads(answer) if answer else {}

    def close(self) -> None:
        self._writer.close()


@asynccontextmanager
async def connections(server_url: str, token: str, count: int) -> AsyncGenerator[list[Connection]]:
    address = urlsplit(server_url)
    opened: list[Connection] = []
    try:
        for _ in range(count):
            reader, writer = await asyncio.open_connection(address.hostname, address.port)
            opened.append(Connection(reader, writer, address.netloc, token))
        yield opened
    finally:
        for connection in opened:
            connection.close()
