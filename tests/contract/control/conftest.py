"""A SQL resource store on a real database, by the machine's clock and by one that the test owns."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lineloop.control.stores.sql import SqlStore
from lineloop.kit.clock import SystemClock
from lineloop.kit.database import Database
from lineloop.kit.engines import open_database
from lineloop.kit.ids import Ids
from lineloop.testing import FakeClock
from lineloop.testing.databases import server_database


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    """With the server's schema, of which the store and the leases are a part."""
    database = await open_database(server_database(tmp_path / "control.db"), clock=SystemClock())
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
