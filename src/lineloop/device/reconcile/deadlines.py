"""One precise timer for every deadline: calls, activations, operations.

Decides when a deadline has passed: while the process lives by the monotonic clock since it was armed,
whatever the wall clock does; after a restart by what is left of it, between nothing and its whole length.
What passing means is decided in the commit.
"""

from __future__ import annotations

import asyncio
import heapq
from functools import partial
from itertools import count

from lineloop.device.commit import calls, operations, sessions
from lineloop.device.commit.room import Room
from lineloop.device.reconcile.insist import insist
from lineloop.kit.tasks import Tasks

SOURCE = "runtime"
SITE = "device.deadline"


class Deadlines:
    """The heap and its one sleeper. `arm` is idempotent per (kind, id); what has ended fires into nothing."""

    def __init__(self, room: Room, tasks: Tasks) -> None:
        self._room = room
        self._clock = room.foundation.clock
        self._tasks = tasks
        self._heap: list[tuple[float, int, str, str]] = []
        self._known: set[tuple[str, str]] = set()
        self._numbers = count()
        self._sleeper: asyncio.Task[None] | None = None
        self._sleeps_until = float("inf")

    def arm(self, kind: str, id_: str, at: int, span_ms: int) -> None:
        """Will fire when `at` (UTC ms) is reached; never later than `span_ms` from now."""
        if (kind, id_) in self._known:
            return
        self._known.add((kind, id_))
        now = self._clock.monotonic()
        left = max(0, min(at - self._clock.now_ms(), span_ms)) / 1000
        if kind == "operation":
            self._room.stopwatch[id_] = now + left - span_ms / 1000
        heapq.heappush(self._heap, (now + left, next(self._numbers), kind, id_))
        if now + left < self._sleeps_until:
            self._sleep_again()

    def _sleep_again(self) -> None:
        if self._sleeper is not None:
            self._sleeper.cancel()
        if not self._heap:
            self._sleeps_until = float("inf")
            return
        self._sleeps_until = self._heap[0][0]
        self._sleeper = self._tasks.spawn(self._sleep(self._sleeps_until), name="deadline")

    async def _sleep(self, until: float) -> None:
        await self._clock.sleep(until - self._clock.monotonic())
        self._sleeper = None
        now = self._clock.monotonic()
        while self._heap and self._heap[0][0] <= now:
            _, _, kind, id_ = heapq.heappop(self._heap)
            self._tasks.spawn(self._fire(kind, id_), name=f"deadline {kind}")
        self._sleep_again()

    async def _fire(self, kind: str, id_: str) -> None:
        room = self._room
        match kind:
            case "call":
                decide = partial(calls.expire, room=room, ref=id_)
            case "activation":
                decide = partial(sessions.activation_failed, room=room, activation_id=id_, reason="deadline")
            case _:
                decide = partial(operations.reach_deadline, room=room, operation_id=id_)
        await insist(self._clock, f"deadline of {kind}", lambda: room.submit(SOURCE, decide, SITE))
        # Only now: while it cannot be stored, nobody else need try the same.
        self._known.discard((kind, id_))
