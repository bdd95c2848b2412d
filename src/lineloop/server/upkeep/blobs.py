"""Bytes that nobody wants any more: blobs without a message, and places that never became a blob."""

from __future__ import annotations

import structlog

from lineloop.kit.clock import Clock
from lineloop.kit.database import Tx
from lineloop.protocol.errors import LoopError
from lineloop.server.blobs import BlobStore
from lineloop.server.commit import Commits
from lineloop.server.commit.attaching import sweep_blobs_in
from lineloop.server.store import blobs

SWEEP_SECONDS = 600.0
SWEEP_LIMIT = 20
PLACES_AT_ONCE = 100

_log = structlog.get_logger(__name__)


class BlobSweep:
    """Rows go first, bytes after the commit; bytes that a crash left behind are found as lost places.

    `grace_seconds` is how long a blob may wait for the message that refers to it.
    """

    def __init__(self, commits: Commits, store: BlobStore, clock: Clock, grace_seconds: float) -> None:
        self._commits = commits
        self._store = store
        self._clock = clock
        self._grace_ms = int(grace_seconds * 1000)

    async def run(self) -> None:
        while True:
            try:
                await self.sweep()
            except LoopError as error:
                _log.warning("blob_sweep_failed", code=error.code)
            await self._clock.sleep(SWEEP_SECONDS)

    async def sweep(self) -> None:
        before = self._clock.now_ms() - self._grace_ms
        while await self._commits.read(lambda tx: blobs.unreferenced(tx, before, 1)):
            await self._remove(await self._forget(before))
        await self._remove(await self._lost(before))

    async def _forget(self, before: int) -> list[str]:
        places: list[str] = []
        await self._commits.write(
            lambda tx: sweep_blobs_in(tx, before, SWEEP_LIMIT, places.append), "server.blob_sweep"
        )
        return places

    async def _lost(self, before: int) -> list[str]:
        lost: list[str] = []
        found = await self._store.places(before)
        for begun in range(0, len(found), PLACES_AT_ONCE):
            some = found[begun : begun + PLACES_AT_ONCE]

            def read(tx: Tx, some: list[str] = some) -> list[str]:
                return blobs.lost_places(tx, some)

            lost += await self._commits.read(read)
        return lost

    async def _remove(self, places: list[str]) -> None:
        for place in places:
            await self._store.remove(place)
