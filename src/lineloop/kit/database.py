"""The port of a transactional store: jobs in, group commits out (design decision 3).

Decides what every engine promises, and the situations in which it fails (`storage_errors`). The engines are
`kit.sqlite` (a file of one machine) and `kit.postgres` (a database that several servers share). SQL is a
literal string with `:name` parameters that both understand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from lineloop.kit.filesystem import NetworkFilesystem
from lineloop.kit.jobs import AFTER_COMMIT, BEFORE_COMMIT
from lineloop.kit.measures import CommitMeasures
from lineloop.kit.storage_errors import (
    DatabaseBusyElsewhere,
    DatabaseCorrupt,
    DatabaseError,
    DatabaseOutcomeUnknown,
    DatabaseUnavailable,
    QueueFull,
    TransactionEnded,
)

__all__ = [
    "DATABASE_FAULT_SITES",
    "Database",
    "DatabaseBusyElsewhere",
    "DatabaseCorrupt",
    "DatabaseError",
    "DatabaseOutcomeUnknown",
    "DatabaseUnavailable",
    "NetworkFilesystem",
    "Params",
    "QueueFull",
    "Row",
    "TransactionEnded",
    "Tx",
]

T = TypeVar("T")

DATABASE_FAULT_SITES = (BEFORE_COMMIT, AFTER_COMMIT)

Params = Mapping[str, object] | Sequence[object]


class Row(Protocol):
    """A row of an answer: values by column name and by place."""

    def __getitem__(self, name: str | int, /) -> Any: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __len__(self) -> int: ...
    def keys(self) -> Sequence[str]: ...


class Tx(Protocol):
    """What a job sees: SQL within one transaction, and a word for after the commit. Worthless after the job
    has returned; when a transaction begins and ends is never the job's decision.
    """

    @property
    def shared(self) -> bool:
        """Whether somebody else may write at the same time, so that `lock` is needed and costs something."""
        ...

    def execute(self, sql: str, params: Params = ..., /) -> Iterator[Row]:
        """Run one statement; its rows, while the job runs. Raises the driver's errors."""
        ...

    def one(self, sql: str, params: Params = ..., /) -> Row | None:
        """The first row, or None."""
        ...

    def all(self, sql: str, params: Params = ..., /) -> list[Row]:
        """Every row."""
        ...

    def run(self, sql: str, params: Params = ..., /) -> int:
        """Run one statement and tell how many rows it changed."""
        ...

    def put(self, sql: str, params: Params = ..., /) -> None:
        """Run one statement of which only the effect is wanted. An engine may send it together with the next
        one; it fails at the latest when the job ends.
        """
        ...

    def later(self, sql: str, params: Params = ..., /) -> Callable[[], list[Row]]:
        """As `put`, for a statement whose rows are wanted once the job is durable: call the answer in an
        `after_commit`. Within the job calling it waits, as `all` does.
        """
        ...

    def after_commit(self, callback: Callable[[], object], /) -> None:
        """Call `callback` on the event loop once this job is durable, before its future resolves.

        Callbacks run in job order. Dropped when the job fails or its transaction rolls back; a callback that
        raises is logged and stops nobody.
        """
        ...

    def if_undone(self, callback: Callable[[], object], /) -> None:
        """Call `callback`, on the engine's thread, when what this run wrote is not stored, or nobody knows.

        For a memory that several jobs share, where somebody else may write too; an engine that is not
        `shared` never calls it.
        """
        ...

    def lock(self, name: str, /) -> None:
        """Let nobody else, in any process, hold `name` until this transaction has ended.

        Take it before reading what a decision stands on, and the outer name before the inner one. An engine
        with one writer has nothing to do here.
        """
        ...


class Database(Protocol):
    """An open database, used from the loop on which it was opened.

    A job is a sync function `(tx) -> answer` of SQL and decisions: re-runnable, at most 5 ms, no I/O of its
    own. A job with a `label` reaches the fault sites `<label>.before_commit` and `<label>.after_commit` by
    itself, when `faults` knows them: RAISE before undoes the job; after the commit RAISE and LOST_ACK lose
    the answer, DUPLICATE runs the job a second time.
    """

    async def write(self, job: Callable[[Tx], T], *, label: str = "", lane: str = "") -> T:
        """Run `job` in a transaction; returns once its writes are durable.

        Raises what the job raised (then none of its writes are kept), QueueFull, DatabaseUnavailable,
        DatabaseBusyElsewhere (nothing stored), DatabaseOutcomeUnknown, DatabaseCorrupt. Cancelling the caller
        never cancels the job.
        """
        ...

    def submit(self, job: Callable[[Tx], T], label: str = "", lane: str = "") -> asyncio.Future[T]:
        """Queue `job` now. What is submitted in one `lane` keeps its order, and what waits there shares one
        commit; an engine with one writer has one lane only. Loop thread only.

        Raises QueueFull, DatabaseUnavailable; everything else comes through the future.
        """
        ...

    async def read(self, job: Callable[[Tx], T]) -> T:
        """Run `job` on a snapshot that contains every acknowledged write; writing is an error there.

        Raises what the job raised, QueueFull, DatabaseUnavailable, DatabaseCorrupt.
        """
        ...

    @property
    def idle(self) -> bool:
        """Whether every job and read has been answered."""
        ...

    @property
    def commits(self) -> int:
        """Transactions committed by this process."""
        ...

    @property
    def measures(self) -> CommitMeasures:
        """How long transactions of this process took to become durable, and how many jobs shared them."""
        ...

    async def close(self) -> None:
        """Finish queued work and let go of everything. Later calls do nothing."""
        ...
