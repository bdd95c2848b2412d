"""Pomodoro's built surface in a real browser, under the real headers and in an opaque origin.

The Runtime is played by the page around it: it shakes hands, projects states and notes what is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Frame, Page, expect
from tests.browser.launched import Stand

ROOT = Path(__file__).parents[2]
APP = ROOT / "apps/pomodoro"
AXE = ROOT / "node_modules/axe-core/axe.min.js"
MINUTE = 60_000
WIDE = (1100, 760)
SIZES = (WIDE, (390, 700), (844, 300))

RUNTIME = """
globalThis.asked = []; globalThis.violations = []; globalThis.subscription = null;
const init = {app_scope: "pomodoro", app_session_id: "ses_1", conversation_id: "con_1", instance_id: "ins_1"};
addEventListener("message", (event) => {
  const channel = new MessageChannel();
  globalThis.port = channel.port1;
  port.onmessage = ({ data }) => {
    const frame = JSON.parse(data);
    asked.push(frame);
    if (frame.id === undefined) return;
    send({ v: 1, reply_to: frame.id, ok: frame.type === "state.get" ? globalThis.state : {} });
    if (frame.type === "hello") tell("init", { ...init, state: globalThis.state });
    if (frame.type === "state.subscribe") globalThis.subscription = frame.payload.subscription;
  };
  document.querySelector("iframe").contentWindow.postMessage(event.data, "*", [channel.port2]);
});
const send = (frame) => port.postMessage(JSON.stringify(frame));
globalThis.tell = (type, payload) => send({ v: 1, type, payload });
globalThis.project = (next) => {
  globalThis.state = next;
  if (subscription !== null) tell("state.changed", { subscription, state: next });
};
globalThis.state = null;
"""


def projection(
    remaining_ms: int | None = None,
    outcome: str | None = None,
    *,
    language: str = "en",
    label: str = "Reading",
) -> dict[str, Any]:
    operation = None
    if remaining_ms is not None:
        operation = {
            "name": "pomodoro.start",
            "params": {"minutes": 25, "label": label},
            "state": "active" if outcome is None else "ended",
            "outcome": outcome,
            "started_at": "2026-01-02T03:04:05.000Z",
            "ends_at": "2026-01-02T03:29:05.000Z",
            "duration_ms": 25 * MINUTE,
            "elapsed_ms": 25 * MINUTE - remaining_ms,
            "remaining_ms": remaining_ms,
        }
    return {
        "instance_state": "foreground",
        "now": "2026-01-02T03:04:05.000Z",
        "operation": operation,
        "activation": None if operation is None else "ready",
        "language": language,
    }


FITS = """() => {
  const { scrollWidth, scrollHeight } = document.documentElement;
  return scrollWidth <= innerWidth && scrollHeight <= innerHeight;
}"""
Open = Callable[..., tuple[Page, Frame]]


@pytest.fixture(scope="module")
def stand() -> Iterator[Stand]:
    assert (APP / "surface/main.js").exists(), "the surface is not built: make web-build"
    stand = Stand(APP, script=RUNTIME)
    yield stand
    stand.close()


@pytest.fixture
def open_timer(stand: Stand, browser: Browser) -> Iterator[Open]:
    """Opens the surface with a first projection; what the page complains of fails the test at its end."""
    contexts: list[Any] = []
    complaints: list[str] = []

    def opened(
        state: dict[str, Any], *, scheme: Any = "light", theme: str | None = None
    ) -> tuple[Page, Frame]:
        viewport: Any = dict(zip(("width", "height"), WIDE, strict=True))
        context = browser.new_context(viewport=viewport, color_scheme=scheme, reduced_motion="reduce")
        contexts.append(context)
        context.on("weberror", lambda error: complaints.append(str(error.error)))
        context.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        page, frame = stand.open(context, language=state["language"], theme=theme)
        page.wait_for_function("subscription !== null")
        page.evaluate("(state) => project(state)", state)
        expect(frame.locator("main")).not_to_have_attribute("data-phase", "connecting")
        return page, frame

    yield opened
    for context in contexts:
        context.close()
    assert [one for one in complaints if "Permissions-Policy" not in one and "directive" not in one] == []


def test_it_connects_once_counts_down_and_shows_how_it_ended(open_timer: Open) -> None:
    page, frame = open_timer(projection(17 * MINUTE))
    expect(frame.get_by_role("heading", name="Reading")).to_be_visible()
    expect(frame.get_by_role("timer")).to_have_text("16:58", timeout=10_000)
    expect(frame.get_by_role("status")).to_have_text("The timer runs: 17 minutes, Reading.")
    page.evaluate("tell('lifecycle.closing', { wait_ms: 250 })")
    page.evaluate("(state) => project(state)", projection(0, "completed"))
    expect(frame.get_by_text("25 minutes of focus", exact=True)).to_be_visible()
    page.wait_for_function("asked.some((frame) => frame.type === 'lifecycle.defer_close')")
    asked = page.evaluate("asked.map((frame) => [frame.type, frame.payload.wait_ms ?? null])")
    assert asked == [["hello", None], ["state.subscribe", None], ["lifecycle.defer_close", 2000]]


def test_it_answers_that_it_lives(open_timer: Open) -> None:
    page, _ = open_timer(projection())
    page.evaluate("tell('ping', { number: 4 })")
    page.wait_for_function("asked.some((frame) => frame.type === 'pong' && frame.payload.number === 4)")


def test_without_a_timer_it_says_in_both_languages_how_to_begin(open_timer: Open) -> None:
    page, frame = open_timer(projection())
    expect(frame.get_by_role("heading", name="No timer is running")).to_be_visible()
    page.evaluate("(state) => project(state)", projection(language="zh"))
    expect(frame.get_by_role("heading", name="还没有计时")).to_be_visible()
    expect(frame.locator("html")).to_have_attribute("lang", "zh")
    assert frame.locator("button, a, input, [tabindex]").count() == 0


@pytest.mark.parametrize(
    ("scheme", "theme", "dark"), [("light", None, False), ("light", "dark", True), ("dark", None, True)]
)
def test_it_is_dark_when_the_system_or_the_shell_says_so(
    open_timer: Open, scheme: str, theme: str | None, dark: bool
) -> None:
    _, frame = open_timer(projection(9 * MINUTE), scheme=scheme, theme=theme)
    red = frame.evaluate("Number(getComputedStyle(document.body).backgroundColor.match(/[0-9]+/)[0])")
    assert (red < 128) == dark


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_is_cut_off_and_nothing_is_inaccessible(open_timer: Open, theme: str) -> None:
    page, frame = open_timer(projection(), theme=theme)
    frame.evaluate(AXE.read_text(encoding="utf-8"))
    states = {
        "empty": projection(),
        "running": projection(9 * MINUTE, label="w" * 120),
        "completed": projection(0, "completed"),
        "interrupted": projection(4 * MINUTE, "interrupted"),
    }
    for phase, state in states.items():
        page.evaluate("(state) => project(state)", state)
        expect(frame.locator("main")).to_have_attribute("data-phase", phase)
        for width, height in SIZES:
            page.set_viewport_size({"width": width, "height": height})
            frame.wait_for_function("width => innerWidth === width", arg=width)
            assert frame.evaluate(FITS)
        assert frame.evaluate("axe.run().then(({ violations }) => violations.map(({ id }) => id))") == []
