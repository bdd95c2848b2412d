"""Speaks what the outbox holds: in order per conversation, with stable keys, until the server has it.

Decides what goes together: everything queued for a conversation while its last batch was on its way, and the
positions that the server may forget. The first receipt of a call that is with its handler waits a moment for
the result; nothing else waits. Leaves frames and reconnecting to the link.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import structlog

from lineloop.client.batches import ItemKind
from lineloop.device.commit.room import Room
from lineloop.device.store.outbox import Entry, Settled
from lineloop.kit.faults import FaultInjected, FaultMode
from lineloop.kit.tasks import Tasks
from lineloop.protocol.errors import LoopError
from lineloop.protocol.fault_sites import FaultSite

_log = structlog.get_logger(__name__)

RETRY_SECONDS = 1.0


class Speaker(Protocol):
    """The part of the link that the outbox needs."""

    @property
    def connected(self) -> bool: ...

    def submit(self, kind: ItemKind, body: dict[str, Any] | str) -> asyncio.Future[dict[str, Any]]: ...


@dataclass(slots=True)
class Lane:
    """One conversation's entries in order. `held` counts those at the end that may wait for company."""

    entries: deque[Entry] = field(default_factory=deque[Entry])
    urgent: bool = False
    flying: bool = False
    held_since: float | None = None


