"""The SDK inside a context, fed with frames by hand: what a listener of session data sees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import _quickjs
import pytest

import lineloop.device.containers.child as child
from lineloop.kit import json

PRELUDE = Path(str(child.__file__)).with_name("sdk_prelude.js").read_text(encoding="utf-8")
GOLDEN = Path(__file__).parents[3] / "spec" / "golden" / "session_data" / "subscriptions.json"
CASES: list[Any] = json.loads(GOLDEN.read_text(encoding="utf-8"))["cases"]
INIT = {
    "v": 1,
    "type": "init",
    "payload": {"app_scope": "probe", "app_session_id": "ses_1", "conversation_id": "con_1"},
}
LISTEN = """
globalThis.seen = [];
const listener = ({ data, revision }) => seen.push([revision, data?.n ?? null]);
globalThis.stop = lineloop.sessionData.subscribe(listener);
"""


class Sdk:
    """One context with the prelude; `sent` are the frames the SDK wrote."""

    def __init__(self) -> None:
        self.context = _quickjs.Context()
        self.host = self.context.eval(PRELUDE)
        self.sent: list[dict[str, Any]] = []
        self.deliver(INIT)

    def deliver(self, frame: dict[str, Any]) -> None:
        self._take(self.host(0, json.dumps(frame)))
        while self.context.execute_pending_job():
            pass
        self._take(self.host(1))

    def _take(self, text: str) -> None:
        self.sent += [json.loads(line) for line in text.split("\n") if line]

    def run(self, script: str) -> Any:
        value = self.context.eval(script)
        self._take(self.host(1))
        return value

    def answer(self, request_type: str, ok: Any) -> None:
        """Answers the newest unanswered request of a type."""
        request = next(frame for frame in reversed(self.sent) if frame.get("type") == request_type)
        self.deliver({"v": 1, "reply_to": request["id"], "ok": ok})

    def change(self, revision: int, subscription: str | None = None) -> None:
        name = subscription or self.subscription
        payload = {"subscription": name, "data": {"n": revision}, "revision": revision}
        self.deliver({"v": 1, "type": "session.changed", "payload": payload})

    @property
    def subscription(self) -> str:
        """The name of the newest subscription."""
        asked = [frame for frame in self.sent if frame.get("type") == "session.subscribe"]
        return asked[-1]["payload"]["subscription"]

    @property
    def seen(self) -> list[int]:
        return [entry[0] for entry in json.loads(self.run("JSON.stringify(seen)"))]

    def types(self) -> list[str]:
        return [frame["type"] for frame in self.sent if "type" in frame]


@pytest.fixture
def sdk() -> Sdk:
    made = Sdk()
    made.run(LISTEN)
    return made


@pytest.mark.requirement("D43")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_golden_sequence_is_heard_coherently(sdk: Sdk, case: Any) -> None:
    first = sdk.subscription
    for step in case["steps"]:
        if "get" in step:
            sdk.answer("session.get", {"data": {"n": step["get"]}, "revision": step["get"]})
        elif "init" in step:
            sdk.deliver(INIT)
        elif "old" in step:
            sdk.change(step["old"], first)
        else:
            sdk.change(step["changed"])
    assert sdk.seen == case["heard"]
    assert sdk.types() == case["asked"]


def test_a_listener_that_stopped_hears_nothing(sdk: Sdk) -> None:
    sdk.change(1)
    sdk.run("stop()")
    sdk.change(2)
    assert sdk.seen == [1]
    assert sdk.types()[-1] == "session.unsubscribe"


def test_a_listener_that_throws_is_reported_and_goes_on() -> None:
    sdk = Sdk()
    sdk.run("lineloop.sessionData.subscribe(() => { throw new Error('listener broke'); });")
    sdk.change(1)
    assert sdk.sent[-1]["type"] == "diagnostics.log"
    assert "listener broke" in sdk.sent[-1]["payload"]["message"]


def test_a_refused_request_rejects_with_its_code() -> None:
    sdk = Sdk()
    sdk.run(
        "globalThis.got = '';"
        "lineloop.sessionData.replace({data: {}, expected_revision: 0})"
        ".catch((error) => { got = `${error.code} ${error.context.revision}`; });"
    )
    error = {"code": "session_data_revision_conflict", "message": "changed", "context": {"revision": 4}}
    sdk.deliver({"v": 1, "reply_to": sdk.sent[-1]["id"], "error": error})
    assert sdk.run("got") == "session_data_revision_conflict 4"


def test_frames_begin_with_their_head_so_that_they_can_be_answered() -> None:
    sdk = Sdk()
    text = sdk.context.eval(
        "lineloop.sessionData.replace({data: {a: 1}, expected_revision: 0}); 1"
    ) and sdk.host(1)
    assert text.startswith('{"v":1,"id":"s/1","type":"session.replace","payload":{"data":{"a":1}')
