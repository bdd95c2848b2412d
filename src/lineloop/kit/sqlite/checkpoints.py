"""When the write-ahead log is moved into the database file and started anew, so that it stays small.

The bulk is moved by PASSIVE checkpoints on an own connection: they wait for nobody and nobody waits for them.
While writes go on such a checkpoint never catches up, and a log that is not wholly moved only grows; so the
writer itself moves the small rest between two batches, until its next write starts at the front again (a
reader in that very moment prevents it, hence some tries).

How long the log is, is read from the log itself after each commit, never estimated: rows differ by orders of
magnitude. A log that became large in a burst, or behind a long reader, gives its space back: at its next
start (`journal_size_limit` of the writer's connection), or here when nobody writes.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

import structlog

from lineloop.kit.sqlite.write_ahead_log import LogFile, log_bytes

_log = structlog.get_logger(__name__)
_RESTART_TRIES = 4
_HOLD_SECONDS = 0.1
_LONGEST_HOLD_SECONDS = 2.0
_RETRY_SECONDS = 2.0
_LARGE = 2


class Checkpoints:
    """A thread with its own connection that checkpoints whenever the log has `pages` pages.

    `hold_readers(seconds)` is a context in which no read runs, unless one takes longer than `seconds`. Large
    is a file of several times `pages`, and then it is made small even when nobody writes.
    """

    def __init__(
        self,
        connect: Callable[[], sqlite3.Connection],
        hold_readers: Callable[[float], AbstractContextManager[None]],
        log: LogFile,
        pages: int,
    ) -> None:
        self._hold_readers = hold_readers
        self._connect = connect
        self._file = log
        self._pages = pages
        self._large_bytes = _LARGE * log_bytes(pages)
        # Of the writer's thread: the log it writes to, the frame at which it is due, and what is tried.
        self._header = b""
        self._due = pages
        self._tries_left = _RESTART_TRIES
        # Set by the checkpoint thread: the log whose rest the writer shall move.
        self._rest_of: bytes | None = None
        self._wake = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._main, name="lineloop-checkpoints", daemon=True)
        self.completed = 0

    def open(self) -> None:
        self._thread.start()

    def committed(self, connection: sqlite3.Connection) -> None:
        """Something was committed on `connection`. Called on the writer's thread, between batches."""
        header = self._file.header()
        if header != self._header:
            self._header, self._due, self._tries_left = header, self._pages, _RESTART_TRIES
        if self._rest_of == header:
            self._move_rest(connection)
        elif not self._wake.is_set() and self._file.holds(header, self._due):
            self._wake.set()

    def close(self) -> None:
        """Empty the log into the file (as far as other processes allow) and end. Blocks."""
        self._closing = True
        self._wake.set()
        self._thread.join()
        self._file.close()

    def _move_rest(self, connection: sqlite3.Connection) -> None:
        """One try, after which the next write finds nothing in its way and starts the log anew."""
        self._tries_left -= 1
        frames = self._due
        try:
            if self._tries_left:
                frames = self._move(connection)[0]
            else:
                # The last try is made with the readers held; the longer the log, the longer it may take.
                patience = min(_HOLD_SECONDS * max(1, self._due / self._pages), _LONGEST_HOLD_SECONDS)
                with self._hold_readers(patience):
                    frames = self._move(connection)[0]
        except sqlite3.Error as error:
            # Nothing is lost: the log only grows. A broken disk shows itself at a commit.
            _log.warning("checkpoint_failed", error=str(error))
            self._tries_left = 0
        if not self._tries_left:
            # Somebody reads for long. Every commit would be slow if each tried again.
            self._rest_of = None
            self._due = frames + self._pages
            self._tries_left = _RESTART_TRIES

    def _main(self) -> None:
        connection: sqlite3.Connection | None = None
        large = False
        while True:
            self._wake.wait(_RETRY_SECONDS if large else None)
            header = self._file.header()
            try:
                connection = connection or self._connect()
                if self._closing:
                    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                    break
                frames, moved = self._move(connection)
                if frames == moved and self._file.bytes_on_disk() > self._large_bytes:
                    self._truncate(connection)
            except sqlite3.Error as error:
                _log.warning("checkpoint_failed", error=str(error))
                if self._closing:
                    break
            large = self._file.bytes_on_disk() > self._large_bytes
            self._rest_of = header
            self._wake.clear()
            if self._closing:
                self._wake.set()
        if connection is not None:
            connection.close()

    def _move(self, connection: sqlite3.Connection) -> tuple[int, int]:
        """Checkpoint what can be moved now: how many frames the log has, and how many of them are moved."""
        _, frames, moved = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        self.completed += 1
        return frames, moved

    def _truncate(self, connection: sqlite3.Connection) -> None:
        """Give the space back, unless that moment somebody writes or reads: then it is tried again."""
        usual = connection.execute("PRAGMA busy_timeout").fetchone()[0]
        connection.execute("PRAGMA busy_timeout=0")
        with contextlib.ExitStack() as stack:
            stack.callback(connection.execute, f"PRAGMA busy_timeout={usual}")
            stack.enter_context(self._hold_readers(_HOLD_SECONDS))
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
