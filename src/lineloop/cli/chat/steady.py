"""Calls that outlive a broken connection for a while, for a chat that says one thing.

Decides how long a lost server is waited for, and what is known of a call whose answer never came. What is
called must be harmless to repeat: the same key, the same answer, or reading.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from lineloop.kit.backoff import Backoff
from lineloop.kit.clock import Clock
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import LoopError

T = TypeVar("T")

RECONNECT_SECONDS = 30.0
TROUBLE = f"the connection is lost; trying again for {RECONNECT_SECONDS:.0f} s"
_PASSING = frozenset({ErrorCode.CONNECTION_LOST, ErrorCode.STORAGE_UNAVAILABLE, ErrorCode.OVERLOADED})


class Steady:
    """`note` is told once that the connection is lost.

    `uncertain`: a call may have arrived before it broke.
    """

    def __init__(self, clock: Clock, note: Callable[[str], None]) -> None:
        self._clock = clock
        self._note = note
        self._noted = False
        self._backoff = Backoff(first_seconds=0.2, factor=2.0, limit_seconds=2.0, jitter=0.2)
        self.uncertain = False

    async def run(self, call: Callable[[], Awaitable[T]]) -> T:
        """The first answer. Raises the last error after RECONNECT_SECONDS without one, a refusal at once."""
        end: float | None = None
        attempt = 0
        while True:
            try:
                return await call()
            except LoopError as error:
                if error.code is ErrorCode.CONNECTION_LOST and error.detail.get("reached") is not False:
                    self.uncertain = True
                now = self._clock.monotonic()
                end = now + RECONNECT_SECONDS if end is None else end
                if error.code not in _PASSING or now >= end:
                    raise
            if not self._noted:
                self._noted = True
                self._note(TROUBLE)
            await self._clock.sleep(self._backoff.delay(attempt))
            attempt += 1
