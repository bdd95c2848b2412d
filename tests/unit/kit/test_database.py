"""The one writer: what shares a commit, what is undone, and who is told what."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop
from tests.unit.kit.notes import Job, note, numbers, outcomes, refuse, stored

from lineloop.kit.clock import SystemClock
from lineloop.kit.database import (
    DATABASE_FAULT_SITES,
    DatabaseUnavailable,
    QueueFull,
    TransactionEnded,
    Tx,
)
from lineloop.kit.faults import FaultInjected, Faults
from lineloop.kit.sqlite.database import SqliteDatabase
from lineloop.testing import until


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


@pytest.mark.requirement("K3")
async def test_a_turn_of_the_loop_is_one_commit_also_when_the_writer_idles(database: SqliteDatabase) -> None:
    before = database.commits
    await outcomes(*(database.submit(note(number)) for number in range(100)))
    assert database.commits == before + 1


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
