"""Reads on their own threads and connections: each read is one snapshot and can write nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

import psycopg

from lineloop.kit.jobs import Job
from lineloop.kit.postgres.failures import ConnectionLost, storage_failure
from lineloop.kit.postgres.lanes import Connector
from lineloop.kit.postgres.session import Session
from lineloop.kit.postgres.statements import translated
from lineloop.kit.postgres.transaction import PgTx
from lineloop.kit.storage_errors import DatabaseUnavailable

_RUNS = 4
_BEGIN = translated("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
_ROLLBACK = translated("ROLLBACK")


class Readers:
    """`count` threads with a connection each, fed from one queue."""

    def __init__(
        self, open_session: Callable[[], Session], deliver: Callable[[Job], None], count: int
    ) -> None:
        self._open = open_session
        self._deliver = deliver
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self.put = self._queue.put
        self._closing = threading.Event()
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
        self._closing.set()
        for thread in self._threads:
            thread.join()

    def _main(self) -> None:
        connector = Connector(self._open, self._closing)
        while (job := self._queue.get()) is not None:
            try:
                self._serve(connector, job)
            except BaseException as error:
                job.error = error
                connector.drop(error)
                self._deliver(job)
        connector.close()

    def _serve(self, connector: Connector, job: Job) -> None:
        """Run the job, on a new connection when one is lost: reading twice harms nobody."""
        lost: ConnectionLost | None = None
        for _ in range(_RUNS):
            try:
                session = connector.get()
            except DatabaseUnavailable as error:
                job.error = error
                break
            try:
                self._read(session, job)
                break
            except ConnectionLost as error:
                connector.drop(error)
                lost = error
        else:
            job.error = DatabaseUnavailable(f"the connection is lost again and again: {lost}")
        self._deliver(job)
        self._finish(connector)

    def _read(self, session: Session, job: Job) -> None:
        session.owner, session.reads_only = job, True
        session.tell(_BEGIN)
        job.error = None
        try:
            job.result = job.run(PgTx(session, set()))
        except BaseException as error:
            job.error = error
        if session.lost is not None:
            raise session.lost
        if session.unanswered and session.failure is None:
            # What was only told: a read that writes is a mistake that shows itself here.
            session.sync()
            if (failed := session.settle()) is not None:
                job.error = failed.error
        elif session.failure is not None:
            job.error = session.failure.error
        if isinstance(job.error, psycopg.Error) and (failure := storage_failure(job.error)) is not None:
            failure.__cause__ = job.error
            job.error = failure

    def _finish(self, connector: Connector) -> None:
        """End the snapshot after the answer has left: nobody waits for that."""
        session = connector.current
        if session is None:
            return
        try:
            if session.failure is not None:
                session.sync()
                session.settle()
            session.tell(_ROLLBACK)
            session.sync()
            session.settle()
        except ConnectionLost as error:
            connector.drop(error)
