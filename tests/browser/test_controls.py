"""The attempts of the hostile app do reach the sink where nothing stops them: without that, silence proves
nothing.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Error
from tests.browser.sink import Sink
from tests.browser.vectors import EGRESS

UDP_ONLY = {"stun", "stun_in_blank_frame", "web_transport"}


def test_every_attempt_of_the_hostile_app_is_listed() -> None:
    source = (Path(__file__).parent / "hostile" / "main.js").read_text(encoding="utf-8")
    egress = source.split("const egress = {")[1].split("\n};")[0]
    assert re.findall(r"^  (\w+)(?::|,)", egress, re.MULTILINE) == list(EGRESS)


@pytest.mark.parametrize("vector", EGRESS)
def test_without_protection_the_attempt_reaches_the_sink(
    context: BrowserContext, control_url: str, sink: Sink, vector: str
) -> None:
    page = context.new_page()
    page.goto(control_url)
    page.wait_for_selector("[data-hostile]", state="attached")
    try:
        page.evaluate("([name, sink]) => attack(name, sink, 'secret')", [vector, sink.url])
    except Error as error:
        assert "context was destroyed" in error.message, (
            error.message
        )  # It navigated away: that is its attempt.
    page.wait_for_timeout(200)
    assert sink.udp() if vector in UDP_ONLY else sink.tcp()
