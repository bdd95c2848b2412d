"""The verbs of attachments: bytes to the server and back, in parts (spec/protocol.md §3.6).

Decides how what is given becomes parts and when an upload is repeated: never when its source can be read only
once.
"""

from __future__ import annotations

import asyncio
import mimetypes
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from lineloop.client.retry import Retry
from lineloop.client.transport import Transport
from lineloop.protocol.attachments import UNKNOWN_MEDIA_TYPE, Blob
from lineloop.protocol.paths import segment

PART_BYTES = 256 * 1024

Source = bytes | Path | AsyncIterator[bytes]


class Blobs:
    """Uploads and downloads over one transport."""

    def __init__(self, transport: Transport, retry: Retry) -> None:
        self._transport = transport
        self._retry = retry

    async def upload(self, source: Source, *, media_type: str | None, hash_: str | None) -> Blob:
        kind = media_type or _guessed(source)
        params = {"hash": hash_}

        async def once() -> Blob:
            parts = _parts(source)
            answer = await self._transport.upload("/v1/blobs", parts, media_type=kind, params=params)
            return Blob.from_wire(answer.body)

        return await (self._retry.run(once) if isinstance(source, bytes | Path) else once())

    def download(
        self, blob_hash: str, message_id: str | None
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._transport.parts(f"/v1/blobs/{segment(blob_hash)}", params={"message_id": message_id})


def _guessed(source: Source) -> str:
    guessed = mimetypes.guess_type(source.name)[0] if isinstance(source, Path) else None
    return guessed or UNKNOWN_MEDIA_TYPE


def _parts(source: Source) -> AsyncIterator[bytes]:
    if isinstance(source, bytes):
        return _of_bytes(source)
    return _of_file(source) if isinstance(source, Path) else source


async def _of_bytes(body: bytes) -> AsyncGenerator[bytes, None]:
    for begun in range(0, len(body), PART_BYTES):
        yield body[begun : begun + PART_BYTES]


async def _of_file(path: Path) -> AsyncGenerator[bytes, None]:
    with await asyncio.to_thread(path.open, "rb") as file:
        while part := await asyncio.to_thread(file.read, PART_BYTES):
            yield part
