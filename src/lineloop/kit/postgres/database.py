"""PostgreSQL for several servers: lanes of writers, a pool of readers, one asyncio port (decision 0026).

This module puts the lanes and the readers together; what shares a transaction and what a failure undoes is
decided in `lanes`.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from lineloop.kit.clock import Clock
from lineloop.kit.database import Tx
from lineloop.kit.faults import Faults
from lineloop.kit.jobs import Desk
from lineloop.kit.measures import CommitMeasures
from lineloop.kit.postgres.connecting import open_session, shown
from lineloop.kit.postgres.failures import ConnectionLost
from lineloop.kit.postgres.lanes import Lane
from lineloop.kit.postgres.readers import Readers
from lineloop.kit.storage_errors import DatabaseUnavailable

T = TypeVar("T")

LANES = 4
READERS = 4


class PostgresDatabase:
    """An open database. Make one with `await PostgresDatabase.open(…)`, on the loop that will use it.

    A job's lane decides on which connection it runs; jobs without one run on a connection of their own, each
    in a transaction of its own.
    """

    def __init__(
        self,
        url: str,
        *,
        loop: asyncio.AbstractEventLoop,
        faults: Faults,
        on_fatal: Callable[[BaseException], None] | None,
        lanes: int,
        readers: int,
        queue_limit: int,
    ) -> None:
        self.where = shown(url)
        self._desk = Desk(self.where, loop, queue_limit, on_fatal)
        connect = partial(open_session, url)
        self._lanes = [Lane(f"lane-{n}", connect, self._desk.written, faults) for n in range(lanes)]
        self._apart = Lane("lane-apart", connect, self._desk.written, faults)
        self._readers = Readers(connect, self._desk.read, readers)

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        clock: Clock,  # noqa: ARG003 (every engine is opened the same way)
        faults: Faults | None = None,
        on_fatal: Callable[[BaseException], None] | None = None,
        lanes: int = LANES,
        readers: int = READERS,
        queue_limit: int = 10_000,
    ) -> PostgresDatabase:
        """Connect once, to tell at once what is wrong; further connections are opened when they are needed.

        `on_fatal` is called on the loop when the process must stop. Raises DatabaseUnavailable.
        """
        database = cls(
            url,
            loop=asyncio.get_running_loop(),
            faults=faults or Faults.none(),
            on_fatal=on_fatal,
            lanes=lanes,
            readers=readers,
            queue_limit=queue_limit,
        )
        try:
            (await asyncio.to_thread(open_session, url)).close()
        except ConnectionLost as error:
            raise DatabaseUnavailable(str(error)) from error
        for lane in (*database._lanes, database._apart):
            lane.open()
        database._readers.open()
        return database

    async def write(self, job: Callable[[Tx], T], *, label: str = "", lane: str = "") -> T:
        return await self.submit(job, label, lane)

    def submit(self, job: Callable[[Tx], T], label: str = "", lane: str = "") -> asyncio.Future[T]:
        queued, future = self._desk.writing(job, label, lane)
        chosen = self._lanes[zlib.crc32(lane.encode()) % len(self._lanes)] if lane else self._apart
        chosen.put(queued)
        return future

    async def read(self, job: Callable[[Tx], T]) -> T:
        queued, future = self._desk.reading(job)
        self._readers.put(queued)
        return await future

    @property
    def idle(self) -> bool:
        return self._desk.idle

    @property
    def commits(self) -> int:
        return self._apart.commits + sum(lane.commits for lane in self._lanes)

    @property
    def measures(self) -> CommitMeasures:
        return CommitMeasures.summed(lane.measures for lane in (*self._lanes, self._apart))

    async def close(self) -> None:
        if self._desk.closed:
            return
        self._desk.closed = True

        def close() -> None:
            for lane in (*self._lanes, self._apart):
                lane.close()
            self._readers.close()

        await asyncio.shield(asyncio.to_thread(close))
