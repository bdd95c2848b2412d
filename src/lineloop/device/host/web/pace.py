"""How much one page may send, and what becomes of more.

Decides rates, how often a page is told that it sends too much, and when it has gone on for so long that it is
sent away. Frames of a surface have a rate of their own (surfaces.py), which ends that surface only.
"""

from __future__ import annotations

import math

from lineloop.kit.clock import Clock
from lineloop.kit.limits import TokenBucket

FRAMES_PER_SECOND, FRAMES_AT_ONCE = 200.0, 400.0
CHANGES_PER_SECOND, CHANGES_AT_ONCE = 10.0, 20.0
"""Of what the page shows: each may be stored, so there are fewer of them than of other frames."""

STRAYS_PER_SECOND, STRAYS_AT_ONCE = 400.0, 4000.0
"""Frames of launches that are not there: a surface that was ended for its flood has left many on the way."""

REFUSED_PER_SECOND, REFUSED_AT_ONCE = 20.0, 500.0
TOLD_PER_SECOND, TOLD_AT_ONCE = 1.0, 4.0

CHANGE, STRAY = "page", "frame of no launch"


class Pace:
    """The pace of one page."""

    def __init__(self, clock: Clock) -> None:
        self._frames = TokenBucket(FRAMES_PER_SECOND, FRAMES_AT_ONCE, clock)
        self._changes = TokenBucket(CHANGES_PER_SECOND, CHANGES_AT_ONCE, clock)
        self._strays = TokenBucket(STRAYS_PER_SECOND, STRAYS_AT_ONCE, clock)
        self._refused = TokenBucket(REFUSED_PER_SECOND, REFUSED_AT_ONCE, clock)
        self._told = TokenBucket(TOLD_PER_SECOND, TOLD_AT_ONCE, clock)

    def wait_ms(self, kind: str) -> int:
        """0 when a frame of this kind may come now, otherwise how long the page should wait."""
        bucket = {CHANGE: self._changes, STRAY: self._strays}.get(kind, self._frames)
        return 0 if bucket.take() else max(1, math.ceil(bucket.wait_seconds() * 1000))

    def is_borne(self) -> bool:
        """Counts a frame that came too soon: whether the page may stay."""
        return self._refused.take()

    def is_told(self) -> bool:
        """Whether a page is told of an event that was refused: telling of each would double a flood."""
        return self._told.take()
