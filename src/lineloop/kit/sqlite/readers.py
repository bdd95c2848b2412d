"""Reads on their own threads: each read is one snapshot and can write nothing."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Generator
from queue import SimpleQueue

from lineloop.kit.jobs import Job
from lineloop.kit.sqlite.failures import primary_code, storage_failure
from lineloop.kit.sqlite.transaction import SqliteTx
from lineloop.kit.storage_errors import DatabaseOutcomeUnknown, DatabaseUnavailable


class Readers:
    """`count` threads with a read-only connection each, fed from one queue."""

    def __init__(
        self, connect: Callable[[], sqlite3.Connection], deliver: Callable[[Job], None], count: int
    ) -> None:
        self._connect = connect
        self._deliver = deliver
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self.put = self._queue.put
        self._gate = threading.Condition()
        self._held = False
        self._active = 0
        self._threads = [
            threading.Thread(target=self._main, name=f"lineloop-reader-{number}", daemon=True)
            for number in range(count)
        ]

    def open(self) -> None:
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Finish what is queued, then end the threads. Blocks."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()

    @contextlib.contextmanager
    def held(self, seconds: float) -> Generator[None, None, None]:
        """Let no read begin, after waiting at most `seconds` for the running ones to end."""
        with self._gate:
            self._held = True
            self._gate.wait_for(lambda: not self._active, seconds)
        try:
            yield
        finally:
            with self._gate:
                self._held = False
                self._gate.notify_all()

    def _main(self) -> None:
        connection: sqlite3.Connection | None = None
        while (job := self._queue.get()) is not None:
            try:
                # Opened at first need, so that starting up costs no connection that nobody asked for.
                connection = connection or self._connect()
                self._read(connection, job)
            except BaseException as error:
                job.error = _for_reader(error)
            self._deliver(job)
        if connection is not None:
            connection.close()

    def _read(self, connection: sqlite3.Connection, job: Job) -> None:
        with self._gate:
            self._gate.wait_for(lambda: not self._held)
            self._active += 1
        tx = SqliteTx(connection)
        try:
            connection.execute("BEGIN")
            job.result = job.run(tx)
        finally:
            tx.close()
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            with self._gate:
                self._active -= 1
                if self._held:
                    self._gate.notify_all()


def _for_reader(error: BaseException) -> BaseException:
    failure = storage_failure(error)
    if failure is None or primary_code(error) == sqlite3.SQLITE_READONLY:
        # A read that writes is a mistake in the program, not in the store.
        return error
    if isinstance(failure, DatabaseOutcomeUnknown):
        # A read changes nothing, so its outcome is never in doubt.
        failure = DatabaseUnavailable(*failure.args)
    failure.__cause__ = error
    return failure
