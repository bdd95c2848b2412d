"""A SQL resource store on a real file, by the machine's clock and by one that the test owns."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lineloop.control.lease import LEASES_DDL
from lineloop.control.stores.sql import DDL, SqlStore
from lineloop.kit.clock import SystemClock
from lineloop.kit.database import Database, Tx
from lineloop.kit.ids import Ids
from lineloop.kit.sqlite.database import SqliteDatabase
from lineloop.testing import FakeClock


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    database = await SqliteDatabase.open(tmp_path / "control.db", clock=SystemClock())

    def create(tx: Tx) -> None:
        for statement in (*DDL, LEASES_DDL):
            tx.run(statement)

    await database.write(create)
    yield database
    await database.close()


@pytest.fixture
def clock(database: Database) -> FakeClock:
    clock = FakeClock()
    clock.settle_on(lambda: database.idle)
    return clock


@pytest.fixture
def sql_store(database: Database, clock: FakeClock) -> SqlStore:
    return SqlStore(database, clock, Ids(clock, random.Random(1)))
