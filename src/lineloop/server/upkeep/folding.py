"""Folding: snapshots follow their logs, outside of the writer."""

from __future__ import annotations

import asyncio

import structlog

from lineloop.kit.clock import Clock
from lineloop.kit.database import Tx
from lineloop.protocol.errors import LoopError
from lineloop.server.commit import Commits
from lineloop.server.store import messages

SWEEP_SECONDS = 60.0
SWEEP_LIMIT = 20

_log = structlog.get_logger(__name__)


class Folding:
    """Folds one message at a time. Only a matter of speed: readers bring snapshot and log together anyway."""

    def __init__(self, commits: Commits, clock: Clock) -> None:
        self._commits = commits
        self._clock = clock
        self._due: dict[str, None] = {}
        self._wake = asyncio.Event()

    def due(self, message_id: str) -> None:
        """Call on the loop."""
        self._due[message_id] = None
        self._wake.set()

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._due:
                message_id = next(iter(self._due))
                del self._due[message_id]
                try:
                    await self._commits.fold(message_id)
                except LoopError as error:
                    _log.warning("fold_failed", message_id=message_id, code=error.code)

    async def sweep(self) -> None:
        """Ended messages that were not folded: the process died, or the fold failed."""
        while True:
            try:
                found = await self._commits.read(_unfolded)
            except LoopError as error:
                _log.warning("fold_sweep_failed", code=error.code)
                found = []
            for message_id in found:
                self.due(message_id)
            await self._clock.sleep(SWEEP_SECONDS)


def _unfolded(tx: Tx) -> list[str]:
    return messages.unfolded(tx, SWEEP_LIMIT)
