"""The Conversation resource follows the truth: projected after commits, coalesced, repaired by a sweep.

A job that changes participants or cursors marks the conversation in its own transaction (`notify_pending`);
here the mark becomes a resource and is taken away, both in one transaction (spec/protocol.md §9).
"""

from __future__ import annotations

import asyncio
from typing import Any

import structlog

from lineloop.control.stores.sql import SqlStore
from lineloop.kit.clock import Clock, with_timeout
from lineloop.kit.database import Tx
from lineloop.protocol.errors import LoopError
from lineloop.protocol.resources import (
    API_VERSION,
    CONVERSATION_KIND,
    Participant,
    conversation_spec,
    conversation_status,
)
from lineloop.server.commit import Commits
from lineloop.server.commit.locking import lock_conversations
from lineloop.server.records import Consumer, Conversation
from lineloop.server.store import consumers, conversations
from lineloop.server.wakeup.bus import Bus, ConsumersChanged, Hint

BATCH = 50

_log = structlog.get_logger(__name__)


def project(conversation: Conversation, lines: list[Consumer]) -> dict[str, Any]:
    """The Conversation resource, without the metadata that the store keeps."""
    participants = [
        Participant(
            actor=line.actor,
            conversation_id=line.process_conversation_id,
            end_offset=line.wake_offset,
            position=line.position,
            committed=line.committed,
        )
        for line in lines
    ]
    return {
        "apiVersion": API_VERSION,
        "kind": CONVERSATION_KIND,
        "metadata": {"name": conversation.id},
        "spec": conversation_spec(
            name=conversation.name,
            owner=conversation.owner,
            parent_id=conversation.parent_id,
            participants=participants,
        ),
        "status": conversation_status(participants),
    }


def read_resource(tx: Tx, conversation_id: str) -> dict[str, Any] | None:
    """The resource computed from the truth, whatever the store has."""
    conversation = conversations.get(tx, conversation_id)
    if conversation is None:
        return None
    return project(conversation, consumers.of_conversation(tx, conversation_id))


class Notifier:
    """The first change of a conversation goes out at once, further ones wait out `coalesce_seconds`."""

    def __init__(
        self, commits: Commits, store: SqlStore, clock: Clock, bus: Bus, *, coalesce_seconds: float
    ) -> None:
        self._commits = commits
        self._store = store
        self._clock = clock
        self._coalesce_seconds = coalesce_seconds
        self._dirty: dict[str, None] = {}
        self._quiet_until: dict[str, float] = {}
        self._wake = asyncio.Event()
        bus.listen_all(self._hear)

    def _hear(self, hint: Hint) -> None:
        if isinstance(hint, ConsumersChanged) and hint.conversation_id not in self._dirty:
            self._dirty[hint.conversation_id] = None
            self._wake.set()

    async def run(self) -> None:
        while True:
            self._wake.clear()
            now = self._clock.monotonic()
            due = [name for name in self._dirty if self._quiet_until.get(name, 0.0) <= now][:BATCH]
            if due:
                await self._project(due, now)
                continue
            waits = [self._quiet_until[name] - now for name in self._dirty]
            if not waits:
                self._quiet_until = {name: at for name, at in self._quiet_until.items() if at > now}
                await self._wake.wait()
                continue
            try:
                await with_timeout(self._clock, max(min(waits), 0.0), self._wake.wait())
            except TimeoutError:
                continue

    async def sweep(self, sweep_seconds: float) -> None:
        """What a crash left between a commit and its resource."""
        while True:
            try:
                for name in await self._commits.read(lambda tx: conversations.marked(tx, BATCH)):
                    self._dirty[name] = None
                    self._wake.set()
            except LoopError as error:
                _log.warning("notifier_sweep_failed", code=error.code)
            await self._clock.sleep(sweep_seconds)

    async def _project(self, names: list[str], now: float) -> None:
        for name in names:
            del self._dirty[name]
            self._quiet_until[name] = now + self._coalesce_seconds
        try:
            await self._commits.write(lambda tx: self._project_in(tx, names), "server.notify")
        except LoopError as error:
            # The marks stand: the sweep tries again.
            _log.warning("notify_failed", code=error.code)

    def _project_in(self, tx: Tx, names: list[str]) -> None:
        # Nobody marks one of them between the reading and the unmarking.
        lock_conversations(tx, self._commits.ctx, names)
        for name in names:
            # Another server may have been quicker.
            if not conversations.unmark(tx, name):
                continue
            resource = read_resource(tx, name)
            if resource is not None:
                self._store.apply_in(tx, resource)
