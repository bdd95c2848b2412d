"""Controllers: every change reaches a reconcile that succeeds, and none runs where it should not."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from lineloop.control.controller import Controller, Manager, Mapper, Request, Result, TerminalError
from lineloop.control.lease import Lease
from lineloop.control.resources import Resource
from lineloop.control.stores.sql import SqlStore
from lineloop.kit.database import Database
from lineloop.testing import FakeClock, until
from lineloop.testing.resource_store_contract import KIND, sample


class Recorder:
    """A reconcile that remembers and can be told what to do."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self.running: Counter[str] = Counter()
        self.most_parallel: Counter[str] = Counter()
        self.behave: Callable[[str], Any] = lambda _: None
        self.hold: asyncio.Event | None = None

    async def __call__(self, request: Request) -> Result | None:
        name = request.name
        self.seen[name] += 1
        self.running[name] += 1
        self.most_parallel[name] = max(self.most_parallel[name], self.running[name])
        try:
            if self.hold is not None:
                await self.hold.wait()
            return self.behave(name)
        finally:
            self.running[name] -= 1


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@asynccontextmanager
async def managed(
    store: SqlStore, clock: FakeClock, *controllers: Controller
) -> AsyncGenerator[Manager, None]:
    manager = Manager(store, clock)
    for controller in controllers:
        manager.add(controller)
    await manager.start()
    await manager.wait_synced()
    try:
        yield manager
    finally:
        await manager.stop()


@pytest.mark.requirement("K33")
async def test_what_exists_and_what_changes_is_reconciled(
    sql_store: SqlStore, clock: FakeClock, recorder: Recorder
) -> None:
    await sql_store.create(sample("old"))
    async with managed(sql_store, clock, Controller(KIND, recorder)) as manager:
        await until(lambda: recorder.seen["old"] == 1)
        await sql_store.create(sample("new"))
        await until(lambda: recorder.seen["new"] == 1)
        await sql_store.delete(KIND, "new")
        await until(lambda: recorder.seen["new"] == 2)
        metrics = manager.metrics()["sample"]
        assert (metrics["reconciles"], metrics["errors"], metrics["queued"]) == (3, 0, 0)


@pytest.mark.requirement("K33")
async def test_predicates_hold_back_what_concerns_nobody(
    sql_store: SqlStore, clock: FakeClock, recorder: Recorder
) -> None:
    def grew(old: Resource | None, new: Resource) -> bool:
        return old is None or new["spec"]["size"] > old["spec"]["size"]

    async with managed(sql_store, clock, Controller(KIND, recorder, predicates=[grew])):
        await sql_store.create(sample("one"))
        await until(lambda: recorder.seen["one"] == 1)
        await sql_store.patch_status(KIND, "one", {"phase": "x"})
        await clock.settle()
        assert recorder.seen["one"] == 1
        await sql_store.patch(KIND, "one", {"spec": {"size": 5}})
        await until(lambda: recorder.seen["one"] == 2)


@pytest.mark.requirement("K33")
async def test_changes_of_owned_and_mapped_kinds_reconcile_the_one_they_concern(
    sql_store: SqlStore, clock: FakeClock, recorder: Recorder
) -> None:
    mapper = Mapper("Setting", lambda resource: [Request(KIND, resource["spec"]["for"])])
    async with managed(sql_store, clock, Controller(KIND, recorder, owns=["Part"], mappers=[mapper])):
        owner = await sql_store.create(sample("one"))
        await until(lambda: recorder.seen["one"] == 1)
        reference = {"kind": KIND, "name": "one", "uid": owner["metadata"]["uid"]}
        part: Resource = {"kind": "Part", "metadata": {"name": "p", "ownerReferences": [reference]}}
        await sql_store.create(part)
        await until(lambda: recorder.seen["one"] == 2)
        await sql_store.create({"kind": "Setting", "metadata": {"name": "s"}, "spec": {"for": "one"}})
        await until(lambda: recorder.seen["one"] == 3)
        await sql_store.delete("Part", "p")
        await until(lambda: recorder.seen["one"] == 4)


@pytest.mark.requirement("K34")
async def test_a_failing_reconcile_is_tried_again_later_and_later_and_forgotten_on_success(
    sql_store: SqlStore, clock: FakeClock, recorder: Recorder
) -> None:
    def fail(_: str) -> None:
        raise KeyError("no")

    recorder.behave = fail
    controller = Controller(KIND, recorder)
    async with managed(sql_store, clock, controller) as manager:
        await sql_store.create(sample("one"))
        await until(lambda: recorder.seen["one"] == 1)
        await clock.advance(0.004)
        assert recorder.seen["one"] == 1
        await clock.advance(0.1)
        assert 4 <= recorder.seen["one"] <= 6
        recorder.behave = lambda _: None
        await clock.advance(1)
        seen = recorder.seen["one"]
        await clock.advance(1000)
        assert recorder.seen["one"] == seen
        assert manager.metrics()["sample"]["errors"] == seen - 1
        assert manager.metrics()["sample"]["delayed"] == 0


