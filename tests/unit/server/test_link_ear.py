"""Messages that come by the server's queue wait there while the session takes none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest
from starlette.websockets import WebSocket, WebSocketDisconnect

from lineloop.kit.tasks import Tasks
from lineloop.server.http.link import LinkSession
from lineloop.server.http.link_socket import _Ear, _read  # pyright: ignore[reportPrivateUsage]
from lineloop.testing.waiting import until


class Queue:
    """A socket whose messages were put together by the server, e.g. because they came in parts."""

    def __init__(self, count: int) -> None:
        self.left = count

    async def receive(self) -> dict[str, Any]:
        if not self.left:
            return {"type": "websocket.disconnect"}
        self.left -= 1
        return {"type": "websocket.receive", "text": "{}"}


class Full:
    """A session that makes wait from the first message on."""

    def __init__(self) -> None:
        self.room = asyncio.Event()
        self.taken = 0

    def take(self, message: str | bytes) -> Coroutine[Any, Any, None] | None:
        del message
        self.taken += 1
        return None if self.room.is_set() else self._wait()

    async def _wait(self) -> None:
        await self.room.wait()

    async def send(self, message: str | bytes) -> None:
        self.take(message)


class Wire:
    paused = False

    def take_messages(self, taker: Callable[[str | bytes], None]) -> None:
        del taker

    async def send_text(self, text: str) -> None:
        raise WebSocketDisconnect

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False


@pytest.mark.requirement("L16")
async def test_a_session_that_takes_nothing_is_not_read_for_in_parts_either() -> None:
    queue, session, wire = Queue(1_000), Full(), Wire()
    async with Tasks("test") as tasks:
        ear = _Ear(wire, cast("LinkSession", session), tasks)
        reading = tasks.spawn(_read(cast("WebSocket", queue), cast("LinkSession", session), ear), name="read")
        await until(lambda: wire.paused)
        for _ in range(100):
            await asyncio.sleep(0)
        assert queue.left == 999
        session.room.set()
        await reading
        assert (session.taken, queue.left) == (1_000, 0)
