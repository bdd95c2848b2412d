"""What every stateful part of a device stands on: one database, one time, one source of ids, one device."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import field
from typing import TypeVar

from lineloop.kit.clock import Clock
from lineloop.kit.database import Database, DatabaseError, Tx
from lineloop.kit.faults import Faults
from lineloop.kit.ids import Ids
from lineloop.kit.records import record
from lineloop.protocol.errors import StorageUnavailable

T = TypeVar("T")


@record
class Foundation:
    """Handed to the parts of one device. `runtime_id` is in every row they write."""

    database: Database
    clock: Clock
    ids: Ids
    runtime_id: str
    faults: Faults = field(default_factory=Faults.none)

    async def write(self, job: Callable[[Tx], T], label: str = "") -> T:
        """`Database.write`, with its failures as StorageUnavailable."""
        return await _coded(self.database.write(job, label=label))

    async def read(self, job: Callable[[Tx], T]) -> T:
        """`Database.read`, with its failures as StorageUnavailable."""
        return await _coded(self.database.read(job))


async def _coded(work: Awaitable[T]) -> T:
    try:
        return await work
    except DatabaseError as error:
        raise StorageUnavailable(str(error)) from error
