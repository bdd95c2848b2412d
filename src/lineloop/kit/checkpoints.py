"""The write-ahead log: sized before use, moved into the database file beside the writer, started anew.

The bulk is moved by PASSIVE checkpoints on an own connection: they wait for nobody and nobody waits for them.
While writes go on such a checkpoint never catches up, and a log that is not wholly moved only grows; so the
writer itself moves the small rest between two batches, until its next write starts at the front again (a
reader in that very moment prevents it, hence some tries).

How many pages a change costs is learned from each checkpoint, because SQLite tells the size of the log only
then.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import structlog

_log = structlog.get_logger(__name__)
_FIRST_GUESS_PAGES = 4.0
_RESTART_TRIES = 4
_FRAME_BYTES = 4096 + 24
_CHUNK = bytes(1 << 20)


class Checkpoints:
    """A thread with its own connection that checkpoints when about `pages` pages were written.

    `hold_readers()` is a context in which, for a moment, no read runs.
    """

    def __init__(
        self,
        connect: Callable[[], sqlite3.Connection],
        hold_readers: Callable[[], AbstractContextManager[None]],
        pages: int,
    ) -> None:
        self._hold_readers = hold_readers
        self._connect = connect
        self._pages = pages
        self._changes = 0
        self._due_at = pages / _FIRST_GUESS_PAGES
        self._log_pages = 0
        self._tries_left = 0
        self._wake = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._main, name="lineloop-checkpoints", daemon=True)
        self.completed = 0

    def open(self) -> None:
        self._thread.start()

    def committed(self, connection: sqlite3.Connection, changes: int) -> None:
        """`changes` rows were committed on `connection`. Called on the writer's thread, between batches."""
        self._changes += changes
        if self._tries_left:
            self._tries_left -= 1
            before = self._log_pages
            # The last try is made with the readers held, so that it succeeds whatever they do.
            with contextlib.nullcontext() if self._tries_left > 1 else self._hold_readers():
                self._move(connection)
            if self._log_pages < before:
                self._tries_left = 0
        elif self._changes >= self._due_at and not self._wake.is_set():
            self._wake.set()

    def close(self) -> None:
        """Empty the log into the file (as far as other processes allow) and end. Blocks."""
        self._closing = True
        self._wake.set()
        self._thread.join()

    def _main(self) -> None:
        connection: sqlite3.Connection | None = None
        while True:
            self._wake.wait()
            try:
                connection = connection or self._connect()
                if self._closing:
                    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                    break
                self._move(connection)
                self._tries_left = _RESTART_TRIES
            except sqlite3.Error as error:
                # The log only grows; the next commit asks again. A broken disk shows itself at the writer.
                _log.warning("checkpoint_failed", error=str(error))
                if self._closing:
                    break
            self._wake.clear()
            if self._closing:
                self._wake.set()
        if connection is not None:
            connection.close()

    def _move(self, connection: sqlite3.Connection) -> None:
        """Checkpoint what can be moved now, and learn what the log has become."""
        changes = self._changes
        _, log, moved = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        self.completed += 1
        self._log_pages = log
        if log == moved:
            if log > 0 and changes > 0:
                self._due_at = self._pages / min(max(log / changes, 0.05), 64.0)
            self._changes = 0


def presize_log(path: Path, pages: int) -> None:
    """Give a database without a log one of `pages` zeroed pages.

    A commit that overwrites blocks costs half of one that makes the file grow (measured: 0.23 against 0.43
    ms), because the file system has no metadata to write. SQLite takes a log that starts with zeros for an
    empty one. A log that exists, and so may be in use, is never touched: the new one appears whole, by a
    link, or not at all.
    """
    log = path.with_name(f"{path.name}-wal")
    if log.exists() or not path.exists():
        return
    beside = path.with_name(f".{path.name}-wal.{os.getpid()}.new")
    # Only speed is at stake: on a full disk, or a file system without links, the log grows as it needs.
    with contextlib.suppress(OSError):
        try:
            with beside.open("wb") as file:
                for _ in range(0, pages * _FRAME_BYTES, len(_CHUNK)):
                    file.write(_CHUNK)
                file.flush()
                os.fsync(file.fileno())
            beside.chmod(path.stat().st_mode & 0o777)
            os.link(beside, log)
        finally:
            beside.unlink(missing_ok=True)
