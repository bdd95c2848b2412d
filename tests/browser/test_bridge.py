"""What an app can do to the Runtime and the shell over its port and the window: ask, and be refused."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Frame
from tests.browser.shell import Arena
from tests.browser.streaming import Watch

# Time on the processor: a shell that read the port itself worked, and stood still, for 6.5 s.
STALL_MS = 150


def answer(frame: Frame, request: dict[str, Any]) -> dict[str, Any]:
    """What the Runtime answers to one frame of the bridge."""
    frame.evaluate("frame => send(frame)", request)
    frame.wait_for_function("id => answer_to(id)", arg=request["id"])
    return frame.evaluate("id => answer_to(id)", request["id"])


def ask(request_id: str, kind: str, payload: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"v": 1, "id": request_id, "type": kind, "payload": payload, **more}


@pytest.mark.requirement("B01", "B08", "B09", "B16")
@pytest.mark.parametrize(
    ("name", "request_"),
    [
        ("a claim to be another app", ask("c1", "session.get", {"app_scope": "pomodoro"})),
        ("a claim beside the payload", ask("c2", "session.get", {}, app_session_id="ses_other")),
        ("what only the Runtime says", ask("c3", "tool.invoke", {"call_id": "x"})),
        ("what only core apps say", ask("c4", "action.dispatch", {"id": "1", "action": "say", "params": {}})),
        ("an unknown type", ask("c5", "shell.exec", {})),
        ("an unknown version", {**ask("c6", "session.get", {}), "v": 2}),
        ("a payload of the wrong type", ask("c7", "session.replace", {"data": 1})),
    ],
)
def test_a_frame_that_claims_too_much_is_refused_with_a_code(
    arena: Arena, name: str, request_: dict[str, Any]
) -> None:
    frame = arena.enter()
    if request_["v"] == 1:
        error = answer(frame, request_)["error"]
        assert error["code"] in {"bridge_invalid", "forbidden"}
        assert set(error) <= {"code", "message", "context"}
        assert "/" not in error["message"].replace("and/or", "")
    else:
        frame.evaluate("frame => send(frame)", request_)
    assert answer(frame, ask(f"alive-{name}", "session.get", {}))["ok"]["revision"] >= 0


@pytest.mark.requirement("B09", "B10")
def test_only_json_text_is_taken_and_strange_names_pollute_nothing(arena: Arena) -> None:
    frame = arena.enter()
    evil = (
        '{"v":1,"id":"p1","type":"session.replace","payload":{"data":{"__proto__":{"polluted":1},'
        '"constructor":{"prototype":{"polluted":1}}},"expected_revision":0}}'
    )
    frame.evaluate("text => send_raw(text)", evil)
    frame.wait_for_function("() => answer_to('p1')")
    assert arena.page.evaluate("() => ({}).polluted === undefined")
    assert frame.evaluate("() => ({}).polluted === undefined")
    frame.evaluate("() => send_raw({v: 1, id: 'o1', type: 'session.get', payload: {}})")
    arena.expect_ended("broke the rules")


@pytest.mark.requirement("B11")
@pytest.mark.parametrize(
    "make",
    [
        "'x'.repeat(64 * 1024 * 1024)",
        "'['.repeat(100000)",
        "JSON.stringify({v: 1, id: 'k', type: 'session.get', payload: {['k'.repeat(1 << 20)]: 1}})",
        "JSON.stringify({v: 1, id: 'n', type: 'session.get', payload: "
        "Object.fromEntries([...Array(1e6).keys()].map(n => [n, 1]))})",
    ],
)
def test_a_huge_or_deep_frame_costs_the_shell_nothing(arena: Arena, make: str) -> None:
    frame = arena.enter()
    watch = Watch(arena.page)
    before = watch.busy_ms()
    frame.evaluate(f"() => {{ setTimeout(() => send_raw({make}), 0); }}")
    arena.page.wait_for_timeout(1500)
    assert watch.busy_ms() - before < STALL_MS
    assert arena.page.evaluate("() => document.title") == "Lineloop"


@pytest.mark.requirement("B12")
def test_a_flood_over_the_port_closes_the_app_and_holds_up_nobody(arena: Arena) -> None:
    frame = arena.enter()
    watch = Watch(arena.page)
    before = watch.busy_ms()
    frame.evaluate(
        "() => setTimeout(() => send_many(200000, {v: 1, type: 'diagnostics.log', "
        "payload: {level: 'info', message: 'x'}}), 20)"
    )
    arena.expect_ended("sent too much")
    assert watch.busy_ms() - before < STALL_MS


@pytest.mark.requirement("B12", "B02", "B05")
def test_a_flood_over_the_window_closes_the_app(arena: Arena) -> None:
    frame = arena.enter()
    frame.evaluate("() => setTimeout(() => flood_parent(20000), 20)")
    arena.expect_ended("broke the rules")
    arena.shell.composer.fill("still here")
    arena.shell.composer.fill("")


@pytest.mark.requirement("B05", "B04")
@pytest.mark.parametrize(
    "again", ["shake_hands()", "send({v: 1, id: 'h2', type: 'hello', payload: {sdk: 'x'}})"]
)
def test_a_second_handshake_or_hello_ends_the_app(arena: Arena, again: str) -> None:
    frame = arena.enter()
    frame.wait_for_function("() => answer_to('hello')")
    frame.evaluate(f"() => setTimeout(() => {again}, 20)")
    arena.expect_ended("closed")
    assert arena.page.locator("iframe").count() == 0


@pytest.mark.requirement("B02")
def test_a_message_from_another_window_is_nobody_s(arena: Arena) -> None:
    arena.enter()
    arena.page.evaluate("() => window.postMessage({lineloop: 1, nonce: 'x'}, '*')")
    arena.page.wait_for_timeout(200)
    assert arena.page.locator("iframe").count() == 1


@pytest.mark.requirement("B07")
def test_a_request_that_comes_again_has_its_effect_once(arena: Arena) -> None:
    frame = arena.enter()
    revision = answer(frame, ask("r0", "session.get", {}))["ok"]["revision"]
    request = ask("r1", "session.replace", {"data": {"n": 1}, "expected_revision": revision})
    for _ in range(3):
        answer(frame, request)
    assert answer(frame, ask("r2", "session.get", {}))["ok"]["revision"] == revision + 1


@pytest.mark.requirement("B15")
def test_a_storm_of_writes_that_answer_updates_ends_by_the_rate_limit_and_not_by_memory(arena: Arena) -> None:
    frame = arena.enter()
    frame.evaluate(
        """() => {
          let n = 0;
          port.onmessage = (message) => {
            const frame = JSON.parse(message.data);
            const revision = frame.payload?.revision ?? frame.ok?.revision;
            if (revision === undefined) return;
            for (let i = 0; i < 4; i += 1) {
              send({v: 1, id: `s${(n += 1)}`, type: 'session.replace',
                    payload: {data: {n}, expected_revision: revision}});
              send({v: 1, id: `g${n}`, type: 'session.get', payload: {}});
            }
          };
          send({v: 1, id: 'sub', type: 'session.subscribe', payload: {subscription: 'a'}});
          send({v: 1, id: 'first', type: 'session.get', payload: {}});
        }"""
    )
    arena.expect_ended("sent too much")
    arena.shell.composer.fill("the shell lives")
    arena.shell.composer.fill("")
