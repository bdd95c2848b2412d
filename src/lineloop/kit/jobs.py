"""A queued database job, and how its answer reaches the one who waits: the same for every engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import structlog

from lineloop.kit.storage_errors import DatabaseError

BEFORE_COMMIT = "database.before_commit"
AFTER_COMMIT = "database.after_commit"

_log = structlog.get_logger(__name__)


class Job:
    """A function to run in a transaction, and what came of it."""

    __slots__ = ("callbacks", "error", "future", "label", "result", "run")

    def __init__(self, run: Callable[[Any], Any], label: str, future: asyncio.Future[Any] | None) -> None:
        self.run = run
        self.label = label
        self.future = future
        self.result: Any = None
        self.error: BaseException | None = None
        self.callbacks: list[Callable[[], object]] = []

    def fail(self, failure: DatabaseError) -> None:
        """Each waiter gets its own exception: a shared one would collect every waiter's traceback."""
        self.error = type(failure)(*failure.args)
        self.error.__cause__ = failure.__cause__


def answer(jobs: list[Job]) -> None:
    """On the loop: what was to follow the commit, in the order of the jobs, then every waiter's answer."""
    for job in jobs:
        if job.error is None:
            for callback in job.callbacks:
                _run_callback(callback, job.label)
    for job in jobs:
        future = job.future
        if future is not None and not resolve(future, job) and job.error is not None:
            _log.warning("unwatched_job_failed", label=job.label, error=repr(job.error))


def resolve(future: asyncio.Future[Any], job: Job) -> bool:
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
        _log.exception("after_commit_failed", label=label)
