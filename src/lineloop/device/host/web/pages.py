"""One connected page: what waits to be sent to it, and how much of that there may be.

Decides that of each level-triggered part (the workspace, the apps, …) only the newest waits, that everything
else is bounded, and that a page which does not keep up is sent away: it comes back and reads the whole truth.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from lineloop.device.bridge.shapes import encode
from lineloop.kit.json_size import size_of_text

MAX_WAITING_BYTES = 4 * 1024 * 1024
ROOM_BYTES = 512 * 1024
"""Below this much waiting, a page has room for what can be told later just as well."""

SLOW = 4408
RETRY_MS = 1_000

SendText = Callable[[str], Awaitable[None]]


class PageGone(Exception):
    """The page is to be left: with this close code, after a `bye` that says why."""

    def __init__(self, reason: str, code: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.code = code


class Page:
    """A page that has been let in. `visible` and `focused` are what it said last.

    `run` sends until the page is left; nothing else writes to its connection.
    """

    def __init__(self, host_session_id: str, tab: str, language: str) -> None:
        self.host_session_id = host_session_id
        self.tab = tab
        self.language = language
        self.key_name = ""
        """The key with which it was let in; it is no secret."""

        self.visible = False
        self.focused = False
        self.running = 0
        self._waiting: deque[str] = deque()
        self._parts: dict[str, str] = {}
        self._told: dict[str, str] = {}
        self._bytes = 0
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._leaving: PageGone | None = None

    def tell(self, part: str, payload: dict[str, Any]) -> None:
        """The whole truth of a part, as it is now. What the page has been told already is not told again."""
        text = encode(part, payload)
        if self._told.get(part) == text:
            self._parts.pop(part, None)
        elif self._leaving is None:
            self._parts[part] = text
            self._wake.set()

    def untold(self, part: str) -> None:
        """The page acts on what it is told: tell it this part again although nothing has changed."""
        self._told.pop(part, None)

    def send(self, text: str) -> None:
        """One frame, in order. A page with too much waiting is left."""
        if self._leaving is not None:
            return
        self._waiting.append(text)
        self._bytes += size_of_text(text)
        if self._bytes > MAX_WAITING_BYTES:
            self.leave("slow", SLOW)
        elif self._bytes > ROOM_BYTES:
            self._room.clear()
        self._wake.set()

    async def drained(self) -> None:
        """Returns when there is room for more."""
        await self._room.wait()

    def leave(self, reason: str, code: int) -> None:
        """Ends the connection with a `bye`; the first reason counts."""
        if self._leaving is None:
            self._leaving = PageGone(reason, code)
            self._waiting.clear()
            self._parts.clear()
            self._room.set()
            self._wake.set()

    async def run(self, send: SendText) -> None:
        """Sends what waits. Raises PageGone, and what `send` raises."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._leaving is None and (self._waiting or self._parts):
                if self._parts:
                    part = next(iter(self._parts))
                    text = self._told[part] = self._parts.pop(part)
                else:
                    text = self._waiting.popleft()
                    self._bytes -= size_of_text(text)
                    if self._bytes <= ROOM_BYTES:
                        self._room.set()
                await send(text)
            if self._leaving is not None:
                await send(encode("bye", {"reason": self._leaving.reason, "retry_ms": RETRY_MS}))
                raise self._leaving
