"""A PostgreSQL database with one table."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from lineloop.kit.clock import SystemClock
from lineloop.kit.postgres.database import PostgresDatabase

NOTES = "CREATE TABLE notes (number BIGINT PRIMARY KEY, body TEXT NOT NULL)"


@pytest.fixture
async def database(postgres_url: str) -> AsyncGenerator[PostgresDatabase]:
    database = await PostgresDatabase.open(postgres_url, clock=SystemClock())
    await database.write(lambda tx: tx.run(NOTES))
    yield database
    await database.close()
