"""The shell as a person meets it: one page in real Chromium, found by roles and words."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import BrowserContext, Error, Frame, Locator, Page, expect
from tests.blackbox.system import System, eventually

HOSTILE = Path(__file__).with_name("hostile")
SECONDS = 1000.0


def free_port() -> int:
    """A port that was free a moment ago: a shell that comes back does so where its page looks for it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Shell:
    """A page of the shell. `open` uses the one-time code, `reopen` the key that the browser keeps."""

    def __init__(self, system: System, context: BrowserContext) -> None:
        self.system = system
        self.context = context
        self.page: Page = context.new_page()
        self.errors: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))

    def open(self) -> Shell:
        ready = self.system.ready
        self.page.goto(f"{ready['shell_url']}#code={ready['shell_code']}")
        expect(self.composer).to_be_visible()
        return self

    def reopen(self) -> Shell:
        """As a second tab, or after the browser was closed."""
        self.page.goto(self.system.ready["shell_url"])
        expect(self.composer).to_be_visible()
        return self

    @property
    def composer(self) -> Locator:
        return self.page.get_by_role("textbox", name="Write a message")

    @property
    def transcript(self) -> Locator:
        return self.page.get_by_role("log")

    def say(self, text: str) -> None:
        self.composer.fill(text)
        self.composer.press("Enter")

    def expect_said(self, text: str, seconds: float = 20.0) -> None:
        expect(self.transcript.get_by_text(text).first).to_be_visible(timeout=seconds * SECONDS)

    # ── the workspace ───────────────────────────────────────────────────────────────────────────────────────

    def app(self, title: str) -> Locator:
        """The workspace while this app is in the foreground."""
        return self.page.get_by_role("region", name=re.compile(f"App: {title}"))

    def frame(self, seconds: float = 20.0) -> Frame:
        """The frame of the app that is shown, once its document is there."""

        def found() -> Frame | None:
            frames = [frame for frame in self.page.frames[1:] if "/app/" in frame.url]
            return frames[-1] if frames else None

        return self._until(found, "a frame", seconds)

    def _until(self, probe: Any, what: str, seconds: float) -> Any:
        def look() -> Any:
            self.page.wait_for_timeout(20)
            return probe()

        return eventually(look, what, seconds)

    def remaining(self) -> str:
        """What the timer's surface says is left, for example `24:59`."""
        timer = self.frame().get_by_role("timer")
        expect(timer).to_be_visible()
        return timer.inner_text()


def seconds_of(clock: str) -> int:
    """`1:05` as 65."""
    minutes, _, seconds = clock.strip().partition(":")
    return int(minutes) * 60 + int(seconds)


def install_hostile(system: System, folder: Path) -> None:
    """Installs the hostile app into the running system, as an author would."""
    source = folder / "hostile"
    (source / "surface").mkdir(parents=True)
    shutil.copy(HOSTILE / "manifest.json", source / "manifest.json")
    for name in ("app.js", "main.js"):
        shutil.copy(HOSTILE / name, source / "surface" / name)
    command = [sys.executable, "-m", "lineloop.cli", "app", "install", str(source), "--yes"]
    subprocess.run(
        [*command, "--data-dir", str(system.data_dir)], check=True, capture_output=True, timeout=60
    )


class Arena:
    """A shell with the hostile app in the foreground."""

    TITLE = "Hostile"

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self.page = shell.page

    def enter(self) -> Frame:
        """The app's frame, connected; opened (again) when it is not there."""
        opened = self.page.locator(".workspace:not([hidden])").count() > 0
        if not opened:
            self.page.get_by_role("button", name=f"Open {self.TITLE}").or_(
                self.page.get_by_role("button", name=f"{self.TITLE}, running")
            ).first.click()
        elif self.ended.is_visible():
            self.page.get_by_role("button", name="Open again").click()
        frame = self.shell.frame()
        try:
            frame.wait_for_selector("[data-connected]", state="attached")
        except Error:
            # It was on its way out: what a test before did to it has its end only now.
            expect(self.ended).to_be_visible()
            return self.enter()
        return frame

    @property
    def ended(self) -> Locator:
        """The notice that the app was closed, with its reason in words."""
        return self.page.locator(".notice[role=alert]")

    def expect_ended(self, words: str) -> None:
        expect(self.ended).to_contain_text(words)
        expect(self.page.locator("iframe")).to_have_count(0)

    def close(self) -> None:
        """The person closes the app."""
        self.page.get_by_role("button", name=f"Close {self.TITLE}").first.click()
        expect(self.page.locator(".workspace:not([hidden])")).to_have_count(0)
        expect(self.page.locator("iframe")).to_have_count(0)
