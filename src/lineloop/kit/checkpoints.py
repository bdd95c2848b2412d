"""Moving the write-ahead log into the database file, beside the writer and never in its way.

Only PASSIVE checkpoints while running: they wait for nobody and nobody waits for them. How many pages a
change costs is learned from each checkpoint, because SQLite tells the size of the log only then.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable

import structlog

_log = structlog.get_logger(__name__)
_FIRST_GUESS_PAGES = 4.0


class Checkpoints:
    """A thread with its own connection that checkpoints when about `pages` pages were written."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], pages: int) -> None:
        self._connect = connect
        self._pages = pages
        self._changes = 0
        self._due_at = pages / _FIRST_GUESS_PAGES
        self._wake = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._main, name="lineloop-checkpoints", daemon=True)
        self.completed = 0
        self.last_log_pages = 0

    def open(self) -> None:
        self._thread.start()

    def written(self, changes: int) -> None:
        """`changes` rows were committed. Called on the writer's thread."""
        self._changes += changes
        if self._changes >= self._due_at:
            self._wake.set()

    def close(self) -> None:
        """Empty the log into the file (as far as other processes allow) and end. Blocks."""
        self._closing = True
        self._wake.set()
        self._thread.join()

    def _main(self) -> None:
        connection: sqlite3.Connection | None = None
        while not self._closing:
            self._wake.wait()
            self._wake.clear()
            try:
                connection = connection or self._connect()
                self._checkpoint(connection)
            except sqlite3.Error as error:
                # The log only grows; the next commit asks again. A broken disk shows itself at the writer.
                _log.warning("checkpoint_failed", error=str(error))
        if connection is not None:
            connection.close()

    def _checkpoint(self, connection: sqlite3.Connection) -> None:
        if self._closing:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            return
        changes, self._changes = self._changes, 0
        _, log, moved = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        self.last_log_pages = log
        self.completed += 1
        if log == moved and log > 0:
            # A log moved as a whole starts anew, so its size is what these changes cost.
            per_change = min(max(log / max(changes, 1), 0.05), 64.0)
            self._due_at = self._pages / per_change