class OutboxSender:
    """Drives one device's outbox over its link. Entries come in position order.

    `on_waiting` is called after every change of `waiting`.
    """

    def __init__(
        self,
        room: Room,
        tasks: Tasks,
        *,
        hold_seconds: float,
        lazy_seconds: float,
        on_waiting: Callable[[], None] | None = None,
    ) -> None:
        self._room = room
        self._clock = room.foundation.clock
        self._faults = room.foundation.faults
        self._tasks = tasks
        self._hold_seconds = hold_seconds
        self._lazy_seconds = lazy_seconds
        self._on_waiting = on_waiting or _nobody_counts
        self._speaker: Speaker | None = None
        self._lanes: dict[str, Lane] = {}
        self._known: set[tuple[str, str]] = set()
        self._positions: dict[str, int] = {}
        self._flush_soon = False
        self._holding = False
        self._lazy = False
        self._closed = False

    @property
    def waiting(self) -> int:
        """Entries that the server has not acknowledged."""
        return len(self._known)

    def use(self, speaker: Speaker) -> None:
        """Send over this link from now on."""
        self._speaker = speaker

    def add(self, entry: Entry, *, urgent: bool) -> None:
        """Queues an entry once; a second one with the same key while it waits is the same entry."""
        if (entry.conversation_id, entry.key) in self._known:
            return
        self._known.add((entry.conversation_id, entry.key))
        lane = self._lanes.setdefault(entry.conversation_id, Lane())
        lane.entries.append(entry)
        self._on_waiting()
        if urgent or self._hold_seconds <= 0:
            lane.urgent = True
            self._schedule()
        elif lane.held_since is None:
            lane.held_since = self._clock.monotonic()
            self._hold()

    def note_position(self, conversation_id: str, position: int) -> None:
        """The server may forget what was delivered up to here; said with the next frame, or soon."""
        if position > self._positions.get(conversation_id, 0):
            self._positions[conversation_id] = position
            self._be_lazy()

    def forget_positions(self) -> None:
        """The server's offsets mean something else now."""
        self._positions.clear()

    def connected(self) -> None:
        """The link is there: everything that waits goes out."""
        for lane in self._lanes.values():
            lane.urgent = lane.urgent or bool(lane.entries)
        self._schedule()

    def close(self) -> None:
        self._closed = True

    # ── when ────────────────────────────────────────────────────────────────────────────────────────────────

    def _schedule(self) -> None:
        """Flush once everything of this turn of the loop is queued, so that it travels together."""
        if not self._flush_soon:
            self._flush_soon = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _hold(self) -> None:
        if not self._holding:
            self._holding = True
            self._tasks.spawn(self._release_held(), name="outbox hold")

    async def _release_held(self) -> None:
        while True:
            await self._clock.sleep(self._hold_seconds)
            now = self._clock.monotonic()
            left = False
            for lane in self._lanes.values():
                if lane.held_since is None:
                    continue
                if now - lane.held_since >= self._hold_seconds:
                    lane.urgent = True
                    lane.held_since = None
                else:
                    left = True
            self._schedule()
            if not left:
                self._holding = False
                return

    def _be_lazy(self) -> None:
        if not self._lazy and not self._closed:
            self._lazy = True
            self._tasks.spawn(self._write_lazily(), name="outbox lazy writes")

    async def _write_lazily(self) -> None:
        """Positions and acknowledgements that found no company."""
        await self._clock.sleep(self._lazy_seconds)
        self._lazy = False
        self._submit_positions(tuple(self._positions))
        flushed = self._room.flush()
        if flushed is not None:
            try:
                await flushed
            except Exception as error:
                _log.warning("lazy_writes_lost", error=repr(error))

    # ── what ────────────────────────────────────────────────────────────────────────────────────────────────

    def _flush(self) -> None:
        self._flush_soon = False
        if self._closed or self._speaker is None or not self._speaker.connected:
            return
        for conversation_id, lane in list(self._lanes.items()):
            if lane.urgent and not lane.flying and lane.entries:
                batch = tuple(lane.entries)
                lane.entries.clear()
                lane.urgent = False
                lane.held_since = None
                lane.flying = True
                self._tasks.spawn(self._send(conversation_id, lane, batch), name="outbox send")

    def _submit_positions(self, conversations: tuple[str, ...]) -> None:
        if self._speaker is None or not self._speaker.connected:
            return
        for conversation_id in conversations:
            position = self._positions.pop(conversation_id, None)
            if position is None:
                continue
            body = {"conversation_id": conversation_id, "position": position}
            try:
                self._speaker.submit(ItemKind.COMMIT, body).add_done_callback(_look_at)
            except LoopError as error:
                _log.info("position_not_committed", code=str(error.code))

    async def _send(self, conversation_id: str, lane: Lane, batch: tuple[Entry, ...]) -> None:
        try:
            await self._faults.areach(FaultSite.DEVICE_OUTBOX_BEFORE_SEND)
            again = await self._speak(conversation_id, batch)
        except (LoopError, FaultInjected) as error:
            _log.info("outbox_batch_not_sent", conversation_id=conversation_id, error=repr(error))
            again = batch
        lane.flying = False
        if again:
            lane.entries.extendleft(reversed(again))
            lane.urgent = True
            await self._clock.sleep(RETRY_SECONDS)
        elif not lane.entries:
            self._lanes.pop(conversation_id, None)
            return
        self._schedule()

    async def _speak(self, conversation_id: str, batch: tuple[Entry, ...]) -> tuple[Entry, ...]:
        """Speaks a batch; answers what has to go again."""
        assert self._speaker is not None
        answers = [self._speaker.submit(ItemKind.SPEAK, entry.text) for entry in batch]
        self._submit_positions((conversation_id,))
        results = await _all_of(answers)
        # A link that was refused refuses what it carried; that is no word about the messages.
        spoken_to = self._speaker.connected
        mode = await self._faults.areach(FaultSite.DEVICE_OUTBOX_AFTER_SEND)
        if mode in (FaultMode.LOST_ACK, FaultMode.DUPLICATE):
            return batch
        again: list[Entry] = []
        for entry, result in zip(batch, results, strict=True):
            if isinstance(result, LoopError) and (result.retryable or not spoken_to):
                again.append(entry)
            elif isinstance(result, LoopError):
                _log.error("outbox_entry_refused", key=entry.key, code=str(result.code))
                self._settle(entry, str(result.code))
            else:
                self._settle(entry, None)
        return tuple(again)

    def _settle(self, entry: Entry, refusal: str | None) -> None:
        self._known.discard((entry.conversation_id, entry.key))
        self._on_waiting()
        self._room.pending.settled.append(Settled(entry.conversation_id, entry.key, refusal))
        self._be_lazy()


async def _all_of(answers: list[asyncio.Future[dict[str, Any]]]) -> list[dict[str, Any] | LoopError]:
    """The result or refusal of each; those of one frame come together, so this waits once per frame."""
    results: list[dict[str, Any] | LoopError] = []
    try:
        for answer in answers:
            try:
                results.append(await answer)
            except LoopError as error:
                results.append(error)
    finally:
        for answer in answers[len(results) :]:
            answer.cancel()
    return results


def _nobody_counts() -> None:
    """Nobody wants to know how much waits."""


def _look_at(answer: asyncio.Future[dict[str, Any]]) -> None:
    """A position that was not taken is said again with a later one."""
    if not answer.cancelled() and answer.exception() is not None:
        _log.info("position_not_committed", error=repr(answer.exception()))
