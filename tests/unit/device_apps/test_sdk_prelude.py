"""The SDK inside a context, fed with frames by hand: what a listener of session data sees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import _quickjs
import pytest

import lineloop.device.containers.child as child
from lineloop.kit import json

PRELUDE = Path(str(child.__file__)).with_name("sdk_prelude.js").read_text(encoding="utf-8")
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
def test_repeats_and_older_revisions_are_dropped(sdk: Sdk) -> None:
    for revision in (3, 3, 4, 2, 4, 5):
        sdk.change(revision)
    assert sdk.seen == [3, 4, 5]


@pytest.mark.requirement("D43")
def test_after_a_jump_the_sdk_gets_and_subscribes_again(sdk: Sdk) -> None:
    first = sdk.subscription
    sdk.change(3)
    sdk.change(6)
    assert sdk.seen == [3]
    assert sdk.types() == ["session.subscribe", "session.unsubscribe", "session.get"]
    sdk.answer("session.get", {"data": {"n": 7}, "revision": 7})
    assert sdk.types()[-1] == "session.subscribe"
    assert sdk.subscription != first
    sdk.change(8, first)
    sdk.change(7)
    sdk.change(8)
    assert sdk.seen == [3, 7, 8]


@pytest.mark.requirement("D43")
def test_after_a_new_connection_a_listener_sees_one_coherent_sequence(sdk: Sdk) -> None:
    sdk.change(3)
    sdk.change(4)
    sdk.deliver(INIT)
    sdk.answer("session.get", {"data": {"n": 4}, "revision": 4})
    sdk.change(4)
    sdk.change(5)
    assert sdk.seen == [3, 4, 5]


@pytest.mark.requirement("D43")
def test_two_jumps_in_a_row_make_one_new_subscription(sdk: Sdk) -> None:
    sdk.change(1)
    sdk.change(5)
    sdk.change(9)
    assert sdk.types().count("session.get") == 1
    sdk.answer("session.get", {"data": {"n": 9}, "revision": 9})
    sdk.change(9)
    sdk.change(10)
    assert sdk.seen == [1, 9, 10]


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
