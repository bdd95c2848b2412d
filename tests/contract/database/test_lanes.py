"""The writers of PostgreSQL: what shares a commit, what is undone, what runs again, who is told what."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

import psycopg
import pytest
from tests.services.postgres import PostgresServer

from lineloop.kit.clock import SystemClock
from lineloop.kit.database import (
    DATABASE_FAULT_SITES,
    DatabaseBusyElsewhere,
    DatabaseOutcomeUnknown,
    DatabaseUnavailable,
    QueueFull,
    Tx,
)
from lineloop.kit.faults import FaultInjected, Faults
from lineloop.kit.postgres import connecting
from lineloop.kit.postgres.database import PostgresDatabase
from lineloop.kit.postgres.transaction import lock_number
from lineloop.testing import until

INSERT = "INSERT INTO notes (number, body) VALUES (:number, :body)"


def note(number: int, body: str = "") -> Callable[[Tx], int]:
    def job(tx: Tx) -> int:
        tx.put(INSERT, {"number": number, "body": body})
        return number

    return job


def numbers(tx: Tx) -> list[int]:
    return [row["number"] for row in tx.all("SELECT number FROM notes ORDER BY number")]


class Gate:
    """Keeps a lane busy, so that what is submitted meanwhile shares a batch."""

    def __init__(self, database: PostgresDatabase, lane: str) -> None:
        self._inside, self._open = threading.Event(), threading.Event()
        self.future = database.submit(self._stand, lane=lane)

    def _stand(self, _: Tx) -> None:
        self._inside.set()
        self._open.wait(10)

    async def closed(self) -> None:
        """Until the lane stands."""
        await asyncio.to_thread(self._inside.wait, 10)

    def open(self) -> None:
        self._open.set()


@pytest.mark.requirement("R11")
async def test_what_waits_in_a_lane_shares_one_commit_in_order(database: PostgresDatabase) -> None:
    gate = Gate(database, "a")
    await gate.closed()
    before = database.commits
    order: list[int] = []

    def job(number: int) -> Callable[[Tx], None]:
        def run(tx: Tx) -> None:
            note(number)(tx)
            tx.after_commit(lambda: order.append(number))

        return run

    futures = [database.submit(job(number), lane="a") for number in range(20)]
    gate.open()
    await asyncio.gather(gate.future, *futures)
    assert order == list(range(20))
    assert database.commits - before == 2
    assert await database.read(numbers) == list(range(20))


@pytest.mark.requirement("R11")
@pytest.mark.parametrize("lane", ["a", ""])
async def test_a_failing_job_is_undone_alone(database: PostgresDatabase, lane: str) -> None:
    gate = Gate(database, lane)
    await gate.closed()

    def wrong(tx: Tx) -> None:
        note(1)(tx)
        raise LookupError("no")

    def broken(tx: Tx) -> None:
        note(2)(tx)
        tx.run("INSERT INTO nowhere VALUES (1)")

    def reading(tx: Tx) -> None:
        tx.all("SELECT nothing FROM nowhere")

    jobs = [note(10), wrong, note(11), broken, reading, note(12), note(10), note(13)]
    futures = [database.submit(job, lane=lane) for job in jobs]
    gate.open()
    results = await asyncio.gather(*futures, return_exceptions=True)
    assert [result for result in results if isinstance(result, int)] == [10, 11, 12, 13]
    assert isinstance(results[1], LookupError)
    assert isinstance(results[3], psycopg.errors.UndefinedTable)
    assert isinstance(results[4], psycopg.errors.UndefinedTable)
    assert isinstance(results[6], psycopg.errors.UniqueViolation)
    assert await database.read(numbers) == [10, 11, 12, 13]
    await gate.future


@pytest.mark.requirement("R11")
async def test_a_job_that_swallows_its_failed_statement_is_not_stored(database: PostgresDatabase) -> None:
    def hiding(tx: Tx) -> str:
        try:
            tx.run("INSERT INTO nowhere VALUES (1)")
        except psycopg.Error:
            return "nothing happened"
        return "?"

    with pytest.raises(psycopg.errors.UndefinedTable):
        await database.write(hiding, lane="a")
    gate = Gate(database, "a")
    await gate.closed()
    futures = [database.submit(job, lane="a") for job in (note(1), hiding, note(2))]
    gate.open()
    results = await asyncio.gather(*futures, return_exceptions=True)
    assert isinstance(results[1], psycopg.errors.UndefinedTable)
    assert await database.read(numbers) == [1, 2]


@pytest.mark.requirement("R11")
async def test_a_row_that_another_wrote_first_makes_the_job_run_again(
    database: PostgresDatabase, postgres_url: str
) -> None:
    """Both look, neither sees, both write: the later one looks again and answers what stands."""
    other = await PostgresDatabase.open(postgres_url, clock=SystemClock())
    meet = threading.Barrier(2, timeout=10)
    runs: list[str] = []

    def find_or_make(name: str) -> Callable[[Tx], str]:
        def job(tx: Tx) -> str:
            runs.append(name)
            found = tx.one("SELECT body FROM notes WHERE number = 1")
            if found is not None:
                return found["body"]
            if runs.count(name) == 1:
                meet.wait()
            tx.put(INSERT, {"number": 1, "body": name})
            return name

        return job

    answers = await asyncio.gather(
        database.write(find_or_make("here"), lane="a"), other.write(find_or_make("there"), lane="a")
    )
    assert answers[0] == answers[1]
    assert len(runs) == 3
    await other.close()


@pytest.mark.requirement("R11")
async def test_jobs_that_wait_for_each_other_in_a_circle_all_succeed(database: PostgresDatabase) -> None:
    await database.write(lambda tx: [note(number)(tx) for number in (1, 2)])
    meet = threading.Barrier(2, timeout=10)
    tries = {"a": 0, "b": 0}

    def crossing(name: str, first: int, second: int) -> Callable[[Tx], None]:
        def job(tx: Tx) -> None:
            tries[name] += 1
            change = "UPDATE notes SET body = body || :name WHERE number = :number"
            tx.run(change, {"name": name, "number": first})
            if tries[name] == 1:
                meet.wait()
            tx.run(change, {"name": name, "number": second})

        return job

    # Two lanes, whichever numbers the names have.
    lanes = [f"lane{n}" for n in range(20)]
    await asyncio.gather(
        database.write(crossing("a", 1, 2), lane=lanes[0]), database.write(crossing("b", 2, 1))
    )
    bodies = await database.read(lambda tx: [row[0] for row in tx.all("SELECT body FROM notes")])
    assert [sorted(body) for body in bodies] == [["a", "b"], ["a", "b"]]
    assert sorted(tries.values()) == [1, 2]


@pytest.mark.requirement("R11")
async def test_a_lock_that_is_held_for_long_is_told_and_nothing_is_stored(
    database: PostgresDatabase, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connecting.SETTINGS, "lock_timeout", 50)
    other = await PostgresDatabase.open(postgres_url, clock=SystemClock())

    def locked(tx: Tx) -> None:
        tx.lock("one")
        note(1)(tx)

    with psycopg.connect(postgres_url) as holder:
        holder.execute("SELECT pg_advisory_xact_lock(%s)", (lock_number("one"),))
        with pytest.raises(DatabaseBusyElsewhere):
            await other.write(locked, lane="one")
    await other.write(locked, lane="one")
    assert await other.read(numbers) == [1]
    await other.close()


async def test_a_lock_lets_one_transaction_in_at_a_time(
    database: PostgresDatabase, postgres_url: str
) -> None:
    """What is read under the lock is what stands: counting by reading and writing loses nothing."""
    other = await PostgresDatabase.open(postgres_url, clock=SystemClock())
    await database.write(note(1, "0"))

    def count(tx: Tx) -> None:
        tx.lock("one")
        row = tx.one("SELECT body FROM notes WHERE number = 1")
        assert row is not None
        tx.put("UPDATE notes SET body = :body WHERE number = 1", {"body": str(int(row[0]) + 1)})

    places = (database, other)
    await asyncio.gather(*(places[n % 2].write(count, lane=("one", "")[n % 3 == 0]) for n in range(60)))
    row = await database.read(lambda tx: tx.one("SELECT body FROM notes"))
    assert row is not None
    assert row["body"] == "60"
    await other.close()


@pytest.mark.requirement("R9")
async def test_a_restart_under_load_costs_errors_never_what_was_accepted(
    database: PostgresDatabase, postgres_server: PostgresServer
) -> None:
    accepted: set[int] = set()
    refused: set[int] = set()
    stop = asyncio.Event()

    async def writer(first: int) -> None:
        for number in range(first, 1_000_000, 8):
            if stop.is_set():
                return
            try:
                accepted.add(await database.write(note(number), lane=f"lane{number % 5}"))
            except (DatabaseUnavailable, DatabaseOutcomeUnknown):
                refused.add(number)

    writers = asyncio.gather(*(writer(first) for first in range(8)))
    for _ in range(2):
        before = len(accepted)
        await asyncio.sleep(0.3)
        await asyncio.to_thread(postgres_server.restart_immediately)
        await until(lambda before=before: len(accepted) >= before + 50, 20.0)
    stop.set()
    await writers
    stored = set(await database.read(numbers))
    assert accepted <= stored
    assert stored <= accepted | refused


@pytest.mark.requirement("R9")
async def test_a_connection_that_is_cut_before_the_commit_runs_the_job_again(
    database: PostgresDatabase, postgres_server: PostgresServer
) -> None:
    runs = 0

    def cut(tx: Tx) -> int:
        nonlocal runs
        runs += 1
        tx.run(INSERT, {"number": runs, "body": ""})
        row = tx.one("SELECT pg_backend_pid() AS pid")
        assert row is not None
        if runs == 1:
            postgres_server.sql(f"SELECT pg_terminate_backend({row['pid']}, 5000)")
        note(10)(tx)
        return runs

    assert await database.write(cut, lane="a") == 2
    assert await database.read(numbers) == [2, 10]


@pytest.mark.requirement("R9")
async def test_a_connection_that_is_cut_at_the_commit_leaves_the_outcome_open(
    database: PostgresDatabase, postgres_server: PostgresServer, postgres_url: str
) -> None:
    name = postgres_url.rpartition("/")[2]
    for statement in (
        "CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN PERFORM pg_sleep(20); RETURN NULL; END'",
        "CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON notes DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW WHEN (NEW.body = 'slow') EXECUTE FUNCTION dawdle()",
    ):
        postgres_server.sql(statement, name)
    future = database.submit(note(1, "slow"), lane="a")
    asking = "SELECT pid FROM pg_stat_activity WHERE query = 'COMMIT' AND state = 'active'"
    found = await until(lambda: postgres_server.sql(asking), 10.0)
    postgres_server.sql(f"SELECT pg_terminate_backend({found[0][0]})")
    with pytest.raises(DatabaseOutcomeUnknown):
        await future
    # The database goes on; the same request finds out.
    await database.write(note(2), lane="a")
    assert await database.read(numbers) == [2]


@pytest.mark.requirement("R9")
async def test_a_job_that_stands_still_lets_others_in(
    database: PostgresDatabase, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a server that was stopped in the middle: the lock comes free, and its job starts over."""
    monkeypatch.setitem(connecting.SETTINGS, "idle_in_transaction_session_timeout", 200)
    stopped = await PostgresDatabase.open(postgres_url, clock=SystemClock())
    inside, go_on = threading.Event(), threading.Event()
    runs = 0

    def stand_still(tx: Tx) -> None:
        nonlocal runs
        runs += 1
        tx.lock("one")
        tx.run("UPDATE notes SET body = body || 'late' WHERE number = 1")
        inside.set()
        go_on.wait(10)

    def quick(tx: Tx) -> None:
        tx.lock("one")
        tx.put("UPDATE notes SET body = body || 'quick ' WHERE number = 1")

    await database.write(note(1))
    future = stopped.submit(stand_still, lane="one")
    await asyncio.to_thread(inside.wait, 10)
    begun = time.monotonic()
    await database.write(quick, lane="one")
    assert time.monotonic() - begun < 5
    go_on.set()
    await future
    row = await database.read(lambda tx: tx.one("SELECT body FROM notes"))
    assert row is not None
    assert (row["body"], runs) == ("quick late", 2)
    await stopped.close()


