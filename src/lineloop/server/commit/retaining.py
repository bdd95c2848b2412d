"""The jobs of retention: what is old and needed by nobody goes (spec/protocol.md §2.8).

Each job looks again at what it removes, under the lock of its root conversation: between the look and the job
somebody may have come to need it.
"""

from __future__ import annotations

from collections.abc import Sequence

from lineloop.kit.database import Tx
from lineloop.protocol.content import DEVICE_TYPES
from lineloop.server.commit.context import CommitContext
from lineloop.server.commit.locking import lock_conversation
from lineloop.server.store import blobs, history, retention, searching
from lineloop.server.store.history import HistoryFilter
from lineloop.server.store.retention import OldMessage

CALL_MESSAGES = 500
_FINAL = frozenset(type_ for type_ in DEVICE_TYPES if type_.endswith((".result", ".error")))


def remove_messages_in(
    tx: Tx, ctx: CommitContext, root_id: str, message_ids: Sequence[str], before: int
) -> int:
    """Removes those of one root conversation that nobody touched since `before` (UTC ms); how many."""
    lock_conversation(tx, ctx, root_id)
    if retention.has_open_run(tx, root_id):
        return 0
    removed = 0
    for message_id in message_ids:
        found = retention.message(tx, message_id)
        if found is None or found.updated_at >= before or retention.is_needed(tx, message_id):
            continue
        if found.call_id is not None and not _is_over(tx, found, before):
            continue
        blobs.forget_message(tx, message_id)
        searching.remove(tx, message_id)
        retention.delete_message(tx, message_id)
        removed += 1
    return removed


def _is_over(tx: Tx, message: OldMessage, before: int) -> bool:
    """Whether the call has its result, or was ended by an error, long enough ago.

    Without it the device could still answer, and whoever called could still ask.
    """
    asked = HistoryFilter(message.conversation_id, call_id=message.call_id, limit=CALL_MESSAGES)
    story = history.page(tx, asked)
    ended = any((one.to_message().envelope or {}).get("type") in _FINAL for one in story)
    return ended and all(one.updated_at < before for one in story)


def remove_ledgers_in(tx: Tx, before: int, limit: int) -> int:
    found = retention.old_ledgers(tx, before, limit)
    for run_id in found:
        retention.delete_ledger(tx, run_id)
    return len(found)


def empty_runs_in(tx: Tx, before: int, limit: int) -> int:
    found = retention.old_runs(tx, before, limit)
    for run_id in found:
        retention.empty_run(tx, run_id)
    return len(found)
