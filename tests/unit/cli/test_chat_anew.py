"""The chat in a terminal, when its server was put back to a backup."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import pytest
from rich.console import Console

from lineloop.cli.chat.session import BEGAN_ANEW, ChatSession
from lineloop.cli.chat.wire import ChatWire
from lineloop.client.transport import ServerSentEvent, Transport
from lineloop.kit import json
from lineloop.kit.ids import Ids
from lineloop.protocol.actors import Actor
from lineloop.protocol.content import text_content
from lineloop.testing import FakeClock, until


def message(number: int, text: str) -> dict[str, Any]:
    return {
        "id": f"msg_{text}",
        "conversation_id": "con_1",
        "actor": {"kind": "operator", "key": "assistant"},
        "target": None,
        "key": text,
        "reply_to_id": None,
        "purpose": "speech",
        "status": "completed",
        "revision": 0,
        "ordinal": number,
        "offset": number,
        "content": text_content(text),
        "created_at": "2026-01-01T00:00:00.000Z",
        "updated_at": "2026-01-01T00:00:00.000Z",
    }


def told(event_id: str, number: int, text: str) -> ServerSentEvent:
    return ServerSentEvent("message", json.dumps({"message": message(number, text)}), event_id)


class Restored:
    """The stream of a server that is restored between two connections; it notes what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[str | None] = []
        self.lives = [
            [told("e1@1", 1, "kept"), told("e1@2", 2, "lost")],
            [told("e2@1", 1, "kept"), told("e2@2", 2, "new")],
        ]

    @asynccontextmanager
    async def events(
        self, path: str, *, last_event_id: str | None = None
    ) -> AsyncGenerator[AsyncIterator[ServerSentEvent]]:
        assert path.endswith("/stream")
        self.asked.append(last_event_id)
        yield self._told()

    async def _told(self) -> AsyncGenerator[ServerSentEvent]:
        if len(self.lives) >= len(self.asked):
            for event in self.lives[len(self.asked) - 1]:
                yield event
        else:
            await asyncio.Event().wait()


@pytest.mark.requirement("T2")
async def test_the_view_is_the_restored_conversation_and_says_so() -> None:
    server, clock = Restored(), FakeClock()
    wire = ChatWire(cast("Transport", server), "con_1", Actor("operator", "assistant"))
    console = Console(file=io.StringIO(), width=80)
    session = ChatSession(wire, clock, Ids(clock), console)
    following = asyncio.get_running_loop().create_task(session._follow("0"))  # pyright: ignore[reportPrivateUsage]
    stay = session._stay  # pyright: ignore[reportPrivateUsage]
    await until(lambda: any("lost" in line.text for line in stay))
    await clock.advance(3)
    await until(lambda: any("new" in line.text for line in stay))
    following.cancel()
    with suppress(asyncio.CancelledError):
        await following
    assert server.asked[:2] == ["0", "e1@2"]
    shown = [line.text for line in stay]
    assert [text for text in shown if text in ("kept", "lost", "new", BEGAN_ANEW)] == [
        "kept",
        "lost",
        BEGAN_ANEW,
        "kept",
        "new",
    ]
