"""What the shell shows can be used by everybody: axe finds nothing, in both themes, wide and on a phone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.blackbox.system import System
from tests.browser.shell import Shell

AXE = Path(__file__).parents[2] / "node_modules/axe-core/axe.min.js"
# Frames are pages of their own, and apps answer for themselves; Pomodoro's is looked at in its own test.
RUN = "() => axe.run(document, {iframes: false, resultTypes: ['violations']})"
SIZES = {"wide": (1280, 800), "phone": (390, 844)}


class Looks:
    """Collects what axe finds in each state of one page, so that a failure tells all of it at once."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._found: list[str] = []
        # Colours that are on their way are not looked at.
        page.emulate_media(reduced_motion="reduce")

    def at(self, state: str) -> None:
        if not self._page.evaluate("() => 'axe' in globalThis"):
            self._page.evaluate(AXE.read_text(encoding="utf-8"))
        result: dict[str, Any] = self._page.evaluate(RUN)
        for violation in result["violations"]:
            places = "; ".join(f"{node['target']} {node['failureSummary']}" for node in violation["nodes"])
            self._found.append(f"{state}: {violation['id']}: {places}")

    def none(self) -> None:
        assert not self._found, "\n".join(self._found)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_axe_finds_nothing_on_the_way_from_the_first_screen_to_a_lost_connection(
    browser: Browser, undecided: System, theme: Any, size: str
) -> None:
    width, height = SIZES[size]
    phone = size == "phone"
    context = browser.new_context(
        locale="en-US", color_scheme=theme, viewport={"width": width, "height": height}, has_touch=phone
    )
    shell = Shell(undecided, context)
    page = shell.page
    looks = Looks(page)
    page.goto(f"{undecided.ready['shell_url']}#code={undecided.ready['shell_code']}")
    expect(page.get_by_text("No model server found")).to_be_visible()
    looks.at("first run")
    page.get_by_role("button", name="Start the demo").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    looks.at("nothing said yet")
    shell.say("hello")
    shell.expect_said("demo, not AI")
    shell.say("/ask Which one? | red | blue")
    card = page.get_by_role("article", name="Question to you")
    card.get_by_label("blue").click()
    looks.at("a question")
    card.get_by_role("button", name="Answer", exact=True).click()
    shell.expect_said("You answered: blue.")
    shell.say("/fail")
    shell.expect_said("This did not work.")
    looks.at("an answered question and a failure")
    _care(page, looks, phone)
    _settings(page, looks)
    shell.say("start a 25 minute focus called tea")
    expect(shell.app("Pomodoro")).to_be_visible()
    if phone:
        looks.at("an app, the chat below it")
        page.get_by_role("button", name="Show the chat").click()
    shell.expect_said("it is running")
    looks.at("an app beside the chat")
    shell.say("stop")
    shell.expect_said("stopped after")
    expect(page.get_by_text(re.compile("ended early")).first).to_be_visible()
    _work(page, phone)
    looks.at("the work behind a message")
    undecided.kill()
    expect(page.get_by_role("button", name="Try now")).to_be_visible()
    looks.at("Lineloop is not running")
    context.close()
    looks.none()
    assert shell.errors == []


def _care(page: Page, looks: Looks, phone: bool) -> None:
    """By the keyboard: renamed, found, archived and brought back; the focus returns each time."""
    menu = page.get_by_role("button", name="What can be done")
    menu.press("Enter")
    looks.at("what can be done with a conversation")
    page.keyboard.press("Enter")
    name = page.get_by_role("textbox", name="Name of the conversation")
    expect(name).to_be_focused()
    name.fill("Colours")
    looks.at("a name that is changed")
    name.press("Enter")
    expect(page.get_by_role("heading", name="Colours")).to_be_visible()
    expect(menu).to_be_focused()
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Find conversations and messages").fill("which")
    expect(page.locator("mark").first).to_be_visible()
    looks.at("what was found")
    page.keyboard.press("Escape")
    expect(menu).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("list", name="Who takes part").get_by_text("owner")).to_be_visible()
    looks.at("who takes part")
    page.keyboard.press("Escape")
    expect(menu).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    expect(page.get_by_text("What is written here brings it back")).to_be_visible()
    looks.at("an archived conversation")
    if phone:
        page.get_by_role("button", name="Conversations").click()
    page.get_by_role("button", name=re.compile("^Archived")).click()
    looks.at("the archive")
    page.get_by_role("button", name=re.compile("^Colours")).click()
    page.get_by_role("button", name="Bring back").click()
    expect(page.get_by_text("What is written here brings it back")).to_have_count(0)


def _settings(page: Page, looks: Looks) -> None:
    page.get_by_role("button", name="Settings").click()
    expect(page.get_by_text("this one")).to_be_visible()
    page.get_by_role("button", name="Take away the key").click()
    looks.at("settings, a key to be taken away")
    page.get_by_role("button", name="Keep").click()
    page.get_by_role("button", name="Change…").click()
    expect(page.get_by_text("No model server found")).to_be_visible()
    looks.at("settings, another model")
    page.get_by_role("button", name="Close settings").click()


def _work(page: Page, phone: bool) -> None:
    if phone:
        page.get_by_role("button", name="Work", exact=True).click()
    expect(page.get_by_role("complementary", name="Work").get_by_text("Done").first).to_be_visible()
