"""The queue between changes and workers: one worker per key, nothing lost, nothing twice.

A key added while it waits is the same work; a key added while it is worked on is worked on once more
afterwards.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from collections import deque
from collections.abc import Hashable
from itertools import count
from typing import Generic, TypeVar

from lineloop.kit.backoff import Backoff
from lineloop.kit.clock import Clock
from lineloop.kit.tasks import Tasks

K = TypeVar("K", bound=Hashable)


class QueueClosed(Exception):
    """Nothing more will come."""


class WorkQueue(Generic[K]):
    """Keys to work on. For one event loop; `close` it, it owns a timer task.

    Failures are spaced 5 ms · 2ⁿ up to 300 s with jitter, counted per key until `forget`.
    """

    def __init__(self, clock: Clock, *, name: str = "queue", random: random.Random | None = None) -> None:
        self._clock = clock
        self._backoff = Backoff(0.005, 2.0, 300.0, 0.2, random) if random else Backoff(0.005, 2.0, 300.0)
        self._tasks = Tasks(name)
        self._ready: deque[K] = deque()
        self._dirty: set[K] = set()
        self._processing: set[K] = set()
        self._failures: dict[K, int] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._due: dict[K, float] = {}
        self._timers: list[tuple[float, int, K]] = []
        self._sequence = count()
        self._timer: asyncio.Task[None] | None = None
        self._timer_due = float("inf")
        self._closed = False

    def __len__(self) -> int:
        """Keys that wait for a worker now."""
        return len(self._ready)

    @property
    def delayed(self) -> int:
        """Keys that wait for their time."""
        return len(self._due)

    def add(self, key: K) -> None:
        """Work on `key` as soon as a worker is free."""
        if self._closed or key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._processing:
            self._make_ready(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Work on `key` in `seconds`; of several times the earliest counts."""
        if self._closed:
            return
        if seconds <= 0:
            self.add(key)
            return
        due = self._clock.monotonic() + seconds
        if due >= self._due.get(key, float("inf")):
            return
        self._due[key] = due
        heapq.heappush(self._timers, (due, next(self._sequence), key))
        self._set_timer()

    def add_after_failure(self, key: K) -> float:
        """Work on `key` again after a delay that grows with its failures. Returns the seconds."""
        attempt = self._failures.get(key, 0)
        self._failures[key] = attempt + 1
        seconds = self._backoff.delay(attempt)
        self.add_after(key, seconds)
        return seconds

    def forget(self, key: K) -> None:
        """The key succeeded, or is given up: its failures count no more."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        return self._failures.get(key, 0)

    async def get(self) -> K:
        """The next key, now in this worker's hands until `done`. Raises QueueClosed."""
        while not self._ready:
            if self._closed:
                raise QueueClosed
            getter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                # A key meant for this worker must reach another one.
                if getter.done() and not getter.cancelled() and self._ready:
                    self._wake_one()
                raise
        if self._closed:
            raise QueueClosed
        key = self._ready.popleft()
        self._dirty.discard(key)
        self._processing.add(key)
        return key

    def done(self, key: K) -> None:
        """The worker has let go of `key`."""
        self._processing.discard(key)
        if key in self._dirty and not self._closed:
            self._make_ready(key)

    async def close(self) -> None:
        """Take nothing more and give nothing more; waiting workers get QueueClosed."""
        self._closed = True
        for getter in self._getters:
            if not getter.done():
                getter.set_result(None)
        await self._tasks.close()

    def _make_ready(self, key: K) -> None:
        self._ready.append(key)
        self._wake_one()

    def _wake_one(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _set_timer(self) -> None:
        due = self._timers[0][0]
        if self._timer is not None and not self._timer.done():
            if due >= self._timer_due:
                return
            self._timer.cancel()
        self._timer_due = due
        self._timer = self._tasks.spawn(self._ring(due), name="timer")

    async def _ring(self, due: float) -> None:
        while True:
            await self._clock.sleep(due - self._clock.monotonic())
            now = self._clock.monotonic()
            while self._timers and self._timers[0][0] <= now:
                at, _, key = heapq.heappop(self._timers)
                # A time that was replaced by an earlier one has rung already.
                if self._due.get(key) == at:
                    del self._due[key]
                    self.add(key)
            if not self._timers:
                self._timer_due = float("inf")
                return
            self._timer_due = due = self._timers[0][0]
