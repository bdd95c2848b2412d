"""Owned tasks: none outlives its owner, none dies unseen."""

from __future__ import annotations

import asyncio

import pytest

from lineloop.kit.tasks import Tasks
from lineloop.testing import until


@pytest.mark.requirement("K18")
async def test_leaving_the_group_cancels_and_awaits_every_task() -> None:
    ended: list[str] = []

    async def work(name: str) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await asyncio.sleep(0)
            ended.append(name)

    async with Tasks("group") as tasks:
        for name in ("a", "b"):
            tasks.spawn(work(name), name=name)
        await asyncio.sleep(0)
        assert len(tasks) == 2
    assert sorted(ended) == ["a", "b"]
    assert len(tasks) == 0
    with pytest.raises(RuntimeError):
        tasks.spawn(work("late"), name="late")


@pytest.mark.requirement("K18")
async def test_a_crash_is_reported_and_the_others_go_on() -> None:
    crashes: list[tuple[str, str]] = []
    going = asyncio.Event()

    async def crash() -> None:
        raise KeyError("no")

    async def go_on() -> None:
        await going.wait()

    async with Tasks("group", lambda name, error: crashes.append((name, repr(error)))) as tasks:
        other = tasks.spawn(go_on(), name="other")
        tasks.spawn(crash(), name="crash")
        await until(lambda: crashes)
        assert crashes == [("group/crash", "KeyError('no')")]
        going.set()
        await other


@pytest.mark.requirement("K18")
async def test_a_task_may_close_its_own_group() -> None:
    tasks = Tasks("group")
    done = asyncio.Event()

    async def close() -> None:
        await tasks.close()
        done.set()

    tasks.spawn(close(), name="closer")
    await asyncio.wait_for(done.wait(), 5)


@pytest.mark.requirement("K18")
async def test_a_task_that_ends_slowly_is_cancelled_once_and_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lineloop.kit.tasks._SLOW_SECONDS", 0.001)
    cancelled: list[str] = []
    release = asyncio.Event()

    async def slow() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            cancelled.append("once")
            await release.wait()

    tasks = Tasks("group")
    task = tasks.spawn(slow(), name="slow")
    await asyncio.sleep(0)
    closing = asyncio.get_running_loop().create_task(tasks.close())
    await until(lambda: cancelled)
    await asyncio.sleep(0.01)
    assert not closing.done()
    release.set()
    await closing
    assert task.done()
    assert cancelled == ["once"]