async def test_a_read_is_one_snapshot_and_writes_nothing(database: PostgresDatabase) -> None:
    await database.write(note(1))
    looked, written = threading.Event(), threading.Event()

    def twice(tx: Tx) -> tuple[list[int], list[int]]:
        first = numbers(tx)
        looked.set()
        written.wait(10)
        return first, numbers(tx)

    reading = asyncio.ensure_future(database.read(twice))
    await asyncio.to_thread(looked.wait, 10)
    await database.write(note(2))
    written.set()
    assert await reading == ([1], [1])
    assert await database.read(numbers) == [1, 2]
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        await database.read(note(3))
    assert await database.read(numbers) == [1, 2]


async def test_the_faults_of_a_commit(postgres_url: str, database: PostgresDatabase) -> None:
    before, after = DATABASE_FAULT_SITES
    plans = {
        f"{before}:raise": (DatabaseUnavailable, 0),
        f"{after}:raise": (DatabaseOutcomeUnknown, 1),
        f"{after}:lost_ack": (DatabaseOutcomeUnknown, 1),
        "x.before_commit:raise": (FaultInjected, 0),
        "x.after_commit:raise": (FaultInjected, 1),
    }
    sites = (*DATABASE_FAULT_SITES, "x.before_commit", "x.after_commit")
    for number, (plan, (error, stored)) in enumerate(plans.items()):
        faulty = await PostgresDatabase.open(postgres_url, clock=SystemClock(), faults=Faults(sites, plan))
        with pytest.raises(error):
            await faulty.write(note(number), label="x", lane="a")
        assert await database.read(lambda tx, number=number: numbers(tx).count(number)) == stored
        assert await faulty.write(note(100 + number), label="x", lane="a") == 100 + number
        await faulty.close()


