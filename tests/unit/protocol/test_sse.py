"""The conversation stream: frames, and what a viewer makes of them (spec/protocol.md §8.4)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lineloop.kit import json
from lineloop.protocol.content import content_text
from lineloop.protocol.sse import StreamEvent, StreamView, decode_events, encode_event

GOLDEN = Path(__file__).resolve().parents[3] / "spec" / "golden" / "sse"
FRAMES: list[Any] = json.loads((GOLDEN / "frames.json").read_text("utf-8"))["cases"]
VIEWS: list[Any] = json.loads((GOLDEN / "viewer.json").read_text("utf-8"))["cases"]


def name_of(case: Any) -> str:
    return case["name"]


@pytest.mark.requirement("P6")
@pytest.mark.parametrize("case", FRAMES, ids=name_of)
def test_golden_frames_are_read(case: Any) -> None:
    assert decode_events(case["text"]) == [StreamEvent(**event) for event in case["events"]]


@pytest.mark.requirement("P6")
@pytest.mark.parametrize("case", [case for case in FRAMES if case["written"]], ids=name_of)
def test_golden_frames_are_written_byte_for_byte(case: Any) -> None:
    written = b"".join(encode_event(StreamEvent(**event)) for event in case["events"])
    assert written == case["text"].encode()


@pytest.mark.requirement("P6")
@pytest.mark.parametrize("case", VIEWS, ids=name_of)
def test_a_viewer_ends_with_the_golden_view(case: Any) -> None:
    view = StreamView()
    resyncs = sum(view.take(StreamEvent(**event)) for event in case["events"])
    seen = {
        message_id: {
            "revision": message["revision"],
            "text": content_text(message["content"]),
            "status": message["status"],
        }
        for message_id, message in view.messages.items()
    }
    assert seen == case["messages"]
    assert resyncs == case["resyncs"]
    assert view.last_event_id == case["last_event_id"]
