"""A viewer of a conversation stream in a test: keeps what it is told, by the rules of the wire."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import httpx
from httpx_sse import EventSource, ServerSentEvent
from tests.contract.server.calls import Json

from lineloop.protocol.patches import apply_patch


class Reader:
    """`next` takes one event; a patch that does not follow what is known fails the test."""

    def __init__(self, events: AsyncIterator[ServerSentEvent]) -> None:
        self._events = events
        self.messages: dict[str, Json] = {}
        self.kinds: list[str] = []
        self.ids: list[int] = []

    async def next(self) -> tuple[str, Json]:
        async with asyncio.timeout(5):
            event = await anext(self._events)
        data: Json = event.json()
        self.kinds.append(event.event)
        self.ids.append(int(event.id))
        if event.event == "message":
            self.messages[data["message"]["id"]] = data["message"]
        elif event.event == "patch":
            known = self.messages[data["message_id"]]
            assert data["patch"]["seq"] == known["revision"] + 1
            content = apply_patch(known["content"], data["patch"])
            self.messages[data["message_id"]] = {
                **known,
                "content": content,
                "revision": data["patch"]["seq"],
            }
        return event.event, data

    async def until(self, kind: str) -> Json:
        while True:
            seen, data = await self.next()
            if seen == kind:
                return data


@asynccontextmanager
async def viewer(
    client: httpx.AsyncClient, conversation: str, last: int | str | None = None, **headers: str
) -> AsyncGenerator[Reader]:
    if last is not None:
        headers["last-event-id"] = str(last)
    path = f"/v1/conversations/{conversation}/stream"
    async with client.stream("GET", path, headers=headers) as response:
        assert response.status_code == 200, await response.aread()
        assert response.headers["content-type"].startswith("text/event-stream")
        yield Reader(EventSource(response).aiter_sse())
