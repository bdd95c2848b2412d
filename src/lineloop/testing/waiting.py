"""Waiting for a value instead of sleeping."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

T = TypeVar("T")

_EAGER_TURNS = 50
_POLL_SECONDS = 0.001


async def until(predicate: Callable[[], T | Awaitable[T]], seconds: float = 20.0) -> T:
    """The first true value of `predicate()`, asked again at every loop turn, then every millisecond.

    The predicate may be async. `seconds` are real ones, whatever clock the test uses. They are for hangs: a
    machine with much to do is slow and not wrong. Raises AssertionError naming the last value.
    """
    limit = time.monotonic() + seconds
    turns = 0
    while True:
        outcome: Any = predicate()
        value: T = await outcome if inspect.isawaitable(outcome) else outcome
        if value:
            return value
        if time.monotonic() > limit:
            raise AssertionError(f"not true within {seconds} s; the last value was {value!r}")
        turns += 1
        await asyncio.sleep(0 if turns < _EAGER_TURNS else _POLL_SECONDS)  # noqa: TID251
