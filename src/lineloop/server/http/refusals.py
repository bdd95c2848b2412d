"""The audit of refusals: what was refused to whom, for an administrator (spec/protocol.md §8.8).

Decides which refusals are noted and what of them: the code, the name of the route, who asked. Never a path, a
body, a header or a secret. Notes are gathered and written behind the answers, equal ones of a minute as one
row, so that whoever is refused often writes little.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog

from lineloop.kit import json
from lineloop.kit.clock import Clock
from lineloop.kit.database import Tx
from lineloop.protocol.errors import ErrorCode, LoopError
from lineloop.server.commit import Commits
from lineloop.server.decide.access import Grant
from lineloop.server.store import refusals
from lineloop.server.store.refusals import RefusalRow

MAX_ROWS = 10_000
MAX_WAITING = 1_000
TRIMMED = 500
WRITE_SECONDS = 1.0
MINUTE_MS = 60_000
ADMIN, BUILT_IN = "admin", "built in"
# What is not seen does not exist: these too are refusals.
_HIDDEN = frozenset(
    {
        ErrorCode.CONVERSATION_NOT_FOUND,
        ErrorCode.MESSAGE_NOT_FOUND,
        ErrorCode.QUESTION_NOT_FOUND,
        ErrorCode.RUN_NOT_FOUND,
        ErrorCode.BLOB_NOT_FOUND,
    }
)
_NOTED = _HIDDEN | {ErrorCode.RATE_LIMITED, ErrorCode.BLOCK_PROTECTED, ErrorCode.MESSAGE_OWNED_BY_RUN}
_NOTED_STATUSES = frozenset({401, 403, 421})

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Times:
    count: int
    first_at: int
    last_at: int


@dataclass(slots=True)
class Refusals:
    """Call on the event loop."""

    clock: Clock
    counted: Counter[str] = field(default_factory=Counter[str])
    _waiting: dict[tuple[str, str, str, str, str, int], Times] = field(
        default_factory=dict[tuple[str, str, str, str, str, int], Times]
    )

    def of_request(self, scope: Mapping[str, Any], error: LoopError) -> None:
        """Notes the refusal of a request."""
        state = scope.get("state", {})
        grant = state.get("grant")
        peer = scope.get("client")
        address = str(peer[0]) if peer and grant is None else ""
        self.note(error, str(state.get("route", "none")), grant, address)

    def note(self, error: LoopError, action: str, grant: Grant | None, peer: str = "") -> None:
        if error.code not in _NOTED and error.status not in _NOTED_STATUSES:
            return
        self.counted[str(error.code)] += 1
        now = self.clock.now_ms()
        credential, actor = _who(grant)
        minute = now // MINUTE_MS
        key = (str(error.code), action, credential, actor, peer, minute)
        if key not in self._waiting and len(self._waiting) >= MAX_WAITING:
            key = (str(error.code), action, "", "", "", minute)
        times = self._waiting.setdefault(key, Times(0, now, now))
        times.count += 1
        times.last_at = now

    async def run(self, commits: Commits) -> None:
        while True:
            await self.clock.sleep(WRITE_SECONDS)
            try:
                await self.write(commits)
            except LoopError as error:
                _log.warning("refusals_not_written", code=error.code)

    async def write(self, commits: Commits) -> None:
        """Stores what waits. What could not be stored waits on, or is forgotten when there is too much."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, {}
        rows = [_row(key, times) for key, times in waiting.items()]

        def store(tx: Tx) -> None:
            for row in rows:
                refusals.add(tx, row)
            refusals.trim(tx, keep=MAX_ROWS, limit=TRIMMED + len(rows))

        try:
            await commits.write(store, "server.refusals")
        except LoopError:
            self._waiting = (
                {**waiting, **self._waiting} if len(self._waiting) < MAX_WAITING else self._waiting
            )
            raise


def _who(grant: Grant | None) -> tuple[str, str]:
    if grant is None:
        return "", ""
    if grant.is_admin:
        return ADMIN, ""
    return grant.credential or BUILT_IN, str(grant.pattern)


def _row(key: tuple[str, str, str, str, str, int], times: Times) -> RefusalRow:
    code, action, credential, actor, peer, _ = key
    name = hashlib.sha256(json.canonical(list(key))).hexdigest()[:32]
    return RefusalRow(name, code, action, credential, actor, peer, times.count, times.first_at, times.last_at)
