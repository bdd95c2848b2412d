"""Time: text forms, timeouts, and the clock that tests own."""

from __future__ import annotations

import asyncio

import pytest

from lineloop.kit.clock import Clock, SystemClock, parse_rfc3339, rfc3339, with_timeout
from lineloop.testing import FakeClock, until


async def forever() -> None:
    await asyncio.get_running_loop().create_future()


@pytest.mark.requirement("K23")
@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_767_323_045_678, "2026-01-02T03:04:05.678Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (-62_135_596_800_000, "0001-01-01T00:00:00.000Z"),
    ],
)
def test_time_as_text_keeps_milliseconds_both_ways(ms: int, text: str) -> None:
    assert rfc3339(ms) == text
    assert parse_rfc3339(text) == ms


@pytest.mark.requirement("K23")
def test_an_offset_is_read_and_its_absence_refused() -> None:
    assert parse_rfc3339("2026-01-02T11:04:05.678+08:00") == 1_767_323_045_678
    for text in ("2026-01-02T03:04:05", "tomorrow", ""):
        with pytest.raises(ValueError):
            parse_rfc3339(text)
    with pytest.raises(ValueError):
        rfc3339(10**18)


@pytest.mark.requirement("K23")
async def test_sleepers_wake_in_due_order_however_far_the_clock_moves() -> None:
    clock = FakeClock()
    woken: list[tuple[str, int]] = []
    start = clock.now_ms()

    async def sleeper(name: str, seconds: float, again: float = 0.0) -> None:
        await clock.sleep(seconds)
        woken.append((name, clock.now_ms() - start))
        if again:
            await sleeper(f"{name} again", again)

    async with asyncio.TaskGroup() as group:
        for name, seconds, again in (("late", 10, 0), ("early", 1, 2), ("middle", 5, 0)):
            group.create_task(sleeper(name, seconds, again))
        await clock.advance(4)
        assert woken == [("early", 1000), ("early again", 3000)]
        await clock.advance(6)
    assert woken[2:] == [("middle", 5000), ("late", 10_000)]
    assert clock.sleepers == 0


@pytest.mark.requirement("K23")
async def test_a_jump_of_the_wall_clock_wakes_nobody() -> None:
    clock = FakeClock(now_ms=0)
    task = asyncio.get_running_loop().create_task(clock.sleep(60))
    clock.jump(3600)
    await clock.settle()
    assert (clock.now_ms(), clock.monotonic(), task.done()) == (3_600_000, 0.0, False)
    await clock.advance(60)
    assert task.done()


@pytest.mark.requirement("K23")
async def test_a_timeout_follows_the_given_clock() -> None:
    clock = FakeClock()
    cancelled = asyncio.Event()

    async def slow() -> None:
        try:
            await forever()
        finally:
            cancelled.set()

    waiting = asyncio.get_running_loop().create_task(with_timeout(clock, 30, slow()))
    await clock.advance(29)
    assert not waiting.done()
    await clock.advance(1)
    with pytest.raises(TimeoutError):
        await waiting
    assert cancelled.is_set()
    assert clock.sleepers == 0


@pytest.mark.requirement("K23")
@pytest.mark.parametrize("clock", [FakeClock(), SystemClock()])
async def test_an_answer_in_time_is_passed_on_with_its_errors(clock: Clock) -> None:
    async def answer() -> int:
        return 7

    async def fail() -> int:
        raise KeyError("no")

    assert await with_timeout(clock, 5, answer()) == 7
    with pytest.raises(KeyError):
        await with_timeout(clock, 5, fail())


@pytest.mark.requirement("K23")
async def test_cancelling_a_timed_wait_cancels_what_it_waits_for() -> None:
    inner = asyncio.get_running_loop().create_task(forever())
    outer = asyncio.get_running_loop().create_task(with_timeout(FakeClock(), 5, inner))
    await asyncio.sleep(0)
    outer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await outer
    assert inner.cancelled()


@pytest.mark.requirement("K23")
async def test_the_machines_clock_can_time_out_too() -> None:
    with pytest.raises(TimeoutError):
        await with_timeout(SystemClock(), 0.001, forever())


async def test_until_names_the_value_that_never_came() -> None:
    with pytest.raises(AssertionError, match="0"):
        await until(lambda: 0, seconds=0.01)

    async def later() -> str:
        return "here"

    assert await until(later) == "here"
