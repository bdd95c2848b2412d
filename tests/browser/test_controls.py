"""The attempts of the hostile app do reach the sink where nothing stops them: without that, silence proves
nothing.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page
from tests.blackbox.system import eventually
from tests.browser.sink import Sink
from tests.browser.vectors import EGRESS, NAVIGATES

UDP_ONLY = frozenset({"stun", "stun_in_blank_frame", "web_transport"})
# Without protection these leave the page, hide it, or come without the name of their attempt: one page each.
ALONE = NAVIGATES | UDP_ONLY | {"turn", "form", "top_location", "popup"}


@pytest.fixture
def page(context: BrowserContext, control_url: str) -> Page:
    page = context.new_page()
    page.goto(control_url)
    page.wait_for_selector("[data-hostile]", state="attached")
    return page


def test_every_attempt_of_the_hostile_app_is_listed() -> None:
    source = (Path(__file__).parent / "hostile" / "main.js").read_text(encoding="utf-8")
    egress = source.split("const egress = {")[1].split("\n};")[0]
    assert re.findall(r"^  (\w+)(?::|,)", egress, re.MULTILINE) == list(EGRESS)


def test_without_protection_the_attempts_reach_the_sink_under_their_names(page: Page, sink: Sink) -> None:
    """All of them in one page, as an app makes them in its frame."""
    vectors = [name for name in EGRESS if name not in ALONE]
    page.evaluate("([names, sink]) => void attack_all(names, sink, 'secret')", [vectors, sink.url])
    eventually(lambda: set(vectors) <= sink.names(), f"all of {vectors}")


@pytest.mark.parametrize("vector", sorted(ALONE))
def test_without_protection_the_attempt_reaches_the_sink(page: Page, sink: Sink, vector: str) -> None:
    # Begun after the answer, because the page may be gone then.
    page.evaluate(
        "([name, sink]) => { setTimeout(() => attack(name, sink, 'secret'), 0); }", [vector, sink.url]
    )
    eventually(sink.udp if vector in UDP_ONLY else sink.tcp, f"{vector} in the sink")
