"""How much is open right now, for whoever watches the server. SQL only; each count reads an index of what is
open, not the history.
"""

from __future__ import annotations

from lineloop.kit.database import Tx
from lineloop.kit.records import record

_STREAMS = "SELECT count(*) FROM messages WHERE status = 'streaming'"
_QUESTIONS = "SELECT count(*) FROM messages WHERE due_at IS NOT NULL"
_TO_NOTIFY = "SELECT count(*) FROM conversations WHERE notify_pending = 1"
_RUNS = "SELECT phase, count(*) FROM harness_runs WHERE ended_at IS NULL GROUP BY phase"


@record
class Figures:
    """`runs` counts those that have not ended, by phase; `to_notify` conversations whose resource is late."""

    streams: int
    questions: int
    to_notify: int
    runs: dict[str, int]


def figures(tx: Tx) -> Figures:
    return Figures(
        streams=_count(tx, _STREAMS),
        questions=_count(tx, _QUESTIONS),
        to_notify=_count(tx, _TO_NOTIFY),
        runs={row[0]: row[1] for row in tx.all(_RUNS)},
    )


def _count(tx: Tx, sql: str) -> int:
    row = tx.one(sql)
    return row[0] if row else 0
