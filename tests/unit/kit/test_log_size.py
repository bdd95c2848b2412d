"""The write-ahead log stays small whatever is written, and shrinks again after a large burst."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from lineloop.kit.database import Tx
from lineloop.kit.sqlite.database import SqliteDatabase
from lineloop.testing import until

pytestmark = pytest.mark.slow

MIB = 1 << 20
USUAL_BYTES = 8 * MIB
PATIENCE_SECONDS = 60.0
INSERT = "INSERT INTO notes(owner, number, body) VALUES (:owner, :number, zeroblob(:size))"


def row(number: int, size: int, owner: str = "me") -> Callable[[Tx], int]:
    return lambda tx: tx.run(INSERT, {"owner": owner, "number": number, "size": size})


def rows(first: int, count: int, size: int) -> Callable[[Tx], int]:
    def job(tx: Tx) -> int:
        return sum(row(number, size)(tx) for number in range(first, first + count))

    return job


def log_bytes(path: Path) -> int:
    return path.with_name(f"{path.name}-wal").stat().st_size


@pytest.mark.requirement("K11")
async def test_large_rows_after_many_small_ones_keep_the_log_small(
    database: SqliteDatabase, path: Path
) -> None:
    for first in range(0, 60_000, 3000):
        await database.write(rows(first, 3000, 0))
    largest = 0
    for number in range(100_000, 100_200):
        await database.write(row(number, 200_000))
        largest = max(largest, log_bytes(path))
    assert largest < 2 * USUAL_BYTES, "the rows took 40 MB"


@pytest.mark.requirement("K11")
async def test_the_log_shrinks_when_writes_go_on_after_a_burst(database: SqliteDatabase, path: Path) -> None:
    await database.write(rows(0, 100, 200_000))
    assert log_bytes(path) > 2 * USUAL_BYTES
    for number in range(1000, 1100):
        await database.write(row(number, 10))
    await until(lambda: log_bytes(path) <= USUAL_BYTES, PATIENCE_SECONDS)


@pytest.mark.requirement("K11")
async def test_the_log_shrinks_when_nothing_is_written_after_a_burst(
    database: SqliteDatabase, path: Path
) -> None:
    await database.write(rows(0, 100, 200_000))
    await until(lambda: log_bytes(path) <= USUAL_BYTES, PATIENCE_SECONDS)


@pytest.mark.requirement("K11")
async def test_the_log_shrinks_after_a_long_reader_of_another_process_has_ended(
    database: SqliteDatabase, path: Path
) -> None:
    await database.write(row(0, 10))
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM notes").fetchone()[0] == 1
        for number in range(1, 100):
            await database.write(row(number, 200_000))
        assert log_bytes(path) > 2 * USUAL_BYTES, "what the reader sees must stay"
        assert reader.execute("SELECT count(*) FROM notes").fetchone()[0] == 1
        reader.execute("COMMIT")
    for number in range(1000, 1200):
        await database.write(row(number, 30_000))
    await until(lambda: log_bytes(path) <= USUAL_BYTES, PATIENCE_SECONDS)


@pytest.mark.requirement("K11")
async def test_reads_that_overlap_without_a_gap_do_not_let_the_log_grow(
    database: SqliteDatabase, path: Path
) -> None:
    stop = threading.Event()

    def slow(tx: Tx) -> int:
        found = tx.all("SELECT count(*) FROM notes")[0][0]
        stop.wait(0.05)
        return found

    async def reader() -> None:
        while not stop.is_set():
            await database.read(slow)

    largest = 0
    async with asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(reader())
        for number in range(300):
            await database.write(row(number, 200_000))
            largest = max(largest, log_bytes(path))
        stop.set()
    assert largest < 3 * USUAL_BYTES, "the rows took 60 MB"


@pytest.mark.requirement("K11")
async def test_a_long_read_of_this_process_holds_no_write_up_for_long(
    database: SqliteDatabase, path: Path
) -> None:
    entered, release = threading.Event(), threading.Event()

    def hold(tx: Tx) -> int:
        found = tx.all("SELECT count(*) FROM notes")[0][0]
        entered.set()
        assert release.wait(PATIENCE_SECONDS)
        return found

    await database.write(row(0, 10))
    async with asyncio.TaskGroup() as group:
        read = group.create_task(database.read(hold))
        await asyncio.to_thread(entered.wait, PATIENCE_SECONDS)
        for number in range(1, 100):
            await database.write(row(number, 200_000))
        assert not read.done()
        release.set()
        assert await read == 1
    for number in range(1000, 1200):
        await database.write(row(number, 30_000))
    await until(lambda: log_bytes(path) <= USUAL_BYTES, PATIENCE_SECONDS)
