"""The one writer when the disk is full or fails, and when its file is damaged."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.unit.kit.notes import NOTES, Child, note, numbers, outcomes, stored

from lineloop.kit.clock import SystemClock
from lineloop.kit.database import (
    DATABASE_FAULT_SITES,
    DatabaseCorrupt,
    DatabaseOutcomeUnknown,
    DatabaseUnavailable,
    Tx,
)
from lineloop.kit.faults import Faults
from lineloop.kit.sqlite.database import SqliteDatabase
from lineloop.testing import until


def damage(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (path.stat().st_size - 4096))


@pytest.mark.requirement("K7")
async def test_a_full_disk_fails_every_job_of_the_batch_and_ends_when_there_is_room(
    database: SqliteDatabase, gate: Any
) -> None:
    def no_more_pages(tx: Tx) -> None:
        pages = tx.all("PRAGMA page_count")[0][0]
        tx.all(f"PRAGMA max_page_count = {pages}")

    big = "INSERT INTO notes(owner, number, body) VALUES ('big', 0, zeroblob(100000))"
    await database.write(no_more_pages)
    async with gate:
        futures = [
            database.submit(note(1)),
            database.submit(lambda tx: tx.run(big)),
            database.submit(note(2)),
        ]
    assert [type(outcome) for outcome in await outcomes(*futures)] == [DatabaseUnavailable] * 3
    assert await database.read(numbers) == []
    await database.write(lambda tx: tx.all("PRAGMA max_page_count = 100000"))
    await database.write(lambda tx: tx.run(big))
    assert await database.write(note(3)) == 3
    assert await database.read(numbers) == [0, 3]


@pytest.mark.requirement("K7")
async def test_a_job_that_swallows_the_full_disk_is_not_stored_either(database: SqliteDatabase) -> None:
    def swallow(tx: Tx) -> int:
        tx.all(f"PRAGMA max_page_count = {tx.all('PRAGMA page_count')[0][0]}")
        for sql in (
            "INSERT INTO notes(owner, number, body) VALUES ('big', 0, zeroblob(100000))",
            "INSERT INTO notes(owner, number) VALUES ('me', NULL)",
        ):
            with suppress(sqlite3.Error):
                tx.run(sql)
        return 1

    with pytest.raises(DatabaseUnavailable):
        await database.write(swallow)
    assert await database.read(numbers) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    point = tmp_path / "disk"
    point.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(point)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("mounting a small disk needs root; the page limit test covers the same answers")
    yield point
    subprocess.run(["umount", "-l", str(point)], check=True)


@pytest.mark.requirement("K7")
async def test_a_really_full_disk_loses_nothing_acknowledged_and_heals(small_disk: Path) -> None:
    database = await SqliteDatabase.open(small_disk / "kit.db", clock=SystemClock())
    await database.write(lambda tx: tx.run(NOTES))
    filler = small_disk / "filler"
    filler.write_bytes(bytes(300_000))
    acknowledged: list[int] = []
    insert = "INSERT INTO notes(owner, number, body) VALUES ('me', :number, zeroblob(9000))"
    with pytest.raises(DatabaseUnavailable):
        for number in range(1000):
            await database.write(lambda tx, number=number: tx.run(insert, {"number": number}))
            acknowledged.append(number)
    assert await database.read(numbers) == acknowledged
    filler.unlink()
    await database.write(lambda tx: tx.run(insert, {"number": -1}))
    assert await database.read(numbers) == [*acknowledged, -1]
    await database.close()


@pytest.mark.requirement("K8")
async def test_after_an_io_error_the_outcome_is_unknown_and_the_database_refuses_work(
    made: Path, child: Child
) -> None:
    output, _ = await asyncio.to_thread(child("hit_io_error", made).communicate)
    assert json.loads(output) == {
        "outcomes": ["DatabaseOutcomeUnknown", "DatabaseOutcomeUnknown"],
        "fatal": ["DatabaseOutcomeUnknown"],
        "refused": "DatabaseUnavailable",
    }
    assert stored(made, "before") == {1}


@pytest.mark.requirement("K8")
async def test_a_failure_after_the_commit_is_an_unknown_outcome_and_fatal(made: Path) -> None:
    fatal: list[BaseException] = []
    faults = Faults(DATABASE_FAULT_SITES, "database.after_commit:raise")
    database = await SqliteDatabase.open(made, clock=SystemClock(), faults=faults, on_fatal=fatal.append)
    with pytest.raises(DatabaseOutcomeUnknown):
        await database.write(note(1))
    await until(lambda: fatal)
    with pytest.raises(DatabaseUnavailable):
        await database.write(note(2))
    assert await database.read(numbers) == [1]
    await database.close()


@pytest.mark.requirement("K9")
@pytest.mark.parametrize("verb", ["read", "write"])
async def test_a_damaged_file_is_reported_as_corrupt_and_refuses_work(made: Path, verb: str) -> None:
    database = await SqliteDatabase.open(made, clock=SystemClock())
    await database.write(
        lambda tx: tx.run(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000) "
            "INSERT INTO notes(owner, number) SELECT 'me', i FROM n"
        )
    )
    await database.close()
    damage(made)
    fatal: list[BaseException] = []
    database = await SqliteDatabase.open(made, clock=SystemClock(), on_fatal=fatal.append)
    with pytest.raises(DatabaseCorrupt):
        await getattr(database, verb)(numbers)
    await until(lambda: fatal)
    assert isinstance(fatal[0], DatabaseCorrupt)
    assert str(made) in str(fatal[0])
    with pytest.raises(DatabaseUnavailable):
        await database.write(note(6001))
    await database.close()


@pytest.mark.requirement("K9")
def test_a_file_that_is_no_database_cannot_be_opened(path: Path) -> None:
    path.write_bytes(b"this is not a database file at all" * 500)
    with pytest.raises(DatabaseCorrupt):
        asyncio.run(SqliteDatabase.open(path, clock=SystemClock()))
