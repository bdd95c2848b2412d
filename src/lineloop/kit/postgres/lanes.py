"""Lanes of writers: jobs in, group commits out, on several connections (decision 0026).

A lane is a thread with a connection. What waits in it shares one transaction; a job that fails is undone
alone, by a savepoint that stands before its first write. The jobs of a transaction are run in the order of
their lane names, so that every process takes locks in the same order; a job without a lane name may lock what
it likes, and has its transaction to itself. What a transaction met that may not happen again (a deadlock, a
lock that was held for long, a row that another had written first) makes its jobs run again one by one.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

import structlog

from lineloop.kit.backoff import Backoff
from lineloop.kit.faults import FaultInjected, FaultMode, Faults
from lineloop.kit.jobs import AFTER_COMMIT, BEFORE_COMMIT, Job
from lineloop.kit.measures import CommitMeasures
from lineloop.kit.postgres.failures import ConnectionLost, storage_failure, worth_another_run
from lineloop.kit.postgres.session import Session, now
from lineloop.kit.postgres.statements import translated
from lineloop.kit.postgres.transaction import PgTx
from lineloop.kit.storage_errors import (
    DatabaseCorrupt,
    DatabaseError,
    DatabaseOutcomeUnknown,
    DatabaseUnavailable,
)

# Beyond 64 subtransactions a backend tells the others of its transaction in a slower way.
_MAX_BATCH = 60
_RUNS = 4
_PATIENCE_SECONDS = 10.0

_BEGIN = translated("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
_COMMIT = translated("COMMIT")
_ROLLBACK = translated("ROLLBACK")
_ROLLBACK_TO = translated("ROLLBACK TO SAVEPOINT job")
_RELEASE = translated("RELEASE SAVEPOINT job")

_log = structlog.get_logger(__name__)


class Connector:
    """The connection of one thread: opened at first need, and again when it was lost.

    After `_PATIENCE_SECONDS` without a server everybody is told at once, until one answers again.
    """

    def __init__(self, open_session: Callable[[], Session], closing: threading.Event) -> None:
        self._open = open_session
        self._closing = closing
        self._session: Session | None = None
        self._lost_at: float | None = None

    def get(self) -> Session:
        """Raises DatabaseUnavailable."""
        backoff = Backoff(0.05, limit_seconds=1.0)
        attempt = 0
        while self._session is None:
            try:
                self._session = self._open()
            except ConnectionLost as error:
                self._lost_at = self._lost_at or now()
                left = self._lost_at + _PATIENCE_SECONDS - now()
                if left <= 0 or self._closing.wait(min(backoff.delay(attempt), left)):
                    raise DatabaseUnavailable(str(error)) from error
                attempt += 1
        self._lost_at = None
        return self._session

    @property
    def current(self) -> Session | None:
        """The connection that stands, or None."""
        return self._session

    def drop(self, why: object) -> None:
        if self._session is not None:
            _log.warning("database_connection_lost", error=str(why))
            self._session.close()
            self._session = None

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None


class Lane:
    """`put` is the only door in, `deliver(jobs, fatal)` the only one out, once per batch."""

    def __init__(
        self,
        name: str,
        open_session: Callable[[], Session],
        deliver: Callable[[list[Job], DatabaseError | None], None],
        faults: Faults,
    ) -> None:
        self._deliver = deliver
        self._faults = faults
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self.put = self._queue.put
        self._closing = threading.Event()
        self._connector = Connector(open_session, self._closing)
        self._thread = threading.Thread(target=self._main, name=f"lineloop-{name}", daemon=True)
        self._committing = False
        self.commits = 0
        self.measures = CommitMeasures()
        self.fatal: DatabaseError | None = None

    def open(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Finish what is queued, without waiting for a server that is away, and end the thread. Blocks."""
        self._queue.put(None)
        self._closing.set()
        self._thread.join()

    def _main(self) -> None:
        while (batch := self._next_batch()) is not None:
            try:
                self._serve(batch)
            except BaseException as error:
                _log.exception("lane_crashed")
                self._connector.drop(error)
                self._fail(batch, DatabaseOutcomeUnknown(f"the lane crashed: {error!r}"))
            self._undone([job for job in batch if job.error is not None])
            self._deliver(batch, self.fatal)
        self._connector.close()

    def _next_batch(self) -> list[Job] | None:
        """Everything that waits now, at least one job; None when closing."""
        first = self._queue.get()
        if first is None:
            return None
        batch = [first]
        try:
            while len(batch) < _MAX_BATCH:
                job = self._queue.get_nowait()
                if job is None:
                    self._queue.put(None)
                    break
                batch.append(job)
        except Empty:
            pass
        return batch

    def _serve(self, batch: list[Job]) -> None:
        together = sorted((job for job in batch if job.lane), key=lambda job: job.lane)
        apart = [job for job in batch if not job.lane]
        if len(together) == 1 or not (together and self._attempt(together)):
            apart = together + apart
            together = []
        for job in together:
            if worth_another_run(job.error):
                self._run_alone(job, first=1)
        for job in apart:
            self._run_alone(job)

    def _run_alone(self, job: Job, *, first: int = 0) -> None:
        """Until it succeeds, fails by its own doing, or has met others too often."""
        backoff = Backoff(0.005, limit_seconds=0.1, jitter=0.5, random=random.Random())
        for run in range(first, _RUNS):
            if run:
                self._closing.wait(backoff.delay(run))
            self._attempt([job])
            if job.error is None or not worth_another_run(job.error):
                return
        assert job.error is not None
        if (failure := storage_failure(job.error)) is not None:
            failure.__cause__ = job.error
            job.error = failure

    def _attempt(self, jobs: list[Job]) -> bool:
        """One transaction over `jobs`. False when it is undone and the jobs must be run one by one."""
        lost: ConnectionLost | None = None
        for _ in range(_RUNS):
            if self.fatal is not None:
                self._fail(jobs, DatabaseUnavailable(f"refusing work after: {self.fatal}"))
                return True
            try:
                session = self._connector.get()
            except DatabaseUnavailable as failure:
                self._fail(jobs, failure)
                return True
            self._committing = False
            try:
                if self._transaction(session, jobs):
                    return True
                self._undone(jobs)
                return False
            except ConnectionLost as error:
                self._connector.drop(error)
                self._undone(jobs)
                if self._committing and not session.surely_before(_COMMIT):
                    self._fail(
                        jobs, DatabaseOutcomeUnknown(f"the connection was lost at the commit: {error}")
                    )
                    return True
                lost = error
        self._fail(jobs, DatabaseUnavailable(f"the connection is lost again and again: {lost}"))
        return True

    def _transaction(self, session: Session, jobs: list[Job]) -> bool:
        begun = now()
        alone = len(jobs) == 1
        locks: set[str] = set()
        stored = 0
        session.owner = None
        session.tell(_BEGIN)
        for job in jobs:
            tx = PgTx(session, locks, guarded=not alone)
            self._run(session, job, tx)
            failure = session.failure
            if failure is not None:
                if failure.owner is not job or not tx.saved:
                    self._undo(session)
                    return self._alone_failed(jobs, failure.error)
                job.error = failure.error
                session.sync()
                session.settle()
            if job.error is None:
                stored += 1
            else:
                job.undone()
                if tx.saved:
                    session.tell(_ROLLBACK_TO)
                    locks.clear()
            if tx.saved:
                session.tell(_RELEASE)
        if not stored:
            self._undo(session)
            return True
        return self._commit(session, jobs, stored, begun)

    def _run(self, session: Session, job: Job, tx: PgTx) -> None:
        session.owner = job
        job.error = None
        job.callbacks = tx.callbacks
        job.undoing = tx.undoing
        try:
            job.result = job.run(tx)
            if job.label:
                self._reach(f"{job.label}.before_commit")
        except BaseException as error:
            job.error = error
        finally:
            session.owner = None
        if session.lost is not None:
            raise session.lost

    def _commit(self, session: Session, jobs: list[Job], stored: int, begun: float) -> bool:
        try:
            self._reach(BEFORE_COMMIT)
        except FaultInjected as error:
            self._undo(session)
            self._fail(jobs, DatabaseUnavailable(f"commit failed: {error}"))
            return True
        self._committing = True
        session.tell(_COMMIT)
        session.sync()
        failure = session.settle()
        self._committing = False
        if failure is not None:
            self._undo(session)
            return self._alone_failed(jobs, failure.error)
        if session.last_tag != b"COMMIT":
            return self._alone_failed(jobs, DatabaseUnavailable("the transaction was undone"))
        self.commits += 1
        self.measures.add(now() - begun, stored)
        self._after_commit(jobs)
        return True

    def _alone_failed(self, jobs: list[Job], error: BaseException) -> bool:
        """Whether the jobs have their outcome: one that was alone has it, several are run one by one."""
        if len(jobs) > 1:
            return False
        failure = None if worth_another_run(error) else storage_failure(error)
        if isinstance(failure, DatabaseCorrupt):
            self.fatal = failure
        if failure is not None:
            failure.__cause__ = error
        jobs[0].error = failure or error
        return True

    def _undo(self, session: Session) -> None:
        session.sync()
        session.settle()
        session.tell(_ROLLBACK)
        session.sync()
        session.settle()

    def _after_commit(self, jobs: list[Job]) -> None:
        """The faults that strike between durability and its acknowledgement."""
        try:
            if self._reach(AFTER_COMMIT) is FaultMode.LOST_ACK:
                self._fail(jobs, DatabaseOutcomeUnknown("the acknowledgement was lost"))
        except FaultInjected as error:
            self._fail(jobs, DatabaseOutcomeUnknown(str(error)))
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
        return self._faults.reach(site) if self._faults.knows(site) else None

    def _undone(self, jobs: list[Job]) -> None:
        for job in jobs:
            job.undone()

    def _fail(self, jobs: list[Job], failure: DatabaseError) -> None:
        for job in jobs:
            job.fail(failure)
