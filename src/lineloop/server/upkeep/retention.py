"""Old things go, a few at a time. Runs only where somebody has set how long things are kept."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import structlog

from lineloop.kit.clock import Clock
from lineloop.kit.database import Tx
from lineloop.protocol.errors import LoopError
from lineloop.server.commit import Commits
from lineloop.server.commit.retaining import empty_runs_in, remove_ledgers_in, remove_messages_in
from lineloop.server.settings import Retention
from lineloop.server.store import retention
from lineloop.server.store.retention import OldMessage

SWEEP_SECONDS = 600.0
LOOKED_AT = 200
REMOVED_AT_ONCE = 20
RUNS_AT_ONCE = 5
DAY_MS = 24 * 3600 * 1000

_log = structlog.get_logger(__name__)


class RetentionSweep:
    """One pass over everything, again and again."""

    def __init__(self, commits: Commits, clock: Clock, kept: Retention) -> None:
        self._commits = commits
        self._clock = clock
        self._kept = kept

    @property
    def is_on(self) -> bool:
        return self._kept.is_on

    async def run(self) -> None:
        while True:
            try:
                await self.sweep()
            except LoopError as error:
                _log.warning("retention_failed", code=error.code)
            await self._clock.sleep(SWEEP_SECONDS)

    async def sweep(self) -> int:
        """How many messages went."""
        removed = await self._messages()
        for days, job in ((self._kept.ledger, remove_ledgers_in), (self._kept.runs, empty_runs_in)):
            before = self._before(days)
            if before is not None:
                await self._all(job, before)
        if removed:
            _log.info("retention_removed", messages=removed)
        return removed

    def _before(self, days: float | None) -> int | None:
        return None if days is None else self._clock.now_ms() - int(days * DAY_MS)

    async def _all(self, job: Callable[[Tx, int, int], int], before: int) -> None:
        while await self._commits.write(lambda tx: job(tx, before, RUNS_AT_ONCE), "server.retention"):
            continue

    async def _messages(self) -> int:
        messages, envelopes = self._before(self._kept.messages), self._before(self._kept.envelopes)
        bounds = [bound for bound in (messages, envelopes) if bound is not None]
        if not bounds:
            return 0
        until, after, removed = f"msg_{max(bounds):012x}", "", 0
        while True:

            def read(tx: Tx, after: str = after) -> list[OldMessage]:
                return retention.old_messages(tx, after=after, until=until, limit=LOOKED_AT)

            page = await self._commits.read(read)
            by_root: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
            for one in page:
                before = envelopes if one.purpose.carries_envelope else messages
                if before is not None and one.updated_at < before and not one.is_open:
                    by_root[one.root_id, before].append(one.id)
            for (root_id, before), ids in by_root.items():
                removed += await self._remove(root_id, ids, before)
            if len(page) < LOOKED_AT:
                return removed
            after = page[-1].id

    async def _remove(self, root_id: str, ids: list[str], before: int) -> int:
        removed = 0
        for begun in range(0, len(ids), REMOVED_AT_ONCE):
            some = ids[begun : begun + REMOVED_AT_ONCE]

            def job(tx: Tx, some: list[str] = some) -> int:
                return remove_messages_in(tx, self._commits.ctx, root_id, some, before)

            removed += await self._commits.write(job, "server.retention", root_id)
        return removed
