"""Servers on one database go by its clock, so that deadlines and leases mean the same on each."""

from __future__ import annotations

import structlog

from lineloop.kit.clock import SharedClock
from lineloop.protocol.errors import LoopError
from lineloop.server.commit import Commits
from lineloop.server.store import meta

EVERY_SECONDS = 60.0
TOLD_MS = 1_000

_log = structlog.get_logger(__name__)


class Timekeeping:
    """`align` once before anything is stamped; `run` follows a clock that drifts or is set."""

    def __init__(self, commits: Commits, clock: SharedClock) -> None:
        self._commits = commits
        self._clock = clock

    async def align(self) -> None:
        """Raises LoopError."""
        before = self._clock.ahead_ms
        asked = self._clock.now_ms()
        shown = await self._commits.read(meta.database_ms)
        self._clock.measured(shown, asked, self._clock.now_ms())
        if abs(self._clock.ahead_ms - before) > TOLD_MS:
            _log.warning("clocks_differ", database_ahead_ms=self._clock.ahead_ms)

    async def run(self) -> None:
        while True:
            await self._clock.sleep(EVERY_SECONDS)
            try:
                await self.align()
            except LoopError as error:
                _log.warning("timekeeping_failed", code=error.code)
