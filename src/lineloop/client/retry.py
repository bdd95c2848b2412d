"""When a call is tried again: three times at most, with the same identity, and never for lack of capacity.

Decides which errors leave an outcome that a repetition may settle. Leaves to the verbs that what they repeat
is idempotent: the same key, the same sequence number, the same position (spec/protocol.md §12).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from typing import TypeVar

from lineloop.kit.backoff import Backoff
from lineloop.kit.clock import Clock
from lineloop.kit.records import record
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import LoopError

T = TypeVar("T")

# Retryable errors that are answers (a full harness, a lost lease, a stale revision) are for the caller to
# decide about; repeating the same request at once cannot help.
TRANSIENT = frozenset(
    {
        ErrorCode.CONNECTION_LOST,
        ErrorCode.STORAGE_UNAVAILABLE,
        ErrorCode.OVERLOADED,
        ErrorCode.RATE_LIMITED,
        ErrorCode.INTERNAL,
    }
)
# A server that asks for more patience than this is the caller's to decide about.
MAX_PAUSE_SECONDS = 10.0


def is_transient(error: BaseException) -> bool:
    """Whether the same request may be repeated by itself: the outcome is unknown or nothing was stored."""
    return isinstance(error, LoopError) and error.code in TRANSIENT


def asked_pause_seconds(error: LoopError) -> float:
    """How long the server asks to wait; 0 when it does not say."""
    asked: object = error.detail.get("retry_after_ms")
    return asked / 1000 if isinstance(asked, int | float) and asked > 0 else 0.0


@record
class Retry:
    """At most `attempts` tries, pausing in between through the clock."""

    clock: Clock
    backoff: Backoff
    attempts: int = 3

    @classmethod
    def usual(cls, clock: Clock, random: Random | None = None) -> Retry:
        """Three attempts, 50 ms and 200 ms apart, with jitter."""
        return cls(clock, Backoff(0.05, 4.0, 2.0, 0.2, random or Random()))

    async def run(self, call: Callable[[], Awaitable[T]]) -> T:
        """The first answer. Raises the last error when all attempts failed, any other error at once."""
        attempt = 0
        while True:
            try:
                return await call()
            except LoopError as error:
                attempt += 1
                asked = asked_pause_seconds(error)
                if attempt >= self.attempts or not is_transient(error) or asked > MAX_PAUSE_SECONDS:
                    raise
            await self.clock.sleep(max(asked, self.backoff.delay(attempt - 1)))
