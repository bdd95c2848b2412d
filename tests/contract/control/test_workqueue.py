"""The work queue: nothing lost, nothing twice, one worker per key."""

from __future__ import annotations

import asyncio
import random

import pytest

from lineloop.control.workqueue import QueueClosed, WorkQueue
from lineloop.kit.tasks import Tasks
from lineloop.testing import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def queue(clock: FakeClock) -> WorkQueue[str]:
    return WorkQueue(clock, random=random.Random(1))


@pytest.mark.requirement("K31")
async def test_a_key_added_many_times_is_one_piece_of_work(queue: WorkQueue[str]) -> None:
    for key in ("a", "b", "a", "a"):
        queue.add(key)
    assert len(queue) == 2
    assert [await queue.get(), await queue.get()] == ["a", "b"]
    await queue.close()


@pytest.mark.requirement("K31")
async def test_a_key_added_while_it_is_worked_on_comes_once_more_and_never_in_parallel(
    queue: WorkQueue[str],
) -> None:
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    queue.add("a")
    assert len(queue) == 0, "no second worker gets it while the first has it"
    queue.done("a")
    assert await queue.get() == "a"
    queue.done("a")
    assert len(queue) == 0
    await queue.close()


@pytest.mark.requirement("K31")
async def test_of_several_times_the_earliest_counts(queue: WorkQueue[str], clock: FakeClock) -> None:
    queue.add_after("a", 10)
    queue.add_after("b", 5)
    queue.add_after("a", 2)
    queue.add_after("a", 30)
    assert queue.delayed == 2
    await clock.advance(1.9)
    assert len(queue) == 0
    await clock.advance(0.1)
    assert await queue.get() == "a"
    queue.done("a")
    await clock.advance(3)
    assert await queue.get() == "b"
    queue.done("b")
    await clock.advance(100)
    assert (len(queue), queue.delayed) == (0, 0)
    queue.add_after("c", 0)
    assert await queue.get() == "c"
    await queue.close()


@pytest.mark.requirement("K31")
async def test_failures_are_spaced_further_and_further_until_a_success(queue: WorkQueue[str]) -> None:
    delays = [queue.add_after_failure("a") for _ in range(20)]
    for attempt, delay in enumerate(delays):
        plain = min(0.005 * 2**attempt, 300.0)
        assert 0.8 * plain <= delay <= min(1.2 * plain, 300.0)
    assert queue.failures("a") == 20
    queue.forget("a")
    assert queue.failures("a") == 0
    assert queue.add_after_failure("a") <= 0.006
    await queue.close()


@pytest.mark.requirement("K31")
async def test_a_cancelled_worker_takes_no_key_with_it(queue: WorkQueue[str]) -> None:
    async with Tasks("test") as tasks:
        first = tasks.spawn(queue.get(), name="first")
        second = tasks.spawn(queue.get(), name="second")
        await asyncio.sleep(0)
        queue.add("a")
        first.cancel()
        assert await asyncio.wait_for(second, 5) == "a"
    await queue.close()


@pytest.mark.requirement("K31")
async def test_closing_ends_waiting_workers_and_takes_nothing_more(
    queue: WorkQueue[str], clock: FakeClock
) -> None:
    async with Tasks("test") as tasks:
        waiting = tasks.spawn(queue.get(), name="waiting")
        await asyncio.sleep(0)
        queue.add_after("a", 1)
        await queue.close()
        with pytest.raises(QueueClosed):
            await waiting
    queue.add("b")
    await clock.advance(5)
    with pytest.raises(QueueClosed):
        await queue.get()
    assert clock.sleepers == 0
