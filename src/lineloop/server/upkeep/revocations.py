"""Tokens and people that were removed through another server: they end here too, a moment later."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from lineloop.kit.clock import Clock
from lineloop.protocol.errors import LoopError
from lineloop.server.commit import Commits
from lineloop.server.store import identities, people

# Servers' clocks may differ; what is looked at twice does no harm.
MARGIN_MS = 10 * 60 * 1000

_log = structlog.get_logger(__name__)


class Revocations:
    """Looks every `sweep_seconds`; `revoked(token_id)` ends all that stands on a token, `removed(key)` all
    that stands on a person's cookie.
    """

    def __init__(
        self,
        commits: Commits,
        clock: Clock,
        revoked: Callable[[str], None],
        removed: Callable[[str], None],
        sweep_seconds: float,
    ) -> None:
        self._commits = commits
        self._clock = clock
        self._revoked = revoked
        self._removed = removed
        self._sweep_seconds = sweep_seconds
        self._known: frozenset[str] = frozenset()
        self._gone: frozenset[tuple[str, int]] = frozenset()

    async def run(self) -> None:
        while True:
            try:
                await self._look()
            except LoopError as error:
                _log.warning("revocations_failed", code=error.code)
            await self._clock.sleep(self._sweep_seconds)

    async def _look(self) -> None:
        since = self._clock.now_ms() - MARGIN_MS
        found, gone = await self._commits.read(
            lambda tx: (identities.revoked_since(tx, since), people.removed_since(tx, since))
        )
        for token_id in found - self._known:
            self._revoked(token_id)
        for key, _ in gone - self._gone:
            self._removed(key)
        self._known, self._gone = found, gone
