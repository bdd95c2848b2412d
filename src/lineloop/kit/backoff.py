"""How long to wait before the next attempt. Whether to try again at all is the caller's decision."""

from __future__ import annotations

import random
from dataclasses import field

from lineloop.kit.records import record


@record
class Backoff:
    """Exponential delays: `first_seconds * factor**attempt`, never above `limit_seconds`.

    `jitter` 0.2 spreads each delay over ±20 %, so that many callers do not return in step; the limit still
    holds.
    """

    first_seconds: float
    factor: float = 2.0
    limit_seconds: float = 30.0
    jitter: float = 0.2
    random: random.Random = field(default_factory=random.Random, repr=False, compare=False)

    def delay(self, attempt: int) -> float:
        """Seconds to wait before attempt number `attempt` (0 = the first retry)."""
        try:
            plain = min(self.first_seconds * self.factor**attempt, self.limit_seconds)
        except OverflowError:
            plain = self.limit_seconds
        spread = 1.0 + self.jitter * (2.0 * self.random.random() - 1.0)
        return min(plain * spread, self.limit_seconds)
