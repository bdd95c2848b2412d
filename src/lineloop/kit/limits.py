"""A measure that rates are checked against.

Which limit holds where, and which error a breach gives, is decided by its user.
"""

from __future__ import annotations

from lineloop.kit.clock import Clock


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
