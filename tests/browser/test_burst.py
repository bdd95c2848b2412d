"""Many messages: a burst of them into an open page, and far back in a long conversation.

Bounds are counts and time on the processor, which a busy machine changes little.
"""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from playwright.sync_api import BrowserContext, Page, expect
from tests.blackbox.system import System
from tests.browser.shell import Shell
from tests.browser.streaming import TITLE, LongConversation, longest_task_ms

MESSAGES = 2_000
SHOWN_SECONDS = 2.0
TASK_MS = 50
ROWS_AT_MOST = 150
# Other programs take the processor's caches away, and half of a core that has two threads.
SLACK = 1.5
CLOCK_SLACK = 4

ROW_IN_SIGHT = """() => {
  const log = document.querySelector("[role=log]");
  const edge = log.getBoundingClientRect().top;
  for (const row of log.querySelectorAll(".row")) {
    const box = row.getBoundingClientRect();
    if (box.bottom > edge + 40) return { words: row.querySelector(".row-body").innerText, top: box.top };
  }
  return null;
}"""


def rows(page: Page) -> int:
    return page.locator("[role=log] .row").count()


def open_talk(shell: Shell, last: str) -> None:
    shell.page.get_by_role("button", name=TITLE).first.click()
    shell.expect_said(last)


def test_a_burst_of_two_thousand_messages_is_shown_as_it_comes(
    system: System, context: BrowserContext, tmp_path: Path
) -> None:
    browser = context.browser
    assert browser is not None
    with LongConversation(system, 3) as conversation:
        shell = Shell(system, context).open()
        open_talk(shell, "Message 2.")
        trace = tmp_path / "trace.json"
        browser.start_tracing(page=shell.page, categories=["toplevel"], path=str(trace))
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(conversation.speak, range(3, MESSAGES)))
        said = time.monotonic()
        expect(shell.transcript.get_by_text(f"Message {MESSAGES - 1}.")).to_be_in_viewport()
        late_seconds = time.monotonic() - said
        browser.stop_tracing()
    assert int(shell.transcript.get_attribute("data-rows") or 0) >= 50
    assert rows(shell.page) <= ROWS_AT_MOST
    assert late_seconds <= SHOWN_SECONDS * CLOCK_SLACK
    assert longest_task_ms(json.loads(trace.read_bytes())) <= TASK_MS * SLACK
    assert shell.errors == []


def test_far_back_only_rows_near_what_is_seen_are_there_and_nothing_moves(
    system: System, context: BrowserContext
) -> None:
    with LongConversation(system, 600) as conversation:
        shell = Shell(system, context).open()
        assert conversation.load_all(shell) == 600
        page, log = shell.page, shell.transcript
        log.focus()
        for _ in range(30):
            page.keyboard.press("PageUp")
            page.wait_for_timeout(16)
        page.wait_for_timeout(200)
        assert rows(page) <= ROWS_AT_MOST
        # What is read stays where it is while messages come in below.
        before = page.evaluate(ROW_IN_SIGHT)
        for number in range(600, 620):
            conversation.speak(number)
        expect(log).to_have_attribute("data-rows", "620")
        after = page.evaluate(ROW_IN_SIGHT)
        assert after["words"] == before["words"]
        assert abs(after["top"] - before["top"]) <= 2
        # Words of a page that is not there are found by the browser's own search.
        assert page.evaluate(
            "() => [...document.querySelectorAll('.page-away')].some((one) => one.hidden === 'until-found'"
            " && one.textContent.includes('Message 619.'))"
        )
        page.get_by_role("button", name="To the newest message").click()
        expect(log.get_by_text("Message 619.")).to_be_in_viewport()
        page.keyboard.press("Control+Home")
    assert shell.errors == []
