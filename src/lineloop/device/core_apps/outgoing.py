"""What the Runtime tells a core app by itself, at the pace at which the app's page takes it.

Decides that news wait as "this has changed" and become frames only when there is room: however slow a page
is, what waits for it is bounded by the feeds, and what it gets is the newest state. What a feed says is the
feed's own business.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Protocol

import structlog

from lineloop.kit.tasks import Tasks
from lineloop.protocol.errors import LoopError

_log = structlog.get_logger(__name__)

Send = Callable[[str], None]
Drained = Callable[[], Awaitable[None]]


class Feed(Protocol):
    """Something that changes. `frames` renders what is news at that moment; it ends when nothing is left."""

    def frames(self) -> AsyncGenerator[str, None]: ...

    def failed(self) -> None:
        """What was being rendered could not be read; render the whole when asked again."""
        ...


class Outgoing:
    """The event frames of one session. `send` takes one frame, `drained` returns when there is room."""

    def __init__(self, send: Send, tasks: Tasks, drained: Drained | None = None) -> None:
        self._send = send
        self._drained = drained
        self._waiting: dict[Feed, None] = {}
        self._wake = asyncio.Event()
        self._closed = False
        self._task = tasks.spawn(self._run(), name="core session")

    def mark(self, feed: Feed) -> None:
        """The feed has news. Cheap, and again is no harm."""
        if not self._closed:
            self._waiting[feed] = None
            self._wake.set()

    def forget(self, feed: Feed) -> None:
        """Nothing more of this feed."""
        self._waiting.pop(feed, None)

    def close(self) -> None:
        """Nothing more is sent. Idempotent."""
        self._closed = True
        self._waiting.clear()
        self._task.cancel()

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                feed = next(iter(self._waiting))
                del self._waiting[feed]
                await self._render(feed)

    async def _render(self, feed: Feed) -> None:
        """Whatever goes wrong with one feed, the others go on; its next news bring it all again."""
        try:
            await self._room()
            async with aclosing(feed.frames()) as frames:
                async for frame in frames:
                    if self._closed:
                        return
                    self._send(frame)
                    await self._room()
        except LoopError as error:
            _log.warning("core_feed_failed", code=str(error.code))
            feed.failed()
        except Exception:
            _log.exception("core_feed_broke")
            feed.failed()

    async def _room(self) -> None:
        if self._drained is not None:
            await self._drained()
