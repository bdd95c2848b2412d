"""A carrier inside the test's process, for what a real one does only by accident: lose, break, wait."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from lineloop.server.wakeup.relay import CarrierLost


@dataclass
class Wire:
    """What the carriers of several replicas hang on. `sent` keeps every text that was handed over."""

    up: bool = True
    held: bool = False
    lose: bool = False
    sent: list[str] = field(default_factory=list[str])
    ends: list[MemoryCarrier] = field(default_factory=list["MemoryCarrier"])

    def cut(self) -> None:
        self.up = False
        for end in self.ends:
            end.wake.set()

    def mend(self) -> None:
        self.up = True


class MemoryCarrier:
    name = "memory"

    def __init__(self, wire: Wire, max_text_bytes: int = 8_000) -> None:
        self._wire = wire
        self.max_text_bytes = max_text_bytes
        self.opened = 0
        self.waiting: list[str] = []
        self.wake = asyncio.Event()

    async def open(self) -> None:
        if not self._wire.up:
            raise CarrierLost("cut")
        self.opened += 1
        self.waiting.clear()
        self._wire.ends.append(self)

    async def send(self, texts: Sequence[str]) -> None:
        self._alive()
        self._wire.sent += texts
        while self._wire.held:
            self.wake.clear()
            await self.wake.wait()
            self._alive()
        if not self._wire.lose:
            for end in self._wire.ends:
                end.waiting += texts
                end.wake.set()

    async def receive(self) -> Sequence[str]:
        while not self.waiting:
            self._alive()
            self.wake.clear()
            await self.wake.wait()
        self._alive()
        taken, self.waiting = self.waiting, []
        return taken

    async def close(self) -> None:
        if self in self._wire.ends:
            self._wire.ends.remove(self)

    def _alive(self) -> None:
        if not self._wire.up:
            raise CarrierLost("cut")
