"""Streams that people's clients and callers observe, resumed after every break.

Decides how events are read and when a broken stream is opened again with Last-Event-ID. What is sent after a
resume is the server's decision; whether an event applies to what is known, `View` decides by revision
(spec/protocol.md §8.4).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

from httpx_sse import ServerSentEvent

from lineloop.client.retry import is_transient
from lineloop.client.transport import Transport
from lineloop.kit import json
from lineloop.kit.backoff import Backoff
from lineloop.kit.clock import Clock
from lineloop.protocol.errors import ConnectionLost, LoopError
from lineloop.protocol.messages import Message
from lineloop.protocol.patches import apply_patch


@dataclass(frozen=True, slots=True)
class MessageEvent:
    """The whole message; replaces what was known of it."""

    message: Message


@dataclass(frozen=True, slots=True)
class PatchEvent:
    """One update; applies only when its seq follows the known revision."""

    message_id: str
    patch: dict[str, Any]


@dataclass(frozen=True, slots=True)
class PingEvent:
    """A sign of life: the highest ordinal of each conversation covered by the stream."""

    ordinals: dict[str, int]


StreamEvent = MessageEvent | PatchEvent | PingEvent


def stream_event(raw: ServerSentEvent) -> StreamEvent | None:
    """The typed event; None for a kind this version does not know. Raises ConnectionLost for garbage."""
    try:
        data: Any = json.loads(raw.data) if raw.data else {}
        if raw.event == "message" and "message" in data:
            return MessageEvent(Message.from_wire(data["message"]))
        if raw.event == "patch":
            return PatchEvent(data["message_id"], data["patch"])
        if raw.event == "ping":
            return PingEvent(data.get("ordinals", {}))
    except (ValueError, KeyError, TypeError, LoopError) as error:
        raise ConnectionLost(f"the stream sent something that is no event: {error}") from error
    return None


async def stream_once(
    transport: Transport, path: str, last_event_id: str | None = None
) -> AsyncGenerator[tuple[str | None, StreamEvent], None]:
    """(event id, event) of one connection until it ends. Raises ConnectionLost, or a refusal's LoopError."""
    async with transport.events(path, last_event_id=last_event_id) as raw_events:
        async for raw in raw_events:
            event = stream_event(raw)
            if event is not None:
                yield raw.id or None, event


async def stream_resumed(
    transport: Transport, path: str, clock: Clock, last_event_id: str | None = None
) -> AsyncGenerator[StreamEvent, None]:
    """Events without end: every break reopens the stream where it ended, with growing pauses.

    Raises the LoopError of a refusal (not found, forbidden). Stop by leaving the loop (`aclose`).
    """
    backoff = Backoff(0.1, 2.0, 10.0, 0.3)
    attempt = 0
    while True:
        try:
            async for event_id, event in stream_once(transport, path, last_event_id):
                attempt = 0
                last_event_id = event_id or last_event_id
                yield event
        except LoopError as error:
            if not is_transient(error):
                raise
        await clock.sleep(backoff.delay(attempt))
        attempt += 1


class View:
    """The messages of a stream as a viewer knows them.

    A message replaces, a patch that continues the known revision is applied, any other is passed over: the
    server then sends the message again.
    """

    def __init__(self) -> None:
        self.messages: dict[str, Message] = {}

    def apply(self, event: StreamEvent) -> Message | None:
        """The message as it is after the event; None when the event changed none."""
        if isinstance(event, MessageEvent):
            known = self.messages.get(event.message.id)
            if known is not None and event.message.revision < known.revision:
                return None
            self.messages[event.message.id] = event.message
            return event.message
        if isinstance(event, PatchEvent):
            known = self.messages.get(event.message_id)
            if known is None or event.patch.get("seq") != known.revision + 1:
                return None
            changed = known.with_content(apply_patch(known.content, event.patch), known.revision + 1)
            self.messages[changed.id] = changed
            return changed
        return None
