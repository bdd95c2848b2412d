"""Leases: one holder at a time, and a late one is refused at its write."""

from __future__ import annotations

import asyncio

import pytest

from lineloop.control.lease import Lease
from lineloop.kit.database import Database, Tx
from lineloop.kit.tasks import Tasks
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import LoopError
from lineloop.testing import FakeClock, until


@pytest.fixture
def leases(database: Database, clock: FakeClock) -> tuple[Lease, Lease]:
    return Lease(database, "r", "a", clock), Lease(database, "r", "b", clock)


@pytest.mark.requirement("K36")
async def test_a_held_lease_is_refused_to_others_until_it_expires_or_is_released(
    leases: tuple[Lease, Lease], clock: FakeClock
) -> None:
    a, b = leases
    assert await a.acquire()
    assert not await b.acquire()
    await clock.advance(14)
    assert await a.renew()
    await clock.advance(14)
    assert not await b.acquire()
    await clock.advance(1)
    assert await b.acquire()
    assert (a.token, b.token) == (1, 2)
    assert not await a.renew()
    assert a.token is None
    await b.release()
    assert await a.acquire()
    assert a.token == 3, "the token never repeats"


@pytest.mark.requirement("K36")
async def test_the_writes_of_a_holder_that_overslept_are_refused(
    leases: tuple[Lease, Lease], database: Database, clock: FakeClock
) -> None:
    a, b = leases
    written: list[str] = []

    def work(lease: Lease) -> None:
        def job(tx: Tx) -> None:
            lease.check_in(tx)
            tx.after_commit(lambda: written.append(str(lease.token)))

        written_future = database.submit(job)
        waiting.append(written_future)

    waiting: list[asyncio.Future[None]] = []
    await a.acquire()
    work(a)
    await waiting.pop()
    await clock.advance(20)
    await b.acquire()
    work(a)
    with pytest.raises(LoopError) as caught:
        await waiting.pop()
    assert caught.value.code == ErrorCode.LEASE_LOST
    work(b)
    await waiting.pop()
    assert written == ["1", "2"]


@pytest.mark.requirement("K36")
async def test_keeping_a_lease_tells_of_gain_and_loss(
    leases: tuple[Lease, Lease], database: Database, clock: FakeClock
) -> None:
    a, b = leases
    told: list[str] = []
    await b.acquire()
    async with Tasks("test") as tasks:
        tasks.spawn(
            a.keep(lambda token: told.append(f"gained {token}"), lambda: told.append("lost")), name="keep"
        )
        await clock.advance(10)
        assert told == []
        await clock.advance(10)
        await until(lambda: told == ["gained 2"])
        await clock.advance(100)
        assert told == ["gained 2"]
        await database.write(lambda tx: tx.run("UPDATE leases SET holder = 'b', token = 9"))
        await clock.advance(5)
        await until(lambda: told == ["gained 2", "lost"])


@pytest.mark.requirement("K36")
async def test_a_holder_that_cannot_reach_the_table_gives_up_before_others_may_take_over(
    leases: tuple[Lease, Lease], database: Database, clock: FakeClock
) -> None:
    a, _ = leases
    told: list[tuple[str, float]] = []
    start = clock.monotonic()
    async with Tasks("test") as tasks:
        tasks.spawn(
            a.keep(
                lambda _: told.append(("gained", clock.monotonic() - start)),
                lambda: told.append(("lost", clock.monotonic() - start)),
            ),
            name="keep",
        )
        await until(lambda: told)
        await database.close()
        await clock.advance(15)
        assert [what for what, _ in told] == ["gained", "lost"]
        assert told[1][1] < 15
