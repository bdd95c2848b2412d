"""What is serial in a root conversation, when several servers write: its lock, taken first in a job.

A root conversation with its process conversations, messages, questions and Runs is one aggregate: whoever
writes to it holds its lock until the commit. A job that needs several roots takes them in the order of their
ids. The names of the other locks sort before or behind every conversation, and so are taken before or after:
that order, the same everywhere, is what keeps jobs from waiting for each other in a circle (decision 0027).
"""

from __future__ import annotations

from collections.abc import Iterable

from lineloop.kit.database import Tx
from lineloop.server.commit.context import CommitContext
from lineloop.server.store import conversations, messages, runs

# Behind every conversation: how many Runs there are in all.
SLOTS = "~harness_slots"


def user_lock(user_key: str) -> str:
    """Before every conversation: which of them a person has, and with which device."""
    return f"@user/{user_key}"


def lock_conversation(tx: Tx, ctx: CommitContext, conversation_id: str) -> None:
    """Lock the root of a conversation; an unknown one locks nobody out."""
    if tx.shared:
        tx.lock(_root(tx, ctx, conversation_id))


def lock_conversations(tx: Tx, ctx: CommitContext, conversation_ids: Iterable[str]) -> None:
    """Lock the roots of several conversations, in the one order."""
    if tx.shared:
        for root in sorted({_root(tx, ctx, one) for one in conversation_ids}):
            tx.lock(root)


def lock_message(tx: Tx, ctx: CommitContext, message_id: str) -> None:
    """Lock the root of the conversation that a message lies in."""
    if tx.shared:
        root = ctx.roots.of(message_id)
        if root is None:
            root = ctx.roots.keep(message_id, messages.root_of(tx, message_id))
        tx.lock(root or message_id)


def lock_run(tx: Tx, ctx: CommitContext, run_id: str) -> None:
    """Lock the root of the conversation that a Run writes to."""
    if tx.shared:
        root = ctx.roots.of(run_id)
        if root is None:
            root = ctx.roots.keep(run_id, runs.root_of(tx, run_id))
        tx.lock(root or run_id)


def _root(tx: Tx, ctx: CommitContext, conversation_id: str) -> str:
    root = ctx.roots.of(conversation_id)
    if root is None:
        root = ctx.roots.keep(conversation_id, conversations.root_of(tx, conversation_id))
    return root or conversation_id
