"""A SQLite file for one machine: one writer, group commit, snapshot reads (design decision 3).

This module puts the writer, the readers and the checkpoints together and speaks asyncio; what shares a
transaction and what a failure undoes is decided in `writer`.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from lineloop.kit.clock import Clock
from lineloop.kit.database import Tx
from lineloop.kit.faults import Faults
from lineloop.kit.file_identity import refuse_several_names
from lineloop.kit.filesystem import refuse_network_filesystem
from lineloop.kit.jobs import Desk, Job
from lineloop.kit.measures import CommitMeasures
from lineloop.kit.sqlite.checkpoints import Checkpoints
from lineloop.kit.sqlite.failures import primary_code, storage_failure
from lineloop.kit.sqlite.readers import Readers
from lineloop.kit.sqlite.write_ahead_log import LogFile, log_bytes, log_path, presize_log
from lineloop.kit.sqlite.writer import MAX_BATCH, Writer
from lineloop.kit.storage_errors import (
    DatabaseBusyElsewhere,
    DatabaseUnavailable,
)

T = TypeVar("T")

_BUSY_TIMEOUT_SECONDS = 5.0
_CHECKPOINT_PAGES = 1000
_PRESIZED_PAGES = 1500
_CACHED_STATEMENTS = 1024


class SqliteDatabase:
    """An open database file. Make one with `await SqliteDatabase.open(…)`, on the loop that will use it."""

    def __init__(
        self,
        path: Path,
        *,
        loop: asyncio.AbstractEventLoop,
        faults: Faults,
        on_fatal: Callable[[BaseException], None] | None,
        readers: int,
        queue_limit: int,
    ) -> None:
        self.path = path
        self._loop = loop
        self._due: list[Job] = []
        self._desk = Desk(str(path), loop, queue_limit, on_fatal)
        self._readers = Readers(lambda: _connect_reader(path), self._desk.read, readers)
        self._checkpoints = Checkpoints(
            lambda: _connect_writer(path), self._readers.held, LogFile(path), _CHECKPOINT_PAGES
        )
        self._writer = Writer(
            lambda: _connect_first(path), self._desk.written, self._checkpoints.committed, faults
        )

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        clock: Clock,  # noqa: ARG003 (every engine is opened the same way)
        faults: Faults | None = None,
        on_fatal: Callable[[BaseException], None] | None = None,
        readers: int = 2,
        queue_limit: int = 10_000,
    ) -> SqliteDatabase:
        """Open or create the file.

        `on_fatal` is called on the loop when the process must stop. Raises NetworkFilesystem,
        DatabaseCorrupt, DatabaseBusyElsewhere, DatabaseUnavailable.
        """
        refuse_network_filesystem(path)
        refuse_several_names(path)
        database = cls(
            path,
            loop=asyncio.get_running_loop(),
            faults=faults or Faults.none(),
            on_fatal=on_fatal,
            readers=readers,
            queue_limit=queue_limit,
        )
        try:
            await asyncio.to_thread(database._writer.open)
        except sqlite3.Error as error:
            busy = primary_code(error) == sqlite3.SQLITE_BUSY
            failure = DatabaseBusyElsewhere() if busy else storage_failure(error) or DatabaseUnavailable()
            raise type(failure)(f"{path}: {error}") from error
        database._checkpoints.open()
        database._readers.open()
        return database

    async def write(self, job: Callable[[Tx], T], *, label: str = "", lane: str = "") -> T:
        return await self.submit(job, label, lane)

    def submit(self, job: Callable[[Tx], T], label: str = "", lane: str = "") -> asyncio.Future[T]:
        queued, future = self._desk.writing(job, label, lane)
        if not self._due:
            # The writer could only wait while this turn of the loop runs, and waking it costs both of them.
            self._loop.call_soon(self._hand_over)
        self._due.append(queued)
        return future

    def _hand_over(self) -> None:
        """What a turn of the loop has queued goes to the writer together."""
        due, self._due = self._due, []
        for start in range(0, len(due), MAX_BATCH):
            self._writer.put(due[start : start + MAX_BATCH])

    async def read(self, job: Callable[[Tx], T]) -> T:
        queued, future = self._desk.reading(job)
        self._readers.put(queued)
        return await future

    @property
    def idle(self) -> bool:
        return self._desk.idle

    @property
    def commits(self) -> int:
        return self._writer.commits

    @property
    def measures(self) -> CommitMeasures:
        return self._writer.measures

    @property
    def checkpoints(self) -> int:
        """Checkpoints made by this process."""
        return self._checkpoints.completed

    async def close(self) -> None:
        """Finish queued work, fold the log into the file, end the threads. Later calls do nothing."""
        if self._desk.closed:
            return
        self._desk.closed = True
        self._hand_over()

        def close() -> None:
            self._writer.close()
            self._readers.close()
            self._checkpoints.close()

        await asyncio.shield(asyncio.to_thread(close))


def _connect_first(path: Path) -> sqlite3.Connection:
    """The writer's connection; before it, a file that nobody has open gets its mode and its log."""
    if not log_path(path).exists():
        # SQLite drops a log beside an empty file, hence the mode is set, and written, first.
        _connect_writer(path).close()
        presize_log(path, _PRESIZED_PAGES)
    return _connect_writer(path)


def _connect_writer(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=_BUSY_TIMEOUT_SECONDS, isolation_level=None, cached_statements=_CACHED_STATEMENTS
    )
    connection.row_factory = sqlite3.Row
    mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
    if mode != "wal":
        connection.close()
        raise DatabaseUnavailable(f"{path} cannot use a write-ahead log (journal mode {mode})")
    # fullfsync: on macOS an ordinary fsync does not reach the disk. temp_store: the journal of a savepoint
    # lives as long as its job, and would else be a file that is made and deleted for it. journal_size_limit:
    # a log that starts anew gives back what a burst had made of it.
    pragmas = (
        "synchronous=FULL",
        "fullfsync=ON",
        "foreign_keys=ON",
        "wal_autocheckpoint=0",
        f"journal_size_limit={log_bytes(_PRESIZED_PAGES)}",
        "temp_store=MEMORY",
    )
    for pragma in pragmas:
        connection.execute(f"PRAGMA {pragma}")
    return connection


def _connect_reader(path: Path) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode=ro"
    connection = sqlite3.connect(
        uri,
        uri=True,
        timeout=_BUSY_TIMEOUT_SECONDS,
        isolation_level=None,
        cached_statements=_CACHED_STATEMENTS,
    )
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA query_only=ON")
    return connection
