"""The one writer: what shares a commit, what is undone, and who is told what."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
import uvloop

from lineloop.kit.clock import SystemClock
from lineloop.kit.database import (
    DATABASE_FAULT_SITES,
    DatabaseBusyElsewhere,
    DatabaseCorrupt,
    DatabaseOutcomeUnknown,
    DatabaseUnavailable,
    QueueFull,
    TransactionEnded,
    Tx,
)
from lineloop.kit.faults import FaultInjected, Faults
from lineloop.kit.sqlite import database as database_module
from lineloop.kit.sqlite.database import SqliteDatabase
from lineloop.testing import until

Child = Callable[..., "subprocess.Popen[str]"]
Job = Callable[[Tx], int]


def note(number: int, owner: str = "me") -> Job:
    def job(tx: Tx) -> int:
        tx.run(
            "INSERT INTO notes(owner, number) VALUES (:owner, :number)", {"owner": owner, "number": number}
        )
        return number

    return job


def numbers(tx: Tx) -> list[int]:
    return [row["number"] for row in tx.all("SELECT number FROM notes ORDER BY id")]


def stored(path: Path, owner: str = "me") -> set[int]:
    with closing(sqlite3.connect(path)) as connection:
        return {
            row[0]
            for row in connection.execute("SELECT number FROM notes WHERE owner = ?", (owner,)).fetchall()
        }


NOTES = """CREATE TABLE notes(
    id INTEGER PRIMARY KEY, owner TEXT NOT NULL, number INTEGER NOT NULL, body BLOB, UNIQUE(owner, number)
)"""


def damage(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (path.stat().st_size - 4096))


def refuse(tx: Tx) -> int:
    note(99)(tx)
    raise KeyError("no")


async def outcomes(*futures: asyncio.Future[Any]) -> list[Any]:
    return await asyncio.gather(*futures, return_exceptions=True)


@pytest.mark.requirement("K2")
async def test_a_failing_job_is_undone_alone(database: SqliteDatabase, gate: Any) -> None:
    async with gate:
        futures = [database.submit(job) for job in (note(1), refuse, note(2))]
    first, failed, last = await outcomes(*futures)
    assert (first, last) == (1, 2)
    assert isinstance(failed, KeyError)
    assert await database.read(numbers) == [1, 2]


@pytest.mark.requirement("K2")
async def test_each_failure_of_a_batch_is_decided_once_and_undone_alone(
    database: SqliteDatabase, gate: Any
) -> None:
    ran: list[str] = []

    def named(name: str, job: Callable[[Tx], int]) -> Callable[[Tx], int]:
        def run(tx: Tx) -> int:
            ran.append(name)
            return job(tx)

        return run

    def refuse_unwritten(tx: Tx) -> int:
        raise LookupError(tx.all("SELECT number FROM notes"))

    jobs = {"one": note(1), "unwritten": refuse_unwritten, "first": refuse, "two": note(2), "last": refuse}
    async with gate:
        futures = [database.submit(named(name, job)) for name, job in jobs.items()]
    one, unwritten, first, two, last = await outcomes(*futures)
    assert (one, two) == (1, 2)
    assert [type(unwritten), type(first), type(last)] == [LookupError, KeyError, KeyError]
    assert await database.read(numbers) == [1, 2]
    # What failed is not asked again; what shared its transaction runs once more.
    assert ran == ["one", "unwritten", "first", "one", "two", "last"]


@pytest.mark.requirement("K2")
async def test_a_job_that_fails_alone_stores_nothing(database: SqliteDatabase) -> None:
    with pytest.raises(KeyError):
        await database.write(refuse)
    assert await database.write(note(1)) == 1
    assert await database.read(numbers) == [1]


@pytest.mark.requirement("K2")
async def test_a_job_may_survive_its_own_failed_statement(database: SqliteDatabase) -> None:
    def twice(tx: Tx) -> str:
        note(1)(tx)
        try:
            note(1)(tx)
        except sqlite3.IntegrityError:
            return "known"
        return "new"

    assert await database.write(twice) == "known"
    assert await database.read(numbers) == [1]


@pytest.mark.requirement("K3")
async def test_jobs_submitted_in_one_go_keep_their_order_and_share_one_commit(
    database: SqliteDatabase, gate: Any
) -> None:
    async with gate:
        before = database.commits
        futures = [database.submit(note(number)) for number in range(100)]
    assert await outcomes(*futures) == list(range(100))
    assert await database.read(numbers) == list(range(100))
    assert database.commits == before + 2, "the gate's own and one for all"


@pytest.mark.requirement("K4")
async def test_after_commit_runs_in_job_order_before_any_future_of_the_batch(
    database: SqliteDatabase, gate: Any
) -> None:
    seen: list[str] = []

    def with_word(number: int) -> Job:
        def job(tx: Tx) -> int:
            tx.after_commit(lambda: seen.append(f"word {number}"))
            return note(number)(tx)

        return job

    def failing(tx: Tx) -> int:
        tx.after_commit(lambda: seen.append("never"))
        return refuse(tx)

    async with gate:
        futures = [database.submit(job) for job in (with_word(1), failing, with_word(2))]
        for number, future in enumerate(futures):
            future.add_done_callback(lambda _, number=number: seen.append(f"answer {number}"))
    await outcomes(*futures)
    await until(lambda: len(seen) == 5)
    assert seen == ["word 1", "word 2", "answer 0", "answer 1", "answer 2"]


@pytest.mark.requirement("K4")
async def test_an_after_commit_callback_that_raises_stops_nobody(database: SqliteDatabase) -> None:
    seen: list[int] = []

    def job(tx: Tx) -> int:
        tx.after_commit(lambda: 1 // 0)
        tx.after_commit(lambda: seen.append(1))
        return note(1)(tx)

    assert await database.write(job) == 1
    assert seen == [1]


@pytest.mark.requirement("K5")
async def test_a_job_that_takes_the_transaction_along_harms_nobody_else(
    database: SqliteDatabase, gate: Any
) -> None:
    words: list[int] = []

    def counted(number: int) -> Job:
        def job(tx: Tx) -> int:
            tx.after_commit(lambda: words.append(number))
            return note(number)(tx)

        return job

    def rolls_everything_back(tx: Tx) -> int:
        return tx.run("INSERT OR ROLLBACK INTO notes(owner, number) VALUES ('me', 1)")

    async with gate:
        futures = [database.submit(job) for job in (counted(1), rolls_everything_back, counted(2))]
    first, culprit, last = await outcomes(*futures)
    assert (first, last) == (1, 2)
    assert isinstance(culprit, sqlite3.IntegrityError)
    assert await database.read(numbers) == [1, 2]
    assert words == [1, 2]


@pytest.mark.requirement("K5")
async def test_a_job_that_hides_the_lost_transaction_is_told_so(database: SqliteDatabase) -> None:
    def hides(tx: Tx) -> int:
        note(1)(tx)
        try:
            tx.run("INSERT OR ROLLBACK INTO notes(owner, number) VALUES ('me', 1)")
        except sqlite3.IntegrityError:
            return 1
        return 0

    with pytest.raises(TransactionEnded):
        await database.write(hides)
    assert await database.read(numbers) == []


@pytest.mark.requirement("K5")
@pytest.mark.parametrize("sql", ["COMMIT", "ROLLBACK", "BEGIN", "SAVEPOINT mine", "RELEASE job"])
async def test_a_job_cannot_end_or_split_its_transaction(database: SqliteDatabase, sql: str) -> None:
    def job(tx: Tx) -> None:
        note(1)(tx)
        tx.execute(sql)

    with pytest.raises(sqlite3.DatabaseError, match="not authorized"):
        await database.write(job)
    assert await database.read(numbers) == []


@pytest.mark.requirement("K6")
async def test_a_commit_that_fails_because_of_one_job_fails_only_that_job(
    database: SqliteDatabase, gate: Any
) -> None:
    await database.write(
        lambda tx: tx.run(
            "CREATE TABLE replies(note INTEGER REFERENCES notes(id) DEFERRABLE INITIALLY DEFERRED)"
        )
    )
    async with gate:
        futures = [
            database.submit(note(1)),
            database.submit(lambda tx: tx.run("INSERT INTO replies(note) VALUES (404)")),
            database.submit(note(2)),
        ]
    first, culprit, last = await outcomes(*futures)
    assert (first, last) == (1, 2)
    assert isinstance(culprit, sqlite3.IntegrityError)
    assert await database.read(numbers) == [1, 2]


@pytest.mark.requirement("K6")
async def test_a_commit_that_fails_for_another_reason_stores_nothing_and_tells_everyone(made: Path) -> None:
    faults = Faults(DATABASE_FAULT_SITES, "database.before_commit:raise:2")
    database = await SqliteDatabase.open(made, clock=SystemClock(), faults=faults)
    await database.write(note(1))
    assert [type(o) for o in await outcomes(database.submit(note(2)))] == [DatabaseUnavailable]
    assert await database.write(note(3)) == 3
    assert await database.read(numbers) == [1, 3]
    await database.close()


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


@pytest.mark.requirement("K12")
async def test_cancelling_the_caller_never_cancels_the_job(database: SqliteDatabase, gate: Any) -> None:
    async with gate:
        waiter = asyncio.get_running_loop().create_task(database.write(note(1)))
        await asyncio.sleep(0)
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
    assert await database.write(note(2)) == 2
    assert await database.read(numbers) == [1, 2]


@pytest.mark.requirement("K13")
async def test_close_finishes_the_queued_work_and_refuses_more(
    database: SqliteDatabase, path: Path, gate: Any
) -> None:
    async with gate:
        futures = [database.submit(note(number)) for number in range(50)]
        closing_task = asyncio.get_running_loop().create_task(database.close())
        await asyncio.sleep(0)
        with pytest.raises(DatabaseUnavailable):
            database.submit(note(99))
    await closing_task
    assert await outcomes(*futures) == list(range(50))
    with pytest.raises(DatabaseUnavailable):
        await database.read(numbers)
    assert stored(path) == set(range(50))


@pytest.mark.requirement("K14")
async def test_a_read_sees_every_acknowledged_write_and_cannot_write(database: SqliteDatabase) -> None:
    for number in range(20):
        await database.write(note(number))
        assert len(await database.read(numbers)) == number + 1
    with pytest.raises(sqlite3.OperationalError):
        await database.read(note(99))
    assert len(await database.read(numbers)) == 20


@pytest.mark.requirement("K14")
async def test_a_cursor_that_outlives_its_job_is_closed(database: SqliteDatabase) -> None:
    await database.write(note(1))
    cursor = await database.read(lambda tx: tx.execute("SELECT number FROM notes"))
    with pytest.raises(sqlite3.ProgrammingError):
        next(cursor)


@pytest.mark.requirement("K15")
async def test_the_queue_is_bounded_and_empties_again(made: Path) -> None:
    faults = Faults(DATABASE_FAULT_SITES, "database.before_commit:hang")
    database = await SqliteDatabase.open(made, clock=SystemClock(), faults=faults, queue_limit=3)
    futures = [database.submit(note(number)) for number in range(3)]
    with pytest.raises(QueueFull):
        database.submit(note(3))
    faults.release()
    assert await outcomes(*futures) == [0, 1, 2]
    assert await database.write(note(4)) == 4
    assert database.idle
    await database.close()


@pytest.mark.requirement("K16")
async def test_labels_reach_the_fault_sites_around_their_commit(made: Path) -> None:
    plan = "note.before_commit:raise:1,note.after_commit:lost_ack:1"
    faults = Faults(["note.before_commit", "note.after_commit"], plan)
    database = await SqliteDatabase.open(made, clock=SystemClock(), faults=faults)
    with pytest.raises(FaultInjected):
        await database.write(note(1), label="note")
    assert await database.read(numbers) == []
    with pytest.raises(FaultInjected):
        await database.write(note(2), label="note")
    assert await database.read(numbers) == [2]
    assert await database.write(note(3), label="note") == 3
    assert faults.reached == {"note.before_commit": 3, "note.after_commit": 2}
    await database.close()


@pytest.mark.requirement("K16")
async def test_a_duplicated_job_runs_twice_and_answers_once(made: Path) -> None:
    faults = Faults(["note.before_commit", "note.after_commit"], "note.after_commit:duplicate")
    database = await SqliteDatabase.open(made, clock=SystemClock(), faults=faults)
    runs: list[int] = []

    def job(tx: Tx) -> int:
        runs.append(1)
        return note(len(runs))(tx)

    assert await database.write(job, label="note") == 1
    assert await database.read(numbers) == [1, 2]
    await database.close()


@pytest.mark.requirement("K3")
def test_everything_works_under_uvloop_too(path: Path) -> None:
    async def main() -> list[int]:
        database = await SqliteDatabase.open(path, clock=SystemClock())
        await database.write(lambda tx: tx.run("CREATE TABLE notes(id INTEGER PRIMARY KEY, owner, number)"))
        await asyncio.gather(*(database.submit(note(number)) for number in range(100)))
        try:
            return await database.read(numbers)
        finally:
            await database.close()

    assert uvloop.run(main()) == list(range(100))
