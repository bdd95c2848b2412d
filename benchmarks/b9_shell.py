"""B9: what the shell costs in a real browser: a long conversation, an answer that streams in, its start."""

from __future__ import annotations

import asyncio
import gzip
import re
from pathlib import Path

from playwright.sync_api import Browser, expect, sync_playwright
from tests.blackbox.system import System
from tests.browser.chromium import chromium_path, flags
from tests.browser.shell import Shell, free_port
from tests.browser.streaming import LongConversation, Watch

from benchmarks.measure import ROUNDS, Goal, Report, single

MESSAGES = 2_000
TOKENS_PER_SECOND, SECONDS = 100, 5
STATIC = Path(__file__).resolve().parents[1] / "src/lineloop/device/host/web/static"


def initial_kib() -> float:
    """What a browser fetches before the shell works, compressed."""
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    names = re.findall(r'(?:src|href)="/(assets/[^"]+)"', page)
    return sum(len(gzip.compress((STATIC / name).read_bytes(), 9)) for name in names) / 1024


class Rounds:
    """The figures of every round; the longest ones are kept as they were seen."""

    def __init__(self) -> None:
        self.script_ms: list[float] = []
        self.task_ms: list[float] = []
        self.gap_ms: list[float] = []
        self.interactive_ms: list[float] = []

    def stream(self, browser: Browser, system: System) -> None:
        context = browser.new_context(locale="en-US", viewport={"width": 1280, "height": 800})
        with LongConversation(system, MESSAGES) as conversation:
            shell = Shell(system, context).open()
            self.interactive(shell)
            conversation.load_all(shell)
            watch = Watch(shell.page)
            for _ in range(ROUNDS):
                with conversation.streaming(TOKENS_PER_SECOND, SECONDS) as stream:
                    self.script_ms.append(watch.script_ms_per_token(stream))
                with conversation.streaming(TOKENS_PER_SECOND, SECONDS) as stream:
                    seen = watch.smoothness(stream)
                self.task_ms.append(seen.longest_task_ms)
                self.gap_ms.append(seen.longest_gap_ms)
        context.close()

    def interactive(self, shell: Shell) -> None:
        """From navigation until one can write, in a browser that knows the shell's files."""
        for _ in range(ROUNDS):
            page = shell.context.new_page()
            page.goto(shell.system.ready["shell_url"], wait_until="commit")
            expect(page.get_by_role("textbox", name="Write a message")).to_be_enabled()
            self.interactive_ms.append(page.evaluate("() => performance.now()"))
            page.close()


def look(folder: Path) -> Rounds:
    rounds = Rounds()
    system = System(folder, "web", (free_port(), free_port())).start()
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium_path(playwright), args=flags())
            rounds.stream(browser, system)
            browser.close()
    finally:
        system.close()
    return rounds


async def measure(folder: Path) -> Report:
    seen = await asyncio.to_thread(look, folder)
    report = Report("B9", "the shell in a browser", "none; the goals are absolute.")
    report.rows = [
        single("script time per token, 100 tokens/s, 2,000 messages", "ms", seen.script_ms, Goal("<=", 0.9)),
        single("the longest task of a round", "ms", seen.task_ms, Goal("<=", 50.0)),
        single("the longest gap between two frames of a round", "ms", seen.gap_ms, Goal("<=", 50.0)),
        single("from navigation until one can write", "ms", seen.interactive_ms, Goal("<=", 1000.0)),
        single("fetched before the shell works, compressed", "KiB", [initial_kib()], Goal("<=", 150.0)),
    ]
    report.notes = [
        "Real Runtime and real Chromium on one machine; the page has all 2,000 messages.",
        "Script and tasks are time on the processor; gaps are by the clock.",
    ]
    return report
