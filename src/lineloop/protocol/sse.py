"""The conversation stream: its frames, and what a viewer makes of them (spec/protocol.md §8.4).

Pure. Decides when a message replaces, when a patch applies and when a viewer must ask again. Connecting,
waiting and resuming belong to the client; which events are sent belongs to the server.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lineloop.kit import json as codec
from lineloop.protocol.errors import PatchInvalid
from lineloop.protocol.patches import apply_patch

MESSAGE_EVENT = "message"
PATCH_EVENT = "patch"
PING_EVENT = "ping"
CONVERSATION_EVENT = "conversation"
DRAIN_EVENT = "drain"


class StreamEvent(NamedTuple):
    """One event; `id` is the change counter of the root conversation, "" when the frame has none."""

    event: str
    id: str
    data: Any


def encode_event(event: StreamEvent) -> bytes:
    """One frame. Data is one line of JSON, so no frame is ever cut by its content."""
    head = f"id: {event.id}\n" if event.id else ""
    return f"{head}event: {event.event}\ndata: {codec.dumps(event.data)}\n\n".encode()


def decode_events(text: str) -> list[StreamEvent]:
    """The events of whole frames, comments and unknown fields are passed over.

    Raises ValueError when data is not JSON.
    """
    events: list[StreamEvent] = []
    frames = text.replace("\r\n", "\n").replace("\r", "\n").split("\n\n")
    for frame in frames[:-1]:  # what stands behind the last blank line is not a whole frame yet
        fields = _fields(frame.split("\n"))
        if "data" in fields:
            data = codec.loads(fields["data"])
            events.append(StreamEvent(fields.get("event", MESSAGE_EVENT), fields.get("id", ""), data))
    return events


def _fields(lines: Iterable[str]) -> dict[str, str]:
    fields: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        if not name:
            continue
        value = value[1:] if value.startswith(" ") else value
        fields[name] = f"{fields[name]}\n{value}" if name == "data" and "data" in fields else value
    return fields


@dataclass
class StreamView:
    """What a viewer knows. `take` folds events in; it answers whether the viewer must resync now.

    A resync is asked for once per gap: until the missing message arrives, further gaps of it stay silent.
    """

    messages: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    last_event_id: str = ""
    _missing: set[str] = field(default_factory=set[str])
    _ordinals: dict[str, int] = field(default_factory=dict[str, int])

    def take(self, event: StreamEvent) -> bool:
        if event.id:
            self.last_event_id = event.id
        if event.event == MESSAGE_EVENT:
            self._take_message(event.data["message"])
            return False
        if event.event == PATCH_EVENT:
            return self._take_patch(event.data["message_id"], event.data["patch"])
        return event.event == PING_EVENT and self._take_ordinals(event.data["ordinals"])

    def _take_message(self, message: dict[str, Any]) -> None:
        conversation_id = message["conversation_id"]
        self._ordinals[conversation_id] = max(self._ordinals.get(conversation_id, 0), message["ordinal"])
        known = self.messages.get(message["id"])
        if known is not None and (
            message["revision"] < known["revision"]
            or (known["status"] != "streaming" and message["status"] == "streaming")
        ):
            return
        self.messages[message["id"]] = message
        self._missing.discard(message["id"])

    def _take_patch(self, message_id: str, patch: Mapping[str, Any]) -> bool:
        known = self.messages.get(message_id)
        if known is not None and patch["seq"] <= known["revision"]:
            return False
        if known is None or patch["seq"] != known["revision"] + 1:
            return self._ask_for(message_id)
        try:
            content = apply_patch(known["content"], patch)
        except PatchInvalid:
            return self._ask_for(message_id)
        self.messages[message_id] = {**known, "content": content, "revision": patch["seq"]}
        return False

    def _take_ordinals(self, ordinals: Mapping[str, int]) -> bool:
        behind = [one for one, highest in ordinals.items() if highest > self._ordinals.get(one, 0)]
        for conversation_id in behind:
            self._ordinals[conversation_id] = ordinals[conversation_id]
        return bool(behind)

    def _ask_for(self, message_id: str) -> bool:
        if message_id in self._missing:
            return False
        self._missing.add(message_id)
        return True