@pytest.mark.requirement("K34")
async def test_a_terminal_error_waits_for_the_next_change(
    sql_store: SqlStore, clock: FakeClock, recorder: Recorder
) -> None:
    def give_up(_: str) -> None:
        raise TerminalError("never")

    recorder.behave = give_up
    async with managed(sql_store, clock, Controller(KIND, recorder)) as manager:
        await sql_store.create(sample("one"))
        await until(lambda: recorder.seen["one"] == 1)
        await clock.advance(1000)
        assert recorder.seen["one"] == 1
        await sql_store.patch(KIND, "one", {"spec": {"size": 2}})
        await until(lambda: recorder.seen["one"] == 2)
        assert manager.metrics()["sample"]["terminal_errors"] == 2


@pytest.mark.requirement("K34")
async def test_a_result_asks_for_another_call_later(
    sql_store: SqlStore, clock: FakeClock, recorder: Recorder
) -> None:
    recorder.behave = lambda _: Result(requeue_after_seconds=60)
    async with managed(sql_store, clock, Controller(KIND, recorder)):
        await sql_store.create(sample("one"))
        await until(lambda: recorder.seen["one"] == 1)
        await clock.advance(59)
        assert recorder.seen["one"] == 1
        await clock.advance(1)
        await until(lambda: recorder.seen["one"] == 2)


@pytest.mark.requirement("K34")
async def test_one_object_is_never_reconciled_twice_at_a_time(
    sql_store: SqlStore, clock: FakeClock, recorder: Recorder
) -> None:
    recorder.hold = asyncio.Event()
    async with managed(sql_store, clock, Controller(KIND, recorder, workers=4)):
        await sql_store.create(sample("one"))
        await sql_store.create(sample("two"))
        await until(lambda: len(recorder.seen) == 2)
        for size in range(2, 10):
            await sql_store.patch(KIND, "one", {"spec": {"size": size}})
        await clock.settle()
        assert recorder.seen == {"one": 1, "two": 1}
        recorder.hold.set()
        await until(lambda: recorder.seen["one"] == 2)
        await clock.settle()
        assert recorder.seen == {"one": 2, "two": 1}
        assert recorder.most_parallel == {"one": 1, "two": 1}


@pytest.mark.requirement("K35")
async def test_stopping_lets_a_running_reconcile_end_and_starts_no_other(
    sql_store: SqlStore, clock: FakeClock, recorder: Recorder
) -> None:
    recorder.hold = asyncio.Event()
    async with managed(sql_store, clock, Controller(KIND, recorder, workers=1)) as manager:
        await sql_store.create(sample("one"))
        await sql_store.create(sample("two"))
        await until(lambda: recorder.seen["one"] == 1)
        stopping = asyncio.get_running_loop().create_task(manager.stop())
        await clock.advance(29)
        assert not stopping.done()
        recorder.hold.set()
        await asyncio.wait_for(stopping, 5)
    assert recorder.seen == {"one": 1}
    assert recorder.running["one"] == 0


@pytest.mark.requirement("K35")
async def test_a_reconcile_that_does_not_end_is_cut_off_after_the_grace(
    sql_store: SqlStore, clock: FakeClock, recorder: Recorder
) -> None:
    recorder.hold = asyncio.Event()
    async with managed(sql_store, clock, Controller(KIND, recorder)) as manager:
        await sql_store.create(sample("one"))
        await until(lambda: recorder.seen["one"] == 1)
        stopping = asyncio.get_running_loop().create_task(manager.stop())
        await clock.advance(31)
        await asyncio.wait_for(stopping, 5)
    assert recorder.running["one"] == 0


@pytest.mark.requirement("K36")
async def test_of_two_managers_with_one_lease_only_the_holder_works(
    database: Database, sql_store: SqlStore, clock: FakeClock
) -> None:
    managers: list[Manager] = []
    recorders = [Recorder(), Recorder()]
    for number, recorder in enumerate(recorders):
        lease = Lease(database, "leader", f"replica-{number}", clock)
        manager = Manager(sql_store, clock, lease=lease)
        manager.add(Controller(KIND, recorder))
        managers.append(manager)
    await managers[0].start()
    await managers[0].wait_synced()
    await managers[1].start()
    await sql_store.create(sample("one"))
    await until(lambda: recorders[0].seen["one"] == 1)
    await clock.advance(60)
    assert recorders[1].seen == {}
    await managers[0].stop()
    await clock.advance(6)
    await until(lambda: recorders[1].seen["one"] == 1)
    await managers[1].stop()
    assert recorders[0].seen == {"one": 1}


async def test_a_name_is_taken_once(sql_store: SqlStore, recorder: Recorder) -> None:
    manager = Manager(sql_store, FakeClock())
    manager.add(Controller(KIND, recorder))
    with pytest.raises(ValueError):
        manager.add(Controller(KIND, recorder))
