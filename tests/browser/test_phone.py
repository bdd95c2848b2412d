"""On a phone the chat lies over the app as a sheet, and what was said last stays in sight."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, expect
from tests.blackbox.system import System
from tests.browser.shell import Shell

PHONE = {"width": 390, "height": 844}
# What a keyboard on the screen leaves.
WITH_KEYBOARD = {"width": 390, "height": 480}


@pytest.fixture
def phone(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(locale="en-US", viewport=PHONE, has_touch=True, is_mobile=True)  # type: ignore[arg-type]
    yield context
    context.close()


def test_the_newest_message_stays_in_sight_when_the_sheet_moves_and_the_keyboard_comes(
    system: System, phone: BrowserContext
) -> None:
    shell = Shell(system, phone).open()
    page = shell.page
    for number in range(6):
        shell.say(f"hello {number}")
        shell.expect_said(f"hello {number}")
    shell.say("start a 25 minute focus called tea")
    expect(shell.app("Pomodoro")).to_be_visible()
    page.get_by_role("button", name="Show the chat").click()
    newest = shell.transcript.get_by_text("it is running").last
    expect(newest).to_be_in_viewport()
    shell.composer.focus()
    for size in (WITH_KEYBOARD, PHONE, WITH_KEYBOARD):
        page.set_viewport_size(size)  # type: ignore[arg-type]
        expect(newest).to_be_in_viewport()
        expect(page.get_by_role("button", name="To the newest message")).to_have_count(0)
    expect(page.get_by_role("navigation", name="Chat and apps")).to_be_hidden()
    expect(shell.composer).to_be_in_viewport()
