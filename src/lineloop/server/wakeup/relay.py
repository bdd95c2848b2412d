"""The relay: hints from this replica to the others and back, over whatever carrier there is.

Decides what happens when the carrier is slow, broken or gone: nobody waits for it and nothing fails; hints
are thrown away, and the sweeps find what they would have told. Leaves to a `Carrier` how a text travels, and
to `upkeep.rereading` what a hint from elsewhere means here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import structlog

from lineloop.kit.backoff import Backoff
from lineloop.kit.clock import Clock
from lineloop.kit.tasks import Tasks
from lineloop.server.wakeup.bus import Hint
from lineloop.server.wakeup.relay_hints import Bundle, RemoteHint, parse_bundle

# A connection that held this long counts as good: the next break is tried again at once.
GOOD_SECONDS = 10.0

_log = structlog.get_logger(__name__)


class CarrierLost(Exception):
    """The carrier does not carry any more; what was on its way may be lost."""


class Carrier(Protocol):
    """A way for short texts to every replica, this one included. May lose any of them.

    Every method raises CarrierLost and nothing else; all but `receive` within a few seconds.
    """

    @property
    def name(self) -> str:
        """`redis` or `postgres`."""
        ...

    @property
    def max_text_bytes(self) -> int: ...

    async def open(self) -> None:
        """Connects. What is sent from now on by anybody is received."""
        ...

    async def send(self, texts: Sequence[str]) -> None: ...

    async def receive(self) -> Sequence[str]:
        """Waits for texts, in the order in which they were sent; answers none after a few seconds."""
        ...

    async def close(self) -> None:
        """Repeating is harmless; `open` may follow."""
        ...


@dataclass(slots=True)
class RelayFigures:
    """What a relay has done so far. `dropped` are hints that nobody elsewhere was told."""

    connected: bool = False
    sent: int = 0
    received: int = 0
    dropped: int = 0
    breaks: int = 0


class Relay:
    """Hand `send` to `Bus.relay_to`, and run `run` as a task.

    `hear` gets the hints of other replicas; `restored` is called when hints may have been missed. Both on
    the loop.
    """

    def __init__(
        self,
        carrier: Carrier,
        clock: Clock,
        origin: str,
        *,
        hear: Callable[[Sequence[RemoteHint]], None],
        restored: Callable[[], None],
    ) -> None:
        self._carrier = carrier
        self._clock = clock
        self._origin = origin
        self._hear = hear
        self._restored = restored
        self._bundle = Bundle()
        self._wake = asyncio.Event()
        self._backoff = Backoff(0.1, 2.0, 5.0, 0.3)
        self.figures = RelayFigures()

    @property
    def name(self) -> str:
        return self._carrier.name

    def send(self, hint: Hint) -> None:
        """Takes a hint along, or throws it away while there is no connection. Never waits."""
        if not self.figures.connected:
            self.figures.dropped += 1
        elif self._bundle.add(hint):
            self._wake.set()

    async def run(self) -> None:
        """Until cancelled: connect, carry, connect again."""
        attempt = 0
        while True:
            begun = self._clock.monotonic()
            try:
                await self._carrier.open()
                _heed_cancellation()
                await self._carry()
            except CarrierLost as error:
                if self.figures.connected and self._clock.monotonic() - begun >= GOOD_SECONDS:
                    attempt = 0
                if not attempt:
                    _log.warning("relay_lost", carrier=self.name, reason=str(error))
                self.figures.breaks += 1
            finally:
                self.figures.connected = False
                self.figures.dropped += len(self._bundle)
                self._bundle = Bundle()
                await self._carrier.close()
            await self._clock.sleep(self._backoff.delay(attempt))
            attempt += 1

    async def _carry(self) -> None:
        """Both directions until one of them breaks. Raises CarrierLost."""
        self.figures.connected = True
        _log.info("relay_connected", carrier=self.name)
        self._restored()
        async with Tasks("relay") as tasks:
            ways = (
                tasks.spawn(_outcome(self._send_all()), name="send"),
                tasks.spawn(_outcome(self._receive_all()), name="receive"),
            )
            done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            raise next(iter(done)).result()

    async def _send_all(self) -> None:
        """What gathers while a bundle is on its way travels with the next."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            bundle, self._bundle = self._bundle, Bundle()
            texts = list(bundle.texts(self._origin, self._carrier.max_text_bytes))
            if texts:
                await self._carrier.send(texts)
                _heed_cancellation()
                self.figures.sent += len(bundle)

    async def _receive_all(self) -> None:
        while True:
            texts = await self._carrier.receive()
            _heed_cancellation()
            for text in texts:
                try:
                    origin, hints = parse_bundle(text)
                except ValueError as error:
                    _log.warning("relay_garbage", carrier=self.name, reason=str(error))
                    continue
                if origin != self._origin:
                    self.figures.received += len(hints)
                    self._hear(hints)


async def _outcome(way: Awaitable[None]) -> CarrierLost:
    """What ended a direction, as a value: a task that raises would be logged as a crash."""
    try:
        await way
    except CarrierLost as error:
        return error
    raise AssertionError("a direction of the relay ends by breaking only")


def _heed_cancellation() -> None:
    """A cancellation that came together with a timeout deep in a library is lost there; it still counts."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
