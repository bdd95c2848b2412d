"""Commits which life of the server's database this device talks to, and what another one means.

Decides that a server which was put back to a backup is met as one that may know nothing: its messages are
taken from where it stands itself, and what it had acknowledged goes out again under the same keys, of which
it keeps each once.
"""

from __future__ import annotations

from lineloop.device.commit.room import Room
from lineloop.device.decide.facts import SendSoon
from lineloop.device.decide.plan import Plan
from lineloop.device.store import outbox
from lineloop.kit.database import Tx


def meet_server(tx: Tx, plan: Plan, room: Room, epoch: str) -> bool:
    """Whether the server's database is in another life than the one that was known."""
    known = outbox.known_epoch(tx, room.runtime_id)
    if known == epoch:
        return False
    outbox.keep_epoch(tx, room.runtime_id, epoch)
    if known is None:
        return False
    outbox.forget_server(tx, room.runtime_id)
    for entry in outbox.pending(tx, room.runtime_id):
        plan.effects.append(SendSoon(entry.conversation_id, entry.key, entry.text, urgent=True))
    plan.audit("server_began_anew")
    return True
