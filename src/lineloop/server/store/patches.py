"""The patch log: append only, one row per patch, in order of seq. SQL only."""

from __future__ import annotations

from collections.abc import Sequence

from lineloop.kit.database import Tx

_INSERT = """
INSERT INTO patches (message_id, seq, created_at, patch) VALUES (:message_id, :seq, :created_at, :patch)
"""
_SOME = "SELECT seq, patch FROM patches WHERE message_id = :message_id AND seq >= :first AND seq <= :last"
_WEIGHT = """
SELECT coalesce(sum(length(patch)), 0) FROM patches WHERE message_id = :message_id AND seq > :after
"""


def append(tx: Tx, message_id: str, seq: int, patch: str, now: int) -> None:
    """Fails, at the latest with the job, when the seq is taken."""
    tx.put(_INSERT, {"message_id": message_id, "seq": seq, "created_at": now, "patch": patch})


def some(tx: Tx, message_id: str, seqs: Sequence[int]) -> dict[int, str]:
    """The stored patches among `seqs`, as JSON text."""
    if not seqs:
        return {}
    params = {"message_id": message_id, "first": min(seqs), "last": max(seqs)}
    return {row[0]: row[1] for row in tx.all(_SOME, params)}


def weight_after(tx: Tx, message_id: str, revision: int) -> int:
    """Characters of log beyond `revision`."""
    row = tx.one(_WEIGHT, {"message_id": message_id, "after": revision})
    return row[0] if row else 0
