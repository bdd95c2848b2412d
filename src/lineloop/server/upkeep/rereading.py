"""What happened on other replicas, and what no hint told of, becomes hints of this process.

A hint from elsewhere carries no content: what it names is read from the database, once for all who listen
here, and told on the bus like a commit of our own (docs/decisions/0006). A sweep reads how far each viewed
root conversation is, so that a viewer misses a hint for a second at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress

import structlog

from lineloop.kit.clock import Clock, with_timeout
from lineloop.kit.database import Tx
from lineloop.protocol.errors import LoopError
from lineloop.server.commit import Commits
from lineloop.server.store import messages, viewing
from lineloop.server.wakeup.bus import Bus, Hint, MessageChanged, PatchesAppended, Recipient, RootSeen
from lineloop.server.wakeup.relay_hints import MessageMoved, PatchesLogged, RemoteHint

BATCH = 200
MAX_WAITING = 10_000
# What is longer than this is told without its content: who wants it reads it.
CARRIED_BYTES = 128 * 1024
SWEPT_ROOTS = 50

_log = structlog.get_logger(__name__)


class Rereading:
    """`hear` takes hints of other replicas; `run` reads and tells what they mean here."""

    def __init__(self, commits: Commits, bus: Bus) -> None:
        self._commits = commits
        self._bus = bus
        self._waiting: list[PatchesLogged | MessageMoved] = []
        self._wake = asyncio.Event()

    def hear(self, hints: Sequence[RemoteHint]) -> None:
        """Keeps what somebody here wants to know. Call on the loop."""
        for hint in hints:
            if isinstance(hint, PatchesLogged | MessageMoved):
                if self._is_wanted(hint) and len(self._waiting) < MAX_WAITING:
                    self._waiting.append(hint)
                    self._wake.set()
            else:
                self._bus.tell(hint)

    def _is_wanted(self, hint: PatchesLogged | MessageMoved) -> bool:
        if self._bus.hears_root(hint.root_id):
            return True
        if isinstance(hint, PatchesLogged):
            return False
        return any(self._bus.hears_actor(kind, key) for kind, key, _ in hint.recipients)

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                batch, self._waiting = self._waiting[:BATCH], self._waiting[BATCH:]
                try:
                    found = await self._commits.read(lambda tx, batch=batch: _reread(tx, batch))
                except LoopError as error:
                    # The sweeps find it.
                    _log.warning("rereading_failed", code=error.code)
                    continue
                for hint in found:
                    self._bus.tell(hint)


def _reread(tx: Tx, batch: Iterable[PatchesLogged | MessageMoved]) -> list[Hint]:
    """The same hints as if the commits had been made here, in the same order."""
    found: list[Hint] = []
    for hint in batch:
        if isinstance(hint, PatchesLogged):
            log = viewing.patches_between(tx, hint.message_id, hint.first, hint.last, max_bytes=CARRIED_BYTES)
            if log:
                texts = [text for _, text in log]
                found.append(PatchesAppended(hint.message_id, hint.root_id, log[0][0], texts))
        else:
            found.append(_moved(tx, hint))
    return found


def _moved(tx: Tx, hint: MessageMoved) -> MessageChanged:
    """As it is now, which may be newer than the hint: the change that it carries tells."""
    weight = viewing.weight(tx, hint.message_id)
    message = messages.get(tx, hint.message_id) if weight <= CARRIED_BYTES else None
    return MessageChanged(
        hint.message_id,
        hint.conversation_id,
        hint.root_id,
        hint.change if message is None else message.change,
        hint.offset,
        message,
        [Recipient(kind, key, previous) for kind, key, previous in hint.recipients],
    )


class ViewerSweep:
    """Tells viewers how far their root conversations are, every `sweep_seconds` and when asked to."""

    def __init__(self, commits: Commits, clock: Clock, bus: Bus, sweep_seconds: float) -> None:
        self._commits = commits
        self._clock = clock
        self._bus = bus
        self._sweep_seconds = sweep_seconds
        self._wake = asyncio.Event()

    def soon(self) -> None:
        """Call on the loop when hints may have been missed."""
        self._wake.set()

    async def run(self) -> None:
        while True:
            with suppress(TimeoutError):
                await with_timeout(self._clock, self._sweep_seconds, self._wake.wait())
            self._wake.clear()
            try:
                await self.sweep()
            except LoopError as error:
                _log.warning("viewer_sweep_failed", code=error.code)

    async def sweep(self) -> None:
        roots = self._bus.viewed_roots
        for begun in range(0, len(roots), SWEPT_ROOTS):
            some = roots[begun : begun + SWEPT_ROOTS]
            for seen in await self._commits.read(lambda tx, some=some: _seen(tx, some)):
                self._bus.tell(seen)


def _seen(tx: Tx, roots: Sequence[str]) -> list[RootSeen]:
    # The streams first: a stream that ends in between shows in the change that is read after it.
    streams = viewing.stream_revisions(tx, roots)
    changes = viewing.changes(tx, roots)
    return [
        RootSeen(root, change, streams.get(root, {}), membership)
        for root, (change, membership) in changes.items()
    ]
