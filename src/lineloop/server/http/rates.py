"""How many requests one credential may make (spec/protocol.md §8.2).

Decides whose requests count together and what a breach is answered. Leaves to `identity` who came.
"""

from __future__ import annotations

from collections import OrderedDict

from lineloop.kit.clock import Clock
from lineloop.kit.limits import TokenBucket
from lineloop.protocol.errors import ErrorCode, LoopError
from lineloop.server.decide.access import Grant
from lineloop.server.settings import Rates

LIMIT = "requests_per_second"
# Whoever is forgotten starts with everything saved up: that costs memory nothing and truth little.
MAX_KNOWN = 10_000


class RateLimits:
    """One measure per token, person or address; used on the event loop only."""

    def __init__(self, rates: Rates, clock: Clock) -> None:
        self._rates = rates
        self._clock = clock
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def take(self, grant: Grant) -> None:
        """Counts a request of a credential. Raises rate_limited."""
        found = self._of(grant)
        if found is not None and not found[0].take():
            raise _refused(*found)

    def take_stranger(self, address: str) -> None:
        """Counts a request without a valid credential. Raises rate_limited."""
        rate = self._rates.stranger
        if rate is not None:
            bucket = self._bucket(f"stranger {address}", rate)
            if not bucket.take():
                raise _refused(bucket, rate)

    def wait_seconds(self, grant: Grant, amount: int) -> float:
        """Counts `amount` requests of a link; how long the next ones have to wait."""
        found = self._of(grant)
        if found is None:
            return 0.0
        bucket, rate = found
        share = min(float(amount), rate * self._rates.burst_seconds)
        return 0.0 if bucket.take(share) else bucket.wait_seconds(share)

    def _of(self, grant: Grant) -> tuple[TokenBucket, float] | None:
        """The measure of a credential and its rate; None when nothing limits it."""
        if grant.is_admin:
            return None
        if grant.token_id is not None:
            rate, name = self._rates.token, f"token {grant.token_id}"
        elif grant.is_session:
            rate, name = self._rates.person, f"person {grant.pattern}"
        else:
            return None
        return (self._bucket(name, rate), rate) if rate is not None else None

    def _bucket(self, name: str, rate: float) -> TokenBucket:
        bucket = self._buckets.get(name)
        if bucket is None:
            bucket = TokenBucket(rate, max(1.0, rate * self._rates.burst_seconds), self._clock)
            self._buckets[name] = bucket
            while len(self._buckets) > MAX_KNOWN:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(name)
        return bucket


def _refused(bucket: TokenBucket, rate: float) -> LoopError:
    wait_ms = max(1, round(bucket.wait_seconds() * 1000))
    return LoopError(
        f"more than {rate:g} requests a second",
        code=ErrorCode.RATE_LIMITED,
        detail={"limit": LIMIT, "max": rate, "retry_after_ms": wait_ms},
    )
