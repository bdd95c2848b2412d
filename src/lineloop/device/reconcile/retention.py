"""Old things go, a few at a time. Runs only where somebody has set how long things are kept (design: 3.11).

Decides the order and the size of the steps; what may go is decided by store/retention.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import structlog

from lineloop.device.foundation import Foundation
from lineloop.device.settings import Retention
from lineloop.device.store import inbox
from lineloop.device.store import retention as store
from lineloop.kit.database import Tx
from lineloop.protocol.errors import LoopError

LABEL = "device.retention"
SWEEP_SECONDS = 600.0
LOOKED_AT = 500
CALLS_AT_ONCE = 10
ROWS_AT_ONCE = 100
DATA_AT_ONCE = 10
DAY_MS = 24 * 3600 * 1000

_log = structlog.get_logger(__name__)

Step = Callable[[Tx, int], int]


class RetentionSweep:
    """One pass over everything, again and again."""

    def __init__(self, foundation: Foundation, kept: Retention) -> None:
        self._foundation = foundation
        self._clock = foundation.clock
        self._runtime_id = foundation.runtime_id
        self._kept = kept
        self._done_to = 0

    async def run(self) -> None:
        """Until cancelled. What could not be removed now is removed by a later pass."""
        while True:
            try:
                removed = await self.sweep()
                if removed:
                    _log.info("retention_removed", rows=removed)
            except LoopError as error:
                _log.warning("retention_failed", code=str(error.code))
            await self._clock.sleep(SWEEP_SECONDS)

    async def sweep(self) -> int:
        """How many rows went or were emptied. Raises StorageUnavailable."""
        removed = await self._calls()
        steps: list[tuple[float | None, Step]] = [
            (self._kept.inbox, partial(self._with_limit, inbox.prune, ROWS_AT_ONCE)),
            (self._kept.sessions, partial(self._with_limit, store.remove_closed_data, DATA_AT_ONCE)),
        ]
        for days, statements in (
            (self._kept.outbox, store.OUTBOX),
            (self._kept.inbox, store.INBOX),
            (self._kept.audit, store.AUDIT),
        ):
            steps += [(days, partial(self._remove, statement)) for statement in statements]
        for days, step in steps:
            before = self._before(days)
            while before is not None and (some := await self._write(step, before)):
                removed += some
        return removed

    def _before(self, days: float | None) -> int | None:
        return None if days is None else self._clock.now_ms() - int(days * DAY_MS)

    def _with_limit(self, remove: Callable[[Tx, str, int, int], int], limit: int, tx: Tx, before: int) -> int:
        return remove(tx, self._runtime_id, before, limit)

    def _remove(self, statement: str, tx: Tx, before: int) -> int:
        return store.remove_some(tx, self._runtime_id, statement, before, ROWS_AT_ONCE)

    async def _write(self, step: Step, before: int) -> int:
        return await self._foundation.write(lambda tx: step(tx, before), LABEL)

    async def _calls(self) -> int:
        before = self._before(self._kept.calls)
        after: int | None = self._done_to if before is not None else None
        emptied = 0
        while after is not None and before is not None:

            def look(tx: Tx, after: int = after, before: int = before) -> store.Look:
                return store.look_for_calls(
                    tx, self._runtime_id, after=after, done_to=self._done_to, before=before, limit=LOOKED_AT
                )

            found = await self._foundation.read(look)
            self._done_to = found.done_to
            for begun in range(0, len(found.refs), CALLS_AT_ONCE):
                refs = found.refs[begun : begun + CALLS_AT_ONCE]
                emptied += await self._write(partial(self._empty, refs), before)
            after = found.after
        return emptied

    def _empty(self, refs: tuple[str, ...], tx: Tx, before: int) -> int:
        return sum(store.empty_call(tx, self._runtime_id, ref, before) for ref in refs)
