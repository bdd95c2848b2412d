"""While somebody presses, nothing moves under the pointer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, expect
from tests.blackbox.system import System
from tests.browser.shell import Shell

WRITER = {"kind": "operator", "key": "writer"}


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    system = System(tmp_path, "web")
    yield system.start()
    system.close()


def test_what_comes_in_while_a_choice_is_pressed_does_not_take_it_away(
    system: System, context: BrowserContext
) -> None:
    shell = Shell(system, context).open()
    shell.say("/ask Which one? | red | blue")
    card = shell.page.get_by_role("article", name="Question to you")
    blue = card.get_by_label("blue")
    expect(blue).to_be_visible()
    (conversation,) = system.call("GET", "/conversations")["items"]
    path = f"/conversations/{conversation['id']}/messages"
    token = system.call("POST", "/tokens", {"actor": WRITER})["token"]
    system.call("POST", path, {"key": "invite", "text": "hello writer", "target": WRITER})
    expect(shell.transcript.get_by_text("hello writer")).to_be_visible()
    place = blue.bounding_box()
    assert place is not None
    shell.page.mouse.move(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)
    shell.page.mouse.down()
    for number in range(8):
        long = f"news {number}\n" * 12
        person = {"kind": "user", "key": "local"}
        system.call("POST", path, {"key": f"news{number}", "text": long, "target": person}, token=token)
    expect(shell.transcript.get_by_text("news 7").first).to_be_attached()
    assert blue.bounding_box() == place
    shell.page.mouse.up()
    expect(blue).to_be_checked()
    # Once nothing is pressed any more the newest is shown.
    expect(shell.transcript.get_by_text("news 7").first).to_be_in_viewport()
