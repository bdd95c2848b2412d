"""Bytes as rows of the database: for servers that share a database and no directory.

Each part is a row of its own, written in a transaction of its own, so that a large upload holds nobody up; it
is durable when its commit returned. What was begun and never belonged to a blob is swept like lost files.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from lineloop.kit.clock import Clock
from lineloop.kit.database import Tx
from lineloop.server.blobs.port import PART_BYTES
from lineloop.server.commit import Commits
from lineloop.server.store import blobs


class TableBlobs:
    """Bytes in the table `blob_parts`."""

    def __init__(self, commits: Commits, clock: Clock) -> None:
        self._commits = commits
        self._clock = clock

    async def begin(self, place: str) -> TableWriter:
        return TableWriter(self._commits, self._clock, place)

    async def read(self, place: str) -> AsyncGenerator[bytes, None]:
        seq = 0
        while True:

            def read(tx: Tx, seq: int = seq) -> bytes | None:
                return blobs.part(tx, place, seq)

            part = await self._commits.read(read)
            if part is None:
                return
            yield part
            seq += 1

    async def remove(self, place: str) -> None:
        while await self._commits.write(lambda tx: blobs.remove_parts(tx, place, limit=16), lane=place):
            continue

    async def places(self, before_ms: int) -> list[str]:
        return await self._commits.read(lambda tx: blobs.lost_parts(tx, before_ms, limit=100))


class TableWriter:
    """Gathers what is written into parts of one size."""

    def __init__(self, commits: Commits, clock: Clock, place: str) -> None:
        self._commits = commits
        self._clock = clock
        self._place = place
        self._seq = 0
        self._waiting = bytearray()

    async def write(self, part: bytes) -> None:
        self._waiting += part
        while len(self._waiting) >= PART_BYTES:
            body = bytes(self._waiting[:PART_BYTES])
            del self._waiting[:PART_BYTES]
            await self._store(body)

    async def finish(self) -> None:
        if self._waiting:
            await self._store(bytes(self._waiting))
            self._waiting.clear()

    async def discard(self) -> None:
        self._waiting.clear()
        await TableBlobs(self._commits, self._clock).remove(self._place)

    async def _store(self, body: bytes) -> None:
        seq, now = self._seq, self._clock.now_ms()
        await self._commits.write(
            lambda tx: blobs.insert_part(tx, self._place, seq, body, now), lane=self._place
        )
        self._seq += 1
