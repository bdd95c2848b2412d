"""A server that does what a test says: scripted answers to calls, and the far end of a link.

For tests of clients that must meet errors, breaks and silence at exact moments. Decides nothing by itself.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from lineloop.client.transport import LinkConnection, Params, Response, ServerSentEvent
from lineloop.kit import json
from lineloop.kit.records import record
from lineloop.protocol.errors import ConnectionLost, LoopError

HELLO: dict[str, Any] = {
    "hello": {
        "protocol": 1,
        "epoch": "e1",
        "actor": {"kind": "operator", "key": "echo"},
        "heartbeat_ms": 15_000,
    }
}


def wire_message(**changes: Any) -> dict[str, Any]:
    """A complete message as the server sends it; `text` is put into its content."""
    text = changes.pop("text", "hello")
    wire: dict[str, Any] = {
        "id": "m1",
        "conversation_id": "c1",
        "actor": {"kind": "operator", "key": "echo"},
        "target": None,
        "key": "k1",
        "reply_to_id": None,
        "purpose": "speech",
        "status": "completed",
        "revision": 0,
        "ordinal": 1,
        "offset": 1,
        "content": {
            "version": "1.1",
            "biz": "chat",
            "meta": {},
            "blocks": [{"id": "text", "type": "text", "content": text}],
        },
        "created_at": "2026-01-02T03:04:05.678Z",
        "updated_at": "2026-01-02T03:04:05.678Z",
        "change": 1,
    }
    return {**wire, **changes}


@record
class Asked:
    """One call that the client made."""

    method: str
    path: str
    json: Any
    params: dict[str, Any]


Answer = Response | LoopError | Callable[[Asked], Any]


@dataclass
class ScriptedTransport:
    """Answers calls from `answers`, in order; when they are used up, from `otherwise`.

    A LoopError is raised, a callable gets the call and may be async. `streams` are given to SSE readers one
    after the other: events, and a LoopError where the stream breaks.
    """

    answers: deque[Answer] = field(default_factory=deque[Answer])
    otherwise: Answer | None = None
    asked: list[Asked] = field(default_factory=list[Asked])
    streams: deque[list[ServerSentEvent | LoopError]] = field(
        default_factory=deque[list[ServerSentEvent | LoopError]]
    )
    resumed_from: list[str | None] = field(default_factory=list[str | None])
    ends: deque[ScriptedLinkEnd] = field(default_factory=deque["ScriptedLinkEnd"])

    async def request(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        params: Params | None = None,
        timeout_seconds: float = 30.0,
    ) -> Response:
        del timeout_seconds
        asked = Asked(method, path, json, dict(params or {}))
        self.asked.append(asked)
        answer: Any = self.answers.popleft() if self.answers else self.otherwise
        if callable(answer):
            answer = answer(asked)
            if asyncio.iscoroutine(answer):
                answer = await answer
        if isinstance(answer, LoopError):
            raise answer
        if answer is None:
            raise AssertionError(f"no answer is scripted for {method} {path}")
        return answer if isinstance(answer, Response) else Response(200, answer)

    @asynccontextmanager
    async def events(
        self, path: str, *, params: Params | None = None, last_event_id: str | None = None
    ) -> AsyncGenerator[AsyncIterator[ServerSentEvent], None]:
        del path, params
        self.resumed_from.append(last_event_id)
        if not self.streams:
            raise ConnectionLost("no stream is scripted")
        yield _played(self.streams.popleft())

    async def upload(
        self, path: str, body: AsyncIterator[bytes], *, media_type: str, params: Params | None = None
    ) -> Response:
        whole = b"".join([part async for part in body])
        return await self.request("POST", path, json=(media_type, whole), params=params)

    @asynccontextmanager
    async def parts(
        self, path: str, *, params: Params | None = None
    ) -> AsyncGenerator[AsyncIterator[bytes], None]:
        answer = await self.request("GET", path, params=params)
        yield _given(answer.body)

    @asynccontextmanager
    async def lines(
        self, path: str, *, params: Params | None = None
    ) -> AsyncGenerator[AsyncIterator[str], None]:
        del path, params
        raise ConnectionLost("no lines are scripted")
        yield  # pragma: no cover

    async def open_link(self) -> LinkConnection:
        if not self.ends:
            raise ConnectionLost("nobody listens")
        return self.ends.popleft()

    async def close(self) -> None:
        """Nothing to give back."""


async def _given(body: bytes) -> AsyncGenerator[bytes, None]:
    yield body


async def _played(events: list[ServerSentEvent | LoopError]) -> AsyncGenerator[ServerSentEvent, None]:
    for event in events:
        if isinstance(event, LoopError):
            raise event
        yield event


class ScriptedLinkEnd:
    """The server's end of one link connection, in the hands of a test.

    `sent` holds the client's frames. With `answering`, each item is answered `{"ok": true, …}` at once.
    """

    def __init__(self, *, hello: Mapping[str, Any] | None = None, answering: bool = False) -> None:
        self.sent: list[dict[str, Any]] = []
        self._incoming: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._closed = False
        self._answering = answering
        self.push(dict(hello if hello is not None else HELLO))

    def push(self, frame: dict[str, Any]) -> None:
        """Send a frame to the client."""
        self._incoming.put_nowait(frame)

    def answer(self, frame: Mapping[str, Any], results: list[dict[str, Any]] | None = None) -> None:
        """Acknowledge a frame, each item with `ok` unless told otherwise."""
        self.push({"id": frame["id"], "results": results if results is not None else ok_results(frame)})

    def cut(self) -> None:
        """Break the connection."""
        self._closed = True
        self._incoming.put_nowait(None)

    @property
    def closed(self) -> bool:
        return self._closed

    async def send(self, frame: str) -> None:
        if self._closed:
            raise ConnectionLost("the link was cut")
        sent = json.loads(frame)
        self.sent.append(sent)
        if self._answering:
            self.answer(sent)

    async def receive(self) -> dict[str, Any]:
        frame = await self._incoming.get()
        if frame is None:
            self._incoming.put_nowait(None)
            raise ConnectionLost("the link was cut")
        return frame

    async def close(self) -> None:
        self.cut()


def ok_results(frame: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What a server answers to a frame when all went well."""
    results: list[dict[str, Any]] = [
        {"ok": True, "message": wire_message(key=item["key"], id=f"m-{item['key']}")}
        for item in frame.get("speak", ())
    ]
    results += [{"ok": True} for _ in frame.get("commit", ())]
    results += [
        {"ok": True, "revision": item["patches"][-1]["seq"], "status": "streaming"}
        for item in frame.get("patches", ())
    ]
    results += [
        {"ok": True, "revision": item["seq"], "status": item.get("status", "completed")}
        for item in frame.get("end", ())
    ]
    return results
