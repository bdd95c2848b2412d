"""The one writer beside other processes and readers, and after kill -9."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import pytest
from tests.unit.kit.notes import Child, note, numbers, stored

from lineloop.kit.clock import SystemClock
from lineloop.kit.database import (
    DatabaseBusyElsewhere,
    Tx,
)
from lineloop.kit.sqlite import database as database_module
from lineloop.kit.sqlite.database import SqliteDatabase


@pytest.mark.slow
@pytest.mark.requirement("K10")
async def test_two_processes_write_one_file_and_lose_nothing(made: Path, child: Child) -> None:
    children = [child("write_some", made, owner) for owner in ("a", "b")]
    for process in children:
        output, _ = await asyncio.to_thread(process.communicate)
        assert json.loads(output) == "done"
    assert stored(made, "a") == stored(made, "b") == set(range(400))


@pytest.mark.requirement("K10")
async def test_a_lock_held_elsewhere_fails_the_jobs_and_stores_nothing(
    made: Path, child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "_BUSY_TIMEOUT_SECONDS", 0.05)
    database = await SqliteDatabase.open(made, clock=SystemClock())
    process = child("hold_lock", made)
    assert process.stdout is not None
    assert await asyncio.to_thread(process.stdout.readline) == '"locked"\n'
    with pytest.raises(DatabaseBusyElsewhere):
        await database.write(note(1))
    process.kill()
    process.wait()
    assert await database.write(note(2)) == 2
    assert await database.read(numbers) == [2]
    await database.close()


@pytest.mark.slow
@pytest.mark.requirement("K11")
async def test_checkpoints_go_on_under_readers_and_keep_the_log_small(
    database: SqliteDatabase, path: Path
) -> None:
    insert = "INSERT INTO notes(owner, number, body) VALUES ('me', :number, zeroblob(3000))"
    stop = asyncio.Event()
    reads = 0

    async def reader() -> None:
        nonlocal reads

        def snapshot(tx: Tx) -> tuple[int, int]:
            first = tx.all("SELECT count(*) FROM notes")[0][0]
            return first, tx.all("SELECT count(*) FROM notes")[0][0]

        while not stop.is_set():
            first, second = await database.read(snapshot)
            assert first == second
            reads += 1

    async def writer(start: int) -> None:
        for number in range(start, 6000, 8):
            await database.write(lambda tx, number=number: tx.run(insert, {"number": number}))

    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(reader())
        async with asyncio.TaskGroup() as writers:
            for start in range(8):
                writers.create_task(writer(start))
        stop.set()
    assert reads > 10
    assert database.checkpoints >= 4
    log_bytes = path.with_name("kit.db-wal").stat().st_size
    assert log_bytes < 16 << 20, "the notes took several times as much"
    assert len(await database.read(numbers)) == 6000


@pytest.mark.requirement("K11")
async def test_closing_folds_the_log_into_the_file(made: Path) -> None:
    database = await SqliteDatabase.open(made, clock=SystemClock())
    await database.write(note(1))
    await database.close()
    assert [file.name for file in made.parent.iterdir()] == ["kit.db"]
    assert stored(made) == {1}


@pytest.mark.requirement("K1")
@pytest.mark.parametrize("acknowledgements", [1, 40, pytest.param(400, marks=pytest.mark.slow)])
async def test_what_was_acknowledged_is_readable_after_kill_9(
    made: Path, child: Child, acknowledgements: int
) -> None:
    process = child("write_for_ever", made, "me")
    assert process.stdout is not None
    acknowledged: set[int] = set()
    for _ in range(acknowledgements):
        acknowledged.add(json.loads(await asyncio.to_thread(process.stdout.readline)))
    process.send_signal(signal.SIGKILL)
    rest = await asyncio.to_thread(process.stdout.read)
    acknowledged |= {json.loads(line) for line in rest.splitlines(keepends=True) if line.endswith("\n")}
    process.wait()
    assert process.returncode == -signal.SIGKILL
    database = await SqliteDatabase.open(made, clock=SystemClock())
    assert acknowledged <= set(await database.read(numbers))
    await database.close()


@pytest.mark.requirement("K1", "K16")
@pytest.mark.parametrize(("site", "kept"), [("note.before_commit", set[int]()), ("note.after_commit", {1})])
async def test_a_process_killed_around_its_commit_has_stored_all_or_nothing(
    made: Path, child: Child, site: str, kept: set[int]
) -> None:
    process = child("die_at", made, f"{site}:kill")
    output, _ = await asyncio.to_thread(process.communicate)
    assert process.returncode == -signal.SIGKILL
    assert output == ""
    assert stored(made, "note") == kept
