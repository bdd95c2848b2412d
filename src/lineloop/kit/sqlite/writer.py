"""The one writer: jobs in, group commits out (design decision 3).

It decides what shares a transaction, what is undone when a job or a commit fails, and when an answer may
leave. A batch is whatever queued while the last one was committed, and at least what one turn of the loop
has queued; there is no timer. Jobs of a batch hardly ever fail, so they run without savepoints, which cost a
third of a small job; when one fails after it wrote, the others run again with a savepoint each. Answers and
after-commit callbacks leave in one call to the loop, after COMMIT has returned.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from time import perf_counter

import structlog

from lineloop.kit.faults import FaultInjected, FaultMode, Faults
from lineloop.kit.jobs import AFTER_COMMIT, BEFORE_COMMIT, Job
from lineloop.kit.measures import CommitMeasures
from lineloop.kit.sqlite.failures import is_fatal, primary_code, storage_failure
from lineloop.kit.sqlite.transaction import SqliteTx
from lineloop.kit.storage_errors import (
    DatabaseBusyElsewhere,
    DatabaseError,
    DatabaseOutcomeUnknown,
    DatabaseUnavailable,
    TransactionEnded,
)

MAX_BATCH = 512
"""Jobs that the loop hands over at once; what waits is taken until there are as many."""

# The trailing comments make these texts the writer's own: a job's COMMIT is another statement, and forbidden.
_BEGIN = "BEGIN IMMEDIATE --"
_COMMIT = "COMMIT --"
_ROLLBACK = "ROLLBACK --"
_SAVEPOINT = "SAVEPOINT job --"
_RELEASE = "RELEASE job --"
_ROLLBACK_TO = "ROLLBACK TO job --"
_CONTROL = (_BEGIN, _SAVEPOINT, _ROLLBACK_TO, _RELEASE, _ROLLBACK)

_log = structlog.get_logger(__name__)


class Writer:
    """Runs on its own thread; `put(jobs)` is the only door in, `deliver(jobs, fatal)` the only one out.

    `deliver` is called on the writer's thread once per batch. `committed(connection)` follows each batch that
    wrote something. `fatal` is the failure after which no more work is accepted.
    """

    def __init__(
        self,
        connect: Callable[[], sqlite3.Connection],
        deliver: Callable[[list[Job], DatabaseError | None], None],
        committed: Callable[[sqlite3.Connection], None],
        faults: Faults,
    ) -> None:
        self._connect = connect
        self._deliver = deliver
        self._committed = committed
        self._faults = faults
        self._awake = not faults.asleep
        self._queue: SimpleQueue[list[Job] | None] = SimpleQueue()
        self.put = self._queue.put
        self._thread = threading.Thread(target=self._main, name="lineloop-writer", daemon=True)
        self._opened = threading.Event()
        self._open_error: BaseException | None = None
        self._connection: sqlite3.Connection
        self._controlling = False
        self._changes = 0
        self.commits = 0
        self.measures = CommitMeasures()
        self.fatal: DatabaseError | None = None

    def open(self) -> None:
        """Start the thread and wait until its connection stands. Blocks; raises what connecting raised."""
        self._thread.start()
        self._opened.wait()
        if self._open_error is not None:
            raise self._open_error

    def close(self) -> None:
        """Finish what is queued, then end the thread. Blocks."""
        self._queue.put(None)
        self._thread.join()

    def _main(self) -> None:
        try:
            self._connection = self._connect()
            self._prepare_control()
        except BaseException as error:
            self._open_error = error
            self._opened.set()
            return
        self._opened.set()
        try:
            while (batch := self._next_batch()) is not None:
                self._serve(batch)
        finally:
            self._connection.close()

    def _prepare_control(self) -> None:
        """Compile the control statements, then forbid everybody else to compile any."""
        for sql in (_BEGIN, _COMMIT, *_CONTROL):
            self._connection.execute(sql)

        def authorize(action: int, *_: str | None) -> int:
            forbidden = action in (sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_SAVEPOINT)
            return sqlite3.SQLITE_DENY if forbidden and not self._controlling else sqlite3.SQLITE_OK

        self._connection.set_authorizer(authorize)

    def _next_batch(self) -> list[Job] | None:
        """Everything that waits now, at least one job; None when closing."""
        first = self._queue.get()
        if first is None:
            return None
        batch = first
        try:
            while len(batch) < MAX_BATCH:
                jobs = self._queue.get_nowait()
                if jobs is None:
                    self._queue.put(None)
                    break
                batch += jobs
        except Empty:
            pass
        return batch

    def _serve(self, batch: list[Job]) -> None:
        try:
            if self.fatal is not None:
                self._fail(batch, DatabaseUnavailable(f"refusing work after: {self.fatal}"))
            elif not self._attempt(batch):
                # One job took everyone's transaction along, or the commit failed because of one of them.
                # Alone in its own transaction each succeeds or fails on what is durable, and only the culprit
                # fails.
                for job in batch:
                    self._attempt([job])
        except BaseException as error:
            _log.exception("writer_crashed")
            self.fatal = self.fatal or DatabaseOutcomeUnknown(f"the writer crashed: {error!r}")
            self._fail(batch, self.fatal)
        self._deliver(batch, self.fatal)
        if self.fatal is None and self._changes != (changes := self._connection.total_changes):
            self._changes = changes
            self._committed(self._connection)

    def _attempt(self, jobs: list[Job], *, apart: bool = False) -> bool:
        """One transaction over `jobs`. False when it is undone and the jobs must be run one by one.

        `apart`: one of them has failed and taken the others along, which run once more, each undone alone.
        """
        if not self._begin(jobs):
            return True
        begun = perf_counter()
        connection = self._connection
        alone = len(jobs) == 1
        stored = 0
        for job in jobs:
            if apart and job.error is not None:
                continue  # It has failed on the very state that it would find again.
            if apart:
                self._control(_SAVEPOINT)
            written = connection.total_changes
            failure = self._run(job)
            if failure is not None:
                self._broken(jobs, failure)
                return True
            if not connection.in_transaction:
                return alone
            if job.error is None:
                stored += 1
            elif apart:
                self._control(_ROLLBACK_TO)
            elif not alone and connection.total_changes != written:
                self._undo()
                return self._attempt(jobs, apart=True)
            if apart:
                self._control(_RELEASE)
        if not stored:
            self._control(_ROLLBACK)
            return True
        return self._commit(jobs, stored, begun)

    def _begin(self, jobs: list[Job]) -> bool:
        """False when there can be no transaction; the jobs know why."""
        if self.fatal is not None:
            self._fail(jobs, DatabaseUnavailable(f"refusing work after: {self.fatal}"))
            return False
        try:
            self._control(_BEGIN)
        except sqlite3.Error as error:
            busy = primary_code(error) == sqlite3.SQLITE_BUSY
            failure = DatabaseBusyElsewhere(str(error)) if busy else storage_failure(error)
            self._broken(jobs, failure or DatabaseUnavailable(str(error)))
            return False
        return True

    def _run(self, job: Job) -> DatabaseError | None:
        """Run one job; the failure returned concerns the store itself, hence everybody."""
        tx = SqliteTx(self._connection)
        job.error = None
        job.callbacks = tx.callbacks
        try:
            job.result = job.run(tx)
            if job.label and self._awake:
                self._reach(f"{job.label}.before_commit")
        except BaseException as error:
            job.error = error
        finally:
            tx.close()
        if job.error is None and not self._connection.in_transaction:
            job.error = TransactionEnded("the job ended its transaction")
        return next(filter(None, map(storage_failure, tx.errors)), None) if tx.errors else None

    def _commit(self, jobs: list[Job], stored: int, begun: float) -> bool:
        try:
            self._reach(BEFORE_COMMIT)
            self._control(_COMMIT)
        except (sqlite3.Error, FaultInjected) as error:
            failure = storage_failure(error)
            if failure is None and isinstance(error, sqlite3.IntegrityError):
                self._undo()
                if len(jobs) > 1:
                    return False
                jobs[0].error = error
                return True
            self._broken(jobs, failure or DatabaseUnavailable(f"commit failed: {error}"))
            return True
        self.commits += 1
        self.measures.add(perf_counter() - begun, stored)
        self._after_commit(jobs)
        return True

    def _after_commit(self, jobs: list[Job]) -> None:
        """The faults that strike between durability and its acknowledgement."""
        if not self._awake:
            return
        try:
            if self._reach(AFTER_COMMIT) is FaultMode.LOST_ACK:
                self._fail(jobs, DatabaseOutcomeUnknown("the acknowledgement was lost"))
        except FaultInjected as error:
            self._broken(jobs, DatabaseOutcomeUnknown(str(error)))
            return
        for job in jobs:
            if not job.label or job.error is not None:
                continue
            site = f"{job.label}.after_commit"
            try:
                mode = self._reach(site)
            except FaultInjected as error:
                job.error = error
                continue
            if mode is FaultMode.LOST_ACK:
                job.error = FaultInjected(site)
            elif mode is FaultMode.DUPLICATE:
                again = Job(job.run, "", None)
                self._attempt([again])
                if again.error is None:
                    job.callbacks = [*job.callbacks, *again.callbacks]

    def _reach(self, site: str) -> FaultMode | None:
        return self._faults.reach(site) if self._awake and self._faults.knows(site) else None

    def _broken(self, jobs: list[Job], failure: DatabaseError) -> None:
        """The store failed: undo, tell all of them, and stop for good where nothing can be trusted."""
        self._undo()
        if is_fatal(failure):
            self.fatal = failure
        self._fail(jobs, failure)

    def _undo(self) -> None:
        if self._connection.in_transaction:
            try:
                self._control(_ROLLBACK)
            except sqlite3.Error as error:
                self.fatal = self.fatal or DatabaseOutcomeUnknown(f"rollback failed: {error}")

    def _fail(self, jobs: list[Job], failure: DatabaseError) -> None:
        for job in jobs:
            job.fail(failure)

    def _control(self, sql: str) -> None:
        self._controlling = True
        try:
            self._connection.execute(sql)
        finally:
            self._controlling = False
