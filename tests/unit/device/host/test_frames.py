"""Frames of the shell, against the golden cases (spec/protocol.md §10.3)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lineloop.device.bridge.frames import MAX_SESSION_FRAME_BYTES
from lineloop.device.bridge.shapes import Direction, FrameRefused
from lineloop.device.host.web.frames import MAX_PAGE_FRAME_BYTES, decode
from lineloop.kit import json

GOLDEN = Path(__file__).parents[4] / "spec" / "golden" / "shell" / "frames.json"
CASES = json.loads(GOLDEN.read_bytes())["cases"]


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_golden_frame_is_taken_or_refused_with_its_code(case: Any) -> None:
    direction = Direction(case["direction"])
    if "code" not in case:
        decode(case["text"], direction)
        return
    with pytest.raises(FrameRefused) as refused:
        decode(case["text"], direction)
    assert refused.value.code == case["code"]
    assert refused.value.request_id == case.get("reply_to")


def test_only_frames_of_sessions_may_be_large() -> None:
    large = "x" * 300_000
    with pytest.raises(FrameRefused):
        decode(_event("surface.close", {"launch": large, "reason": "flood"}), Direction.TO_RUNTIME)
    decode(_event("frame", {"launch": "l", "text": large}), Direction.TO_RUNTIME)
    with pytest.raises(FrameRefused):
        decode(_event("frame", {"launch": "l", "text": "x" * 1_310_721}), Direction.TO_RUNTIME)
    with pytest.raises(FrameRefused):
        decode("x" * (MAX_PAGE_FRAME_BYTES + 1), Direction.TO_RUNTIME)


@pytest.mark.requirement("H19")
def test_sizes_are_bytes_and_not_characters() -> None:
    characters = MAX_PAGE_FRAME_BYTES // 3 + 1
    with pytest.raises(FrameRefused, match="too large"):
        decode("钥" * characters, Direction.TO_RUNTIME)
    text = "钥" * (MAX_SESSION_FRAME_BYTES // 3)
    decode(_event("frame", {"launch": "l", "text": text}), Direction.TO_RUNTIME)
    with pytest.raises(FrameRefused, match="text is missing"):
        decode(_event("frame", {"launch": "l", "text": f"{text}钥"}), Direction.TO_RUNTIME)


def _event(kind: str, payload: dict[str, Any]) -> str:
    return json.dumps({"v": 1, "type": kind, "payload": payload})
