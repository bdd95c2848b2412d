"""What an app in its frame can reach: nothing but its port. The sink is the witness, not the app."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Error, Playwright, expect
from tests.blackbox.system import System
from tests.browser.chromium import flags
from tests.browser.shell import Arena, Shell
from tests.browser.sink import Sink, names_asked
from tests.browser.streaming import Watch
from tests.browser.vectors import EGRESS, FOCUS, NAVIGATES, PERMISSIONS, REACH

SECRET = "the-secret"
SPIN_MS = 8000


@pytest.mark.requirement("F03", "F04", "F08", "F11")
def test_no_attempt_of_an_app_reaches_the_sink(arena: Arena, sink: Sink) -> None:
    """All of them in one frame, as the controls make them in their page, where they do reach it."""
    vectors = [name for name in EGRESS if name not in NAVIGATES]
    frame = arena.enter()
    frame.evaluate("([names, sink, secret]) => attack_all(names, sink, secret)", [vectors, sink.url, SECRET])
    assert sink.hits == []
    assert frame.evaluate("() => document.documentElement.dataset.hostile") == "ready"


@pytest.mark.requirement("F05", "F06", "F09", "B04")
@pytest.mark.parametrize("vector", sorted(NAVIGATES))
def test_an_app_that_navigates_is_closed_before_anything_is_asked_for(
    arena: Arena, sink: Sink, vector: str
) -> None:
    """With the focus and a person's click in it, which is when a link may be followed."""
    frame = arena.enter()
    arena.page.locator("iframe").click(force=True)
    frame.wait_for_function("() => document.hasFocus()")
    try:
        frame.evaluate("([name, sink, secret]) => attack(name, sink, secret)", [vector, sink.url, SECRET])
    except Error as error:
        assert "destroyed" in error.message or "detached" in error.message, error.message
    arena.expect_ended("tried to leave its frame")
    assert sink.hits == []


@pytest.mark.requirement("F01", "F02", "F10")
@pytest.mark.parametrize("what", [name for name in REACH if name != "opener"])
def test_an_app_reaches_neither_the_shell_nor_any_storage(arena: Arena, what: str) -> None:
    url = arena.page.url
    assert arena.enter().evaluate("name => reach(name)", what) == {"error": "SecurityError"}
    assert arena.page.url == url
    assert arena.page.title() == "Lineloop"


@pytest.mark.requirement("F09")
def test_an_app_opens_no_window_and_downloads_nothing(arena: Arena, sink: Sink) -> None:
    opened: list[object] = []
    arena.page.context.on("page", lambda page: opened.append(page))  # noqa: PLW0108 (a builtin cannot listen)
    arena.page.on("download", lambda download: opened.append(download))  # noqa: PLW0108
    arena.page.on("dialog", lambda dialog: opened.append(dialog))  # noqa: PLW0108
    frame = arena.enter()
    told = frame.evaluate("([name, sink]) => attack(name, sink, 'x')", ["popup", sink.url])
    assert told == {"value": True}
    frame.evaluate("() => { alert('x'); confirm('x'); prompt('x'); print(); }")
    assert opened == []
    assert sink.hits == []


@pytest.mark.requirement("F14")
@pytest.mark.parametrize("name", PERMISSIONS)
def test_an_app_has_no_permission_of_its_own(arena: Arena, name: str) -> None:
    assert "error" in arena.enter().evaluate("name => permit(name)", name)


@pytest.mark.requirement("F15")
@pytest.mark.parametrize("way", FOCUS)
def test_every_key_typed_in_the_shell_stays_there_whatever_an_app_does_to_the_focus(
    arena: Arena, way: str
) -> None:
    """An app that gets the focus all the same has it taken back, and is closed when it goes on."""
    frame = arena.enter()
    arena.page.wait_for_timeout(100)
    arena.shell.composer.click()
    frame.evaluate("way => { setTimeout(() => steal_focus(way, 50), 0); }", way)
    for letter in "nobody shall read":
        arena.page.keyboard.press(letter if letter != " " else "Space")
        arena.page.wait_for_timeout(40)
    expect(arena.shell.composer).to_have_value("nobody shall read")
    arena.shell.composer.fill("")
    arena.close()


