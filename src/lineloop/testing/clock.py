"""Time that a test owns.

`FakeClock` moves only when the test says so. It decides the order in which sleepers wake; what is settled in
between is as much as the loop, and the databases named with `settle_on`, can do without time passing.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count
from typing import TypeVar

T = TypeVar("T")

_SETTLE_TURNS = 20
# For hangs: a machine with much to do is slow and not wrong.
_SETTLE_LIMIT_SECONDS = 20.0
# What ends by itself does so in this many real seconds; else it waits for time, and so much of it passes.
_ENDS_WITHIN_SECONDS = 1.0
_PASSES_SECONDS = 10.0


class FakeClock:
    """A Clock whose time stands still until `advance`. Wall and monotonic time move together unless
    `jump`ed.
    """

    def __init__(self, now_ms: int = 1_767_323_045_678) -> None:
        self._start_ms = now_ms
        self._elapsed = 0.0
        self._sequence = count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._idle: list[Callable[[], bool]] = []

    def now_ms(self) -> int:
        return self._start_ms + round(self._elapsed * 1000)

    def monotonic(self) -> float:
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)  # noqa: TID251 (this is the clock)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed + seconds, next(self._sequence), future))
        await future

    @property
    def sleepers(self) -> int:
        """How many tasks wait for time to pass."""
        return sum(1 for _, _, future in self._sleepers if not future.done())

    def jump(self, seconds: float) -> None:
        """Move the wall clock alone, as an administrator would. Nobody wakes from it."""
        self._start_ms += round(seconds * 1000)

    def settle_on(self, idle: Callable[[], bool]) -> None:
        """Count something outside the loop as unsettled work until `idle()` is true, e.g. `lambda:
        db.idle`.
        """
        self._idle.append(idle)

    async def advance(self, seconds: float) -> None:
        """Let `seconds` pass: wake the due sleepers one due time after another and settle in between."""
        await self.settle()
        target = self._elapsed + seconds
        while self._sleepers and self._sleepers[0][0] <= target:
            due, _, future = self._sleepers[0]
            if future.done():
                # Cancelled meanwhile: nobody to wake, nothing to settle.
                heapq.heappop(self._sleepers)
                continue
            self._elapsed = max(self._elapsed, due)
            while self._sleepers and self._sleepers[0][0] <= due:
                _, _, future = heapq.heappop(self._sleepers)
                if not future.done():
                    future.set_result(None)
            await self.settle()
        self._elapsed = max(self._elapsed, target)
        await self.settle()

    async def settle(self) -> None:
        """Run the loop until nothing more happens without time. Raises TimeoutError after 20 real seconds."""
        limit = time.monotonic() + _SETTLE_LIMIT_SECONDS
        quiet = 0
        while quiet < _SETTLE_TURNS:
            if all(idle() for idle in self._idle):
                quiet += 1
                await asyncio.sleep(0)  # noqa: TID251
                continue
            quiet = 0
            if time.monotonic() > limit:
                raise TimeoutError("the loop does not settle")
            await asyncio.sleep(0.0002)  # noqa: TID251

    async def ended(self, ending: Awaitable[T]) -> T:
        """What `ending` gives. Time passes for it when it does not come to an end without.

        For what a test closes: one that failed in the middle moves the clock no more, and what it had begun
        may have some seconds of grace.
        """
        task = asyncio.ensure_future(ending)  # noqa: TID251 (waited for below)
        try:
            while not (await asyncio.wait((task,), timeout=_ENDS_WITHIN_SECONDS))[0]:
                with suppress(TimeoutError):
                    await self.advance(_PASSES_SECONDS)
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait((task,))
