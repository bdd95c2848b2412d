"""Where time comes from.

Everything that waits, expires or stamps takes a `Clock`, so that a test can own the time. This module decides
how time is read and written as text; what a deadline means is decided by its owner.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Protocol, TypeVar

T = TypeVar("T")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Clock(Protocol):
    """Wall time, elapsed time and sleep, from one source."""

    def now_ms(self) -> int:
        """Wall time in milliseconds since 1970-01-01 UTC. May jump."""
        ...

    def monotonic(self) -> float:
        """Seconds since an arbitrary start. Never goes back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait `seconds`; zero or less yields one loop turn."""
        ...


class SystemClock:
    """The machine's own time."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(seconds, 0.0))


class SharedClock(SystemClock):
    """The machine's time, moved by what another clock is ahead, so that several machines agree."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms

    def measured(self, other_ms: int, asked_ms: int, answered_ms: int) -> None:
        """The other clock showed `other_ms`, somewhere between two moments of this one."""
        self.ahead_ms += other_ms - (asked_ms + answered_ms) // 2


def rfc3339(ms: int) -> str:
    """UTC text with milliseconds: `2026-01-02T03:04:05.678Z`. Raises ValueError outside years 1 to 9999."""
    seconds, rest = divmod(ms, 1000)
    return f"{_second(seconds)}.{rest:03d}Z"


@lru_cache(maxsize=64)
def _second(seconds: int) -> str:
    """The text up to the second; many stamps share it, and writing it is the dear part."""
    try:
        moment = _EPOCH + timedelta(seconds=seconds)
    except OverflowError as error:
        raise ValueError(f"{seconds} s is outside the years 1 to 9999") from error
    return f"{moment:%Y-%m-%dT%H:%M:%S}".rjust(19, "0")


def parse_rfc3339(text: str) -> int:
    """Milliseconds since the epoch; the text must name its offset. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} names no time zone")
    return (moment - _EPOCH) // timedelta(milliseconds=1)


async def with_timeout(clock: Clock, seconds: float, awaitable: Awaitable[T]) -> T:
    """The result of `awaitable`, or TimeoutError when `clock` says that `seconds` are over.

    At the timeout the awaited task is cancelled and waited for; a task that finished in that very turn wins.
    """
    if isinstance(clock, SystemClock):
        async with asyncio.timeout(seconds):
            return await awaitable
    task = asyncio.ensure_future(awaitable)
    bell = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait((task, bell), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise TimeoutError(f"no answer within {seconds} s")
        return task.result()
    finally:
        bell.cancel()
        if not task.done():
            task.cancel()
        await asyncio.gather(bell, task, return_exceptions=True)
