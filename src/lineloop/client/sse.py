"""Streams that people's clients and callers observe, resumed after every break.

Decides how events are read and when a broken stream is opened again with Last-Event-ID. What is sent after a
resume is the server's decision; whether an event applies to what is known, `View` decides by revision
(spec/protocol.md §8.4).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from lineloop.client.event_stream import epoch_of
from lineloop.client.retry import asked_pause_seconds, is_transient
from lineloop.client.transport import ServerSentEvent, Transport
from lineloop.kit import json
from lineloop.kit.backoff import Backoff
from lineloop.kit.clock import Clock
from lineloop.kit.records import record
from lineloop.protocol.errors import ConnectionLost, LoopError
from lineloop.protocol.messages import ConversationInfo, Message
from lineloop.protocol.sse import (
    CONVERSATION_EVENT,
    DRAIN_EVENT,
    MESSAGE_EVENT,
    PATCH_EVENT,
    PING_EVENT,
    StreamView,
)
from lineloop.protocol.sse import StreamEvent as Told

MAX_RETRY_MS = 60_000


@record
class MessageEvent:
    """The whole message; replaces what was known of it."""

    message: Message


@record
class PatchEvent:
    """One update; applies only when its seq follows the known revision."""

    message_id: str
    patch: dict[str, Any]


@record
class PingEvent:
    """A sign of life: the highest ordinal of each conversation covered by the stream."""

    ordinals: dict[str, int]


@record
class ConversationEvent:
    """The conversation as it is called, whether it is archived, how far this person has read."""

    conversation: ConversationInfo


@record
class StartedAnew:
    """The server's database is in another life than before: forget what is known, everything comes again."""


StreamEvent = MessageEvent | PatchEvent | PingEvent | ConversationEvent | StartedAnew


def stream_event(raw: ServerSentEvent) -> StreamEvent | None:
    """The typed event; None for a kind this version does not know. Raises ConnectionLost for garbage."""
    try:
        data: Any = json.loads(raw.data) if raw.data else {}
        if raw.event == MESSAGE_EVENT and "message" in data:
            return MessageEvent(Message.from_wire(data["message"]))
        if raw.event == PATCH_EVENT:
            return PatchEvent(data["message_id"], data["patch"])
        if raw.event == PING_EVENT:
            return PingEvent(data.get("ordinals", {}))
        if raw.event == CONVERSATION_EVENT:
            return ConversationEvent(ConversationInfo.from_wire(data["conversation"]))
    except (ValueError, KeyError, TypeError, LoopError) as error:
        raise ConnectionLost(f"the stream sent something that is no event: {error}") from error
    return None


async def stream_once(
    transport: Transport, path: str, last_event_id: str | None = None
) -> AsyncGenerator[tuple[str | None, StreamEvent], None]:
    """(event id, event) of one connection until it ends. Raises ConnectionLost, or a refusal's LoopError.

    A server that stops says so: ConnectionLost with `retry_after_ms`, for which it asks to be left alone.
    Its first event is StartedAnew when `last_event_id` comes from another life of the server's database.
    """
    known = epoch_of(last_event_id)
    async with transport.events(path, last_event_id=last_event_id) as raw_events:
        async for raw in raw_events:
            epoch = epoch_of(raw.id)
            if known and epoch and epoch != known:
                yield None, StartedAnew()
            known = epoch or known
            if raw.event == DRAIN_EVENT:
                raise ConnectionLost("the server stops", detail={"retry_after_ms": _retry_ms(raw.data)})
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
        asked = 0.0
        try:
            async for event_id, event in stream_once(transport, path, last_event_id):
                attempt = 0
                last_event_id = event_id or last_event_id
                yield event
        except LoopError as error:
            if not is_transient(error):
                raise
            asked = asked_pause_seconds(error)
        await clock.sleep(max(asked, backoff.delay(attempt)))
        attempt += 1


def _retry_ms(data: str) -> int:
    """What the last words of a stopping server ask for; 0 for what is not understood."""
    try:
        asked: Any = json.loads(data)["retry_ms"]
    except (ValueError, KeyError, TypeError):
        return 0
    return min(asked, MAX_RETRY_MS) if isinstance(asked, int) and asked > 0 else 0


class View:
    """The messages of a stream as a viewer knows them, by the rules of `lineloop.protocol.sse`.

    `behind` says that something is missing: read the stream again from its beginning, or the messages named
    by the next events. The server heals a gap by itself when it sees one.
    """

    def __init__(self) -> None:
        self._rules = StreamView()
        self.behind = False

    @property
    def messages(self) -> dict[str, Message]:
        """What is known, by message id."""
        return {known: Message.from_wire(wire) for known, wire in self._rules.messages.items()}

    def apply(self, event: StreamEvent) -> Message | None:
        """The message as it is after the event; None when the event changed none."""
        if isinstance(event, MessageEvent):
            message_id = event.message.id
            told = Told(MESSAGE_EVENT, "", {"message": event.message.to_wire()})
        elif isinstance(event, PatchEvent):
            message_id = event.message_id
            told = Told(PATCH_EVENT, "", {"message_id": message_id, "patch": event.patch})
        elif isinstance(event, ConversationEvent):
            return None
        elif isinstance(event, StartedAnew):
            self._rules, self.behind = StreamView(), False
            return None
        else:
            self.behind = self._rules.take(Told(PING_EVENT, "", {"ordinals": event.ordinals}))
            return None
        before = self._rules.messages.get(message_id)
        self.behind = self._rules.take(told)
        after = self._rules.messages.get(message_id)
        return None if after is None or after is before else Message.from_wire(after)
