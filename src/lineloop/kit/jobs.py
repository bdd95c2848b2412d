"""Queued database jobs between a loop and an engine's threads: the same for every engine.

Decides how many may wait, in which order answers and after-commit callbacks reach the loop, and what a
failure that ends the database does. What runs in which transaction is the engine's decision.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import structlog

from lineloop.kit.storage_errors import DatabaseCorrupt, DatabaseError, DatabaseUnavailable, QueueFull

BEFORE_COMMIT = "database.before_commit"
AFTER_COMMIT = "database.after_commit"

_log = structlog.get_logger(__name__)


class Job:
    """A function to run in a transaction, and what came of it."""

    __slots__ = ("callbacks", "error", "future", "label", "lane", "result", "run", "undoing")

    def __init__(
        self,
        run: Callable[[Any], Any],
        label: str,
        future: asyncio.Future[Any] | None,
        lane: str = "",
    ) -> None:
        self.run = run
        self.label = label
        self.lane = lane
        self.future = future
        self.result: Any = None
        self.error: BaseException | None = None
        self.callbacks: list[Callable[[], object]] = []
        self.undoing: list[Callable[[], object]] = []

    def undone(self) -> None:
        """What the last run wrote is not stored, or nobody knows."""
        for callback in self.undoing:
            _run_callback(callback, self.label)
        self.undoing = []

    def fail(self, failure: DatabaseError) -> None:
        """Each waiter gets its own exception: a shared one would collect every waiter's traceback."""
        self.error = type(failure)(*failure.args)
        self.error.__cause__ = failure.__cause__


class Desk:
    """Where the loop's side hands jobs over, and engines give answers back. `where` is for the log."""

    def __init__(
        self,
        where: str,
        loop: asyncio.AbstractEventLoop,
        queue_limit: int,
        on_fatal: Callable[[BaseException], None] | None,
    ) -> None:
        self._where = where
        self._loop = loop
        self._queue_limit = queue_limit
        self._on_fatal = on_fatal
        self._waiting = 0
        self._reading = 0
        self._fatal: DatabaseError | None = None
        self.closed = False

    @property
    def idle(self) -> bool:
        """Whether every job and read has been answered."""
        return not self._waiting and not self._reading

    def writing(self, run: Callable[[Any], Any], label: str, lane: str) -> tuple[Job, asyncio.Future[Any]]:
        """A job to write with. Raises QueueFull, DatabaseUnavailable."""
        if self.closed or self._fatal is not None:
            raise DatabaseUnavailable(f"refusing work after: {self._fatal}" if self._fatal else "closed")
        if self._waiting >= self._queue_limit:
            raise QueueFull(f"{self._waiting} jobs are waiting")
        self._waiting += 1
        future: asyncio.Future[Any] = self._loop.create_future()
        return Job(run, label, future, lane), future

    def reading(self, run: Callable[[Any], Any]) -> tuple[Job, asyncio.Future[Any]]:
        """A job to read with. Raises QueueFull, DatabaseUnavailable."""
        if self.closed:
            raise DatabaseUnavailable("closed")
        if self._reading >= self._queue_limit:
            raise QueueFull(f"{self._reading} reads are waiting")
        self._reading += 1
        future: asyncio.Future[Any] = self._loop.create_future()
        return Job(run, "", future), future

    def written(self, jobs: list[Job], fatal: DatabaseError | None) -> None:
        """Jobs have their outcome; `fatal` is why no more are accepted. Called on an engine's thread."""
        self._call(self._deliver, jobs, fatal)

    def read(self, job: Job) -> None:
        """A read has its outcome. Called on an engine's thread."""
        self._call(self._deliver_read, job)

    def _call(self, function: Callable[..., None], *args: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            # The loop was closed under us: nobody is left to be told, and what was committed stays committed.
            _log.warning("database_answer_without_loop", where=self._where)

    def _deliver(self, jobs: list[Job], fatal: DatabaseError | None) -> None:
        self._waiting -= len(jobs)
        for job in jobs:
            if job.error is None:
                for callback in job.callbacks:
                    _run_callback(callback, job.label)
        for job in jobs:
            future = job.future
            if future is not None and not _resolve(future, job) and job.error is not None:
                _log.warning("unwatched_job_failed", label=job.label, error=repr(job.error))
        if fatal is not None:
            self._end_with(fatal)

    def _deliver_read(self, job: Job) -> None:
        self._reading -= 1
        if job.future is not None:
            _resolve(job.future, job)
        if isinstance(job.error, DatabaseCorrupt):
            # What is damaged for a reader is damaged for everybody.
            self._end_with(job.error)

    def _end_with(self, fatal: DatabaseError) -> None:
        if self._fatal is None:
            self._fatal = fatal
            _log.error("database_fatal", where=self._where, error=repr(fatal))
            if self._on_fatal is not None:
                self._on_fatal(type(fatal)(f"{self._where}: {fatal}"))


def _resolve(future: asyncio.Future[Any], job: Job) -> bool:
    """Give a waiter its answer, on the loop. False when nobody waits any more."""
    if future.done():
        return False
    error = job.error
    if error is None:
        future.set_result(job.result)
    elif isinstance(error, StopIteration | KeyboardInterrupt | SystemExit):
        # These mean something else to a loop than "the job failed".
        wrapped = RuntimeError(f"the job raised {error!r}")
        wrapped.__cause__ = error
        future.set_exception(wrapped)
    else:
        future.set_exception(error)
    return True


def _run_callback(callback: Callable[[], object], label: str) -> None:
    try:
        callback()
    except Exception:
        _log.exception("after_job_failed", label=label)
