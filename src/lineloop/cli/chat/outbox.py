"""What the person has typed and the server does not have yet, in order.

Decides that nothing typed is lost in silence: each thing is sent under one key until the server has it,
refused things are said, and what is still here at the end can be told.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from lineloop.cli.chat.wire import ChatWire
from lineloop.kit.backoff import Backoff
from lineloop.kit.clock import Clock
from lineloop.protocol.errors import LoopError
from lineloop.protocol.messages import Message


class Outgoing(NamedTuple):
    """A text with its key, or the answer to a question; `text` None dismisses it."""

    text: str | None
    key: str = ""
    question_id: str = ""


class Outbox:
    """`sent` is told of every stored text, `refused` of everything that will never be stored."""

    def __init__(
        self,
        wire: ChatWire,
        clock: Clock,
        *,
        sent: Callable[[Message], None],
        refused: Callable[[Outgoing, LoopError], None],
        changed: Callable[[], None],
    ) -> None:
        self._wire = wire
        self._clock = clock
        self._sent = sent
        self._refused = refused
        self._changed = changed
        self._waiting: deque[Outgoing] = deque()
        self._fresh = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self._backoff = Backoff(first_seconds=0.3, factor=2.0, limit_seconds=2.0, jitter=0.2)
        self.delayed = False

    def put(self, thing: Outgoing) -> None:
        self._waiting.append(thing)
        self._empty.clear()
        self._fresh.set()

    def unsent(self) -> list[str]:
        """The texts and answers that the server may not have."""
        return [thing.text for thing in self._waiting if thing.text is not None]

    async def wait_empty(self) -> None:
        await self._empty.wait()

    async def run(self) -> None:
        """One thing at a time and in order; a lost connection delays, it never drops or doubles."""
        while True:
            while not self._waiting:
                self._fresh.clear()
                self._empty.set()
                await self._fresh.wait()
            await self._deliver(self._waiting[0])
            self._waiting.popleft()
            self.delayed = False
            self._changed()

    async def _deliver(self, thing: Outgoing) -> None:
        attempt = 0
        while True:
            try:
                if thing.question_id:
                    await self._wire.answer(thing.question_id, thing.text)
                else:
                    self._sent(await self._wire.say(thing.key, thing.text or ""))
            except LoopError as error:
                if not error.retryable:
                    self._refused(thing, error)
                    return
            else:
                return
            self.delayed = True
            self._changed()
            await self._clock.sleep(self._backoff.delay(attempt))
            attempt += 1
