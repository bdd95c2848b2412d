"""The first screen of a fresh system: who answers is the person's choice, and a demo says that it is one."""

from __future__ import annotations

from playwright.sync_api import Browser, BrowserContext, expect
from tests.blackbox.system import System
from tests.browser.shell import Shell


def test_the_first_screen_asks_who_answers_once_and_the_demo_says_what_it_is(
    undecided: System, context: BrowserContext
) -> None:
    shell = Shell(undecided, context)
    shell.page.goto(f"{undecided.ready['shell_url']}#code={undecided.ready['shell_code']}")
    dialog = shell.page.get_by_role("dialog")
    expect(dialog.get_by_text("Demo, not AI")).to_be_visible()
    expect(dialog.get_by_label("API key")).to_have_attribute("type", "password")
    assert "code=" not in shell.page.url
    dialog.get_by_role("button", name="Start the demo").click()
    shell.page.keyboard.type("hello")
    expect(dialog).to_have_count(0)
    expect(shell.composer).to_have_value("hello")
    shell.composer.press("Enter")
    shell.expect_said("demo, not AI")

    undecided.stop()
    undecided.start()
    again = Shell(undecided, context)
    link = f"{undecided.ready['shell_url']}#code={undecided.ready['shell_code']}"
    again.page.goto(link)
    expect(again.composer).to_be_visible()
    expect(again.page.get_by_role("dialog")).to_have_count(0)


def test_a_code_lets_in_once(undecided: System, context: BrowserContext, browser: Browser) -> None:

    link = f"{undecided.ready['shell_url']}#code={undecided.ready['shell_code']}"
    shell = Shell(undecided, context)
    shell.page.goto(link)
    expect(shell.page.get_by_role("dialog")).to_be_visible()
    with browser.new_context(locale="en-US") as stranger:
        page = stranger.new_page()
        page.goto(link)
        expect(page.get_by_text("has no key yet")).to_be_visible()
        expect(page.get_by_text("lineloop open")).to_be_visible()