async def test_too_many_waiting_jobs_are_refused_and_closing_finishes_the_rest(postgres_url: str) -> None:
    database = await PostgresDatabase.open(postgres_url, clock=SystemClock(), queue_limit=2)
    gate = Gate(database, "a")
    waiting = database.submit(lambda tx: tx.run("SELECT 1"), lane="a")
    with pytest.raises(QueueFull):
        database.submit(lambda _: None, lane="a")
    assert not database.idle
    gate.open()
    await database.close()
    assert await waiting == 1
    assert database.idle
    with pytest.raises(DatabaseUnavailable):
        database.submit(lambda _: None)


async def test_values_come_back_as_they_went(database: PostgresDatabase) -> None:
    body = "ünï:co'de\n\\x41 " + "🙂" * 3
    await database.write(note(2**62, body))
    row = await database.read(lambda tx: tx.one("SELECT number, body, NULL AS nothing FROM notes"))
    assert row is not None
    assert (tuple(row), list(row.keys()), len(row)) == (
        (2**62, body, None),
        ["number", "body", "nothing"],
        3,
    )
    assert (row[1], row["number"]) == (body, 2**62)
    large = "x" * (9 << 20)
    await database.write(note(1, large), lane="a")
    answer = await database.read(lambda tx: tx.one("SELECT body FROM notes WHERE number = 1"))
    assert answer is not None
    assert answer["body"] == large


async def test_rows_for_later_are_there_after_the_commit_and_within_the_job(
    database: PostgresDatabase,
) -> None:
    told: list[list[int]] = []
    change = "UPDATE notes SET body = :body WHERE number < 3 RETURNING number"

    def job(tx: Tx) -> int:
        rows = tx.later(change, {"body": "x"})
        tx.after_commit(lambda: told.append(sorted(row["number"] for row in rows())))
        return len(tx.later(change, {"body": "y"})())

    await database.write(lambda tx: [note(number)(tx) for number in (1, 2, 3)])
    assert await database.write(job, lane="a") == 2
    assert told == [[1, 2]]

    def failing(tx: Tx) -> None:
        tx.later("INSERT INTO notes (number, body) VALUES (1, :body) RETURNING number", {"body": "again"})

    with pytest.raises(psycopg.errors.UniqueViolation):
        await database.write(failing, lane="a")
