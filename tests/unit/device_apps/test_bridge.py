"""The bridge: which frames are taken in which direction, and what an app session gets for its requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.device_apps.apps_world import AppsWorld

from lineloop.device.bridge.frames import (
    MAX_FRAME_BYTES,
    MAX_SESSION_FRAME_BYTES,
    SHAPES,
    Answer,
    Direction,
    Frame,
    FrameRefused,
    decode,
    encode,
    encode_error,
    encode_ok,
)
from lineloop.device.bridge.session_bridge import SessionBridge
from lineloop.device.containers.port import SessionContext
from lineloop.kit import json
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import LoopError
from lineloop.testing import until

GOLDEN = Path(__file__).parents[3] / "spec" / "golden" / "bridge" / "frames.json"
CASES: list[Any] = json.loads(GOLDEN.read_text(encoding="utf-8"))["cases"]
UP, DOWN = Direction.TO_RUNTIME, Direction.TO_APP


def request(kind: str, payload: Any, request_id: str | None = "r1") -> str:
    return encode(kind, payload, request_id)


def test_a_request_an_event_and_an_answer_are_read() -> None:
    assert decode(request("session.get", {}), UP) == Frame("session.get", {}, "r1")
    event = encode("tool.complete", {"call_id": "c", "result": [1, None]})
    assert decode(event, UP) == Frame("tool.complete", {"call_id": "c", "result": [1, None]})
    assert decode(encode_ok("r1", {"a": 1}), DOWN) == Answer("r1", {"a": 1})
    error = decode(encode_error("r1", LoopError("no", code=ErrorCode.FORBIDDEN)), DOWN)
    assert isinstance(error, Answer)
    assert error.error is not None
    assert error.error["code"] == "forbidden"


@pytest.mark.parametrize("kind", [kind for kind, shape in SHAPES.items() if shape.direction is DOWN])
def test_an_app_cannot_send_what_only_the_runtime_sends(kind: str) -> None:
    with pytest.raises(FrameRefused) as refused:
        decode(request(kind, {}), UP)
    assert refused.value.code is ErrorCode.BRIDGE_INVALID
    assert refused.value.request_id == "r1"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_golden_frame_is_taken_or_refused_with_its_code(case: Any) -> None:
    direction, core = Direction(case["direction"]), case.get("core", False)
    if "code" not in case:
        decode(case["text"], direction, core=core)
        return
    with pytest.raises(FrameRefused) as refused:
        decode(case["text"], direction, core=core)
    assert (refused.value.code, refused.value.request_id) == (case["code"], case.get("reply_to"))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("[" * 100_000, ErrorCode.BRIDGE_INVALID),
        (
            encode("tool.complete", {"call_id": "c", "result": "x" * MAX_FRAME_BYTES}),
            ErrorCode.BRIDGE_INVALID,
        ),
        (
            encode("tool.complete", {"call_id": "c", "result": json.loads("[" * 40 + "]" * 40)}),
            ErrorCode.BRIDGE_INVALID,
        ),
        (
            encode("session.replace", {"data": "x" * MAX_SESSION_FRAME_BYTES, "expected_revision": 0}, "r1"),
            ErrorCode.SESSION_DATA_QUOTA_EXCEEDED,
        ),
    ],
    ids=["deep text", "large", "deep", "too much data"],
)
def test_frames_are_bounded(text: str, code: ErrorCode) -> None:
    with pytest.raises(FrameRefused) as refused:
        decode(text, UP)
    assert refused.value.code is code


class App:
    """An app session's end of the bridge."""

    def __init__(self, world: AppsWorld, session: SessionContext, *, core: bool = False) -> None:
        self.sent: list[dict[str, Any]] = []
        self.bridge = SessionBridge(
            session,
            lambda text: self.sent.append(json.loads(text)),
            session_data=world.session_data,
            inbox=world.inbox,
            tasks=world.tasks,
            core=core,
        )
        self._count = 0

    async def ask(self, kind: str, payload: Any) -> Any:
        """The answer's `ok`, or its error's code as text."""
        self._count += 1
        name = f"q{self._count}"
        self.bridge.receive(encode(kind, payload, name))
        found = await until(lambda: [one for one in self.sent if one.get("reply_to") == name])
        answer = found[0]
        return answer["ok"] if "ok" in answer else answer["error"]["code"]

    def revisions(self) -> list[int]:
        return [one["payload"]["revision"] for one in self.sent if one.get("type") == "session.changed"]


@pytest.fixture
async def app(world: AppsWorld) -> App:
    return App(world, await world.session())


@pytest.mark.requirement("D37")
async def test_an_app_gets_and_replaces_its_data(app: App) -> None:
    assert await app.ask("session.get", {}) == {"data": None, "revision": 0}
    assert await app.ask("session.replace", {"data": {"a": 1}, "expected_revision": 0}) == {"revision": 1}
    assert await app.ask("session.replace", {"data": {}, "expected_revision": 0}) == (
        "session_data_revision_conflict"
    )
    assert await app.ask("session.get", {}) == {"data": {"a": 1}, "revision": 1}


@pytest.mark.requirement("D38")
async def test_a_subscriber_sees_every_revision_from_its_first_frame_on(app: App) -> None:
    await app.ask("session.replace", {"data": {"n": 1}, "expected_revision": 0})
    await app.ask("session.subscribe", {"subscription": "s"})
    for revision in range(1, 6):
        await app.ask("session.replace", {"data": {"n": revision + 1}, "expected_revision": revision})
    assert app.revisions() == [1, 2, 3, 4, 5, 6]
    frames = [one["payload"] for one in app.sent if one.get("type") == "session.changed"]
    assert frames[0] == {"subscription": "s", "data": {"n": 1}, "revision": 1}


async def test_a_subscription_is_made_once_and_ends(app: App) -> None:
    assert await app.ask("session.subscribe", {"subscription": "s"}) == {"subscription": "s"}
    assert await app.ask("session.subscribe", {"subscription": "s"}) == "bridge_invalid"
    assert await app.ask("session.unsubscribe", {"subscription": "s"}) == {}
    await app.ask("session.replace", {"data": {}, "expected_revision": 0})
    assert app.revisions() == [0]


async def test_subscriptions_are_limited(app: App) -> None:
    for number in range(32):
        await app.ask("session.subscribe", {"subscription": f"s{number}"})
    assert await app.ask("session.subscribe", {"subscription": "more"}) == "limit_exceeded"


async def test_a_closed_session_is_told_nothing_more(world: AppsWorld, app: App) -> None:
    await app.ask("session.subscribe", {"subscription": "s"})
    app.bridge.close()
    await world.session_data.replace(await world.session(), {}, 0)
    assert app.revisions() == [0]
    assert world.session_data.subscriptions == 0


async def test_what_this_runtime_does_not_offer_is_answered_with_a_code(app: App) -> None:
    wanted = {"capability": "clipboard.read", "purpose": "paste", "input": {}}
    assert await app.ask("capability.request", wanted) == "sdk_incompatible"
    assert app.bridge.refused["sdk_incompatible"] == 1


async def test_a_bad_frame_is_counted_and_the_session_goes_on(app: App) -> None:
    app.bridge.receive("{")
    app.bridge.receive(encode_ok("r1", 1))
    assert await app.ask("nonsense", {}) == "bridge_invalid"
    assert app.bridge.refused["bridge_invalid"] == 3
    assert await app.ask("session.get", {}) == {"data": None, "revision": 0}
