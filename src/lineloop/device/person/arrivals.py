"""What comes while something else is being done, taken together: many arrivals share one commit.

Decides how much may wait; what comes alone is handed on at once. What is done with it is not decided here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeVar

from lineloop.kit.records import record
from lineloop.kit.tasks import Tasks

MAX_TOGETHER = 64

T = TypeVar("T")


@record
class _End:
    error: Exception | None


async def gathered(source: AsyncGenerator[T]) -> AsyncGenerator[list[T]]:
    """All that has come since the last turn, in order, never empty, at most MAX_TOGETHER.

    Ends as the source ends; raises what it raises, after what came before that.
    """
    waiting: asyncio.Queue[T | _End] = asyncio.Queue(MAX_TOGETHER)

    async def read() -> None:
        try:
            async with aclosing(source):
                async for one in source:
                    await waiting.put(one)
        except Exception as error:
            await waiting.put(_End(error))
        else:
            await waiting.put(_End(None))

    async with Tasks("arrivals") as tasks:
        tasks.spawn(read(), name="read")
        while True:
            one = await waiting.get()
            together: list[T] = []
            while not isinstance(one, _End):
                together.append(one)
                if waiting.empty() or len(together) >= MAX_TOGETHER:
                    break
                one = waiting.get_nowait()
            if together:
                yield together
            if isinstance(one, _End):
                if one.error is not None:
                    raise one.error
                return
