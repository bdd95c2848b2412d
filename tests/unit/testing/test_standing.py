"""What a hanging test is told with."""

from __future__ import annotations

import asyncio

from tests.services.standing import where_everything_stands


async def test_every_task_is_told_down_to_what_it_waits_for() -> None:
    async def innermost() -> None:
        await asyncio.Event().wait()

    async def outermost() -> None:
        await innermost()

    task = asyncio.get_running_loop().create_task(outermost(), name="stuck")
    await asyncio.sleep(0)
    told = where_everything_stands()
    task.cancel()
    told_of_it = told.partition("task stuck:")[2]
    assert told_of_it.index("outermost") < told_of_it.index("innermost") < told_of_it.index("Event.wait")
    assert "thread MainThread:" in told