@pytest.mark.requirement("F15")
def test_an_app_that_takes_the_focus_by_its_address_has_it_taken_back_at_once(arena: Arena) -> None:
    """A fragment's target is focused by the browser itself; nothing in the frame can forbid that."""
    frame = arena.enter()
    arena.page.wait_for_timeout(100)
    arena.shell.composer.click()
    frame.evaluate("() => { setTimeout(() => steal_focus('fragment', 50), 0); }")
    for _ in range(17):
        arena.page.keyboard.press("a")
        arena.page.wait_for_timeout(40)
    assert len(arena.shell.composer.input_value()) >= 16
    expect(arena.shell.composer).to_be_focused()
    arena.shell.composer.fill("")
    arena.close()


@pytest.mark.requirement("F16")
def test_an_app_that_spins_does_not_hold_up_the_shell_and_is_named(arena: Arena) -> None:
    frame = arena.enter()
    watch = Watch(arena.page)
    before = watch.busy_ms()
    frame.evaluate(f"() => {{ setTimeout(() => spin({SPIN_MS}), 50); }}")
    expect(arena.page.get_by_text("is not answering")).to_be_visible(timeout=8000)
    busy_ms = watch.busy_ms() - before
    arena.page.get_by_role("button", name="Stop it").click()
    arena.expect_ended("did not answer")
    # Were they one thread, the shell's would have worked for as long as the app's.
    assert busy_ms < SPIN_MS / 16, f"the shell worked for {busy_ms:.0f} ms"


@pytest.mark.requirement("F17")
def test_an_app_whose_page_dies_takes_nothing_with_it(
    hostile_system: System, playwright: Playwright, chromium: str
) -> None:
    site_per_process = [*flags(), "--site-per-process"]
    with playwright.chromium.launch(executable_path=chromium, args=site_per_process) as browser:
        context = browser.new_context(locale="en-US")
        arena = Arena(_guest(hostile_system, context))
        frame = arena.enter()
        frame.evaluate(
            "() => { setTimeout(() => { const all = []; for (;;) all.push(new Array(1e7).fill(1)); }, 0); }"
        )
        expect(arena.page.get_by_text("is not answering").or_(arena.ended).first).to_be_visible(
            timeout=60_000
        )
        arena.shell.composer.fill("the shell lives")
        expect(arena.shell.composer).to_have_value("the shell lives")


def _guest(system: System, context: BrowserContext) -> Shell:
    """A browser of its own, let in by a fresh link."""
    command = [sys.executable, "-m", "lineloop.cli", "open", "--no-open", "--data-dir", str(system.data_dir)]
    link = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.strip()
    shell = Shell(system, context)
    shell.page.goto(link)
    expect(shell.composer).to_be_visible()
    return shell


@pytest.mark.requirement("F18")
def test_the_address_of_an_app_is_no_page_of_its_own(arena: Arena) -> None:
    url = arena.enter().url
    page = arena.page.context.new_page()
    answer = page.goto(url)
    assert answer is not None
    assert answer.status >= 400
    assert "hostile" not in page.content()
    page.close()


@pytest.mark.requirement("F19")
def test_the_shell_is_not_framed_by_other_pages(arena: Arena, hostile_system: System) -> None:
    page = arena.page.context.new_page()
    page.set_content(f"<iframe src='{hostile_system.ready['shell_url']}'></iframe>")
    page.wait_for_timeout(500)
    assert page.frames[1].url.startswith("chrome-error:")
    page.close()


@pytest.mark.requirement("F13", "F11")
def test_no_name_that_an_app_chooses_is_looked_up(
    hostile_system: System, playwright: Playwright, tmp_path: Path, chromium: str
) -> None:
    log = tmp_path / "net.json"
    arguments = [*flags(), f"--log-net-log={log}", "--net-log-capture-mode=Everything"]
    with playwright.chromium.launch(executable_path=chromium, args=arguments) as browser:
        arena = Arena(_guest(hostile_system, browser.new_context(locale="en-US")))
        arena.enter().evaluate("secret => ask_names(secret)", SECRET)
    assert not [name for name in names_asked(log) if SECRET in name]
