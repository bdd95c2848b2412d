"""Measures that limits are checked against: rates, sizes, depths.

This module measures; which limit holds where, and which error a breach gives, is decided by its user.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lineloop.kit.clock import Clock
from lineloop.kit.json import dumps


class TokenBucket:
    """`rate` tokens per second, at most `burst` saved up. Starts full."""

    def __init__(self, rate: float, burst: float, clock: Clock) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._tokens = burst
        self._filled_at = clock.monotonic()

    def take(self, amount: float = 1.0) -> bool:
        """Take `amount` tokens if they are there."""
        self._fill()
        if self._tokens < amount:
            return False
        self._tokens -= amount
        return True

    def wait_seconds(self, amount: float = 1.0) -> float:
        """Seconds until `amount` tokens will be there; infinity when more than the burst is asked."""
        self._fill()
        if self._tokens >= amount:
            return 0.0
        if amount > self._burst or self._rate <= 0:
            return float("inf")
        return (amount - self._tokens) / self._rate

    def _fill(self) -> None:
        now = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._rate)
        self._filled_at = now


def size_of_json(value: Any) -> int:
    """Bytes of the value's compact JSON in UTF-8. Raises ValueError when it is not JSON."""
    return len(dumps(value).encode())


def depth_of_json(value: Any, limit: int) -> int:
    """How deep lists and objects nest (a scalar is 0, `{}` is 1); counting stops at `limit + 1`.

    Never recurses, so that hostile depth costs no stack.
    """
    level: list[Any] = [value]
    depth = 0
    while depth <= limit:
        below: list[Any] = []
        nested = False
        for item in level:
            children = _children(item)
            if children is not None:
                nested = True
                below.extend(children)
        if not nested:
            return depth
        depth += 1
        level = below
    return depth


def _children(item: Any) -> Iterable[Any] | None:
    if isinstance(item, dict):
        return item.values()
    return item if isinstance(item, list) else None
