"""The chat stays smooth: a long conversation in a real browser, an answer that streams in from the Runtime.

Bounds here are wide, because machines that run tests are busy; `python -m benchmarks B9` tells the figures.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, expect
from tests.blackbox.system import System
from tests.browser.shell import Shell, free_port
from tests.browser.streaming import LongConversation, Watch

MESSAGES = 2_000
TOKENS_PER_SECOND = 100
SECONDS = 3
INTERACTIVE_MS = 1_000
SCRIPT_MS_PER_TOKEN = 0.9
FRAME_MS = 50
# How much more a busy machine may need; the clock runs for other programs, too.
SLACK = 2
CLOCK_SLACK = 4


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    system = System(tmp_path, "web", (free_port(), free_port())).start()
    yield system
    system.close()


def test_a_long_conversation_stays_smooth_while_an_answer_streams_into_it(
    system: System, context: BrowserContext
) -> None:
    with LongConversation(system, MESSAGES) as conversation:
        shell = Shell(system, context).open()
        assert conversation.load_all(shell) == MESSAGES
        watch = Watch(shell.page)
        with conversation.streaming(TOKENS_PER_SECOND, SECONDS) as stream:
            script_ms = watch.script_ms_per_token(stream)
        with conversation.streaming(TOKENS_PER_SECOND, SECONDS) as stream:
            seen = watch.smoothness(stream)
    expect(shell.transcript.get_by_text(stream.last_word).last).to_be_in_viewport()
    assert stream.sent == TOKENS_PER_SECOND * SECONDS
    assert script_ms <= SCRIPT_MS_PER_TOKEN * SLACK
    assert seen.longest_task_ms <= FRAME_MS * SLACK
    assert shell.errors == []


def test_one_can_write_within_a_second(system: System, context: BrowserContext) -> None:
    Shell(system, context).open()
    page = context.new_page()
    page.goto(system.ready["shell_url"], wait_until="commit")
    expect(page.get_by_role("textbox", name="Write a message")).to_be_enabled()
    assert page.evaluate("() => performance.now()") <= INTERACTIVE_MS * CLOCK_SLACK
