"""Pictures of the shell for docs/images: the real Runtime, a real browser, each state in each theme and size.

    make web-build && .venv/bin/python -m tools.screenshots [NAME …]

NAME is the beginning of the files to write (`light`, `phone-dark`, …); without one all are written. Decides
what the pictures show; what is on them comes from the running system, so times of day differ from run to run.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, expect, sync_playwright
from tests.blackbox.system import System
from tests.browser.chromium import chromium_path, flags
from tests.browser.shell import Shell

IMAGES = Path(__file__).resolve().parents[1] / "docs/images"
LIMIT_BYTES = 150 * 1024
Theme = Literal["light", "dark"]
THEMES: tuple[Theme, ...] = ("light", "dark")
SIZES: dict[str, ViewportSize] = {
    "": {"width": 1280, "height": 800},
    "phone-": {"width": 390, "height": 844},
}
STILL = "*, *::before, *::after { caret-color: transparent !important }"
PAINTED = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


class Camera:
    """One page whose states are written to files that begin with `prefix`."""

    def __init__(self, page: Page, prefix: str) -> None:
        self._page = page
        self._prefix = prefix

    def take(self, state: str) -> None:
        self._page.mouse.move(0, 0)
        self._page.evaluate("() => document.fonts.ready.then(() => undefined)")
        self._page.evaluate(PAINTED)
        path = IMAGES / f"{self._prefix}-{state}.png"
        self._page.screenshot(path=path, style=STILL, animations="disabled")
        size = path.stat().st_size
        print(f"{path.name} {size // 1024} KB")
        if size > LIMIT_BYTES:
            raise SystemExit(f"{path} is larger than {LIMIT_BYTES // 1024} KB")


def walk(shell: Shell, system: System, camera: Camera, phone: bool) -> None:
    """From the first screen to a Runtime that is gone."""
    page = shell.page
    page.goto(f"{system.ready['shell_url']}#code={system.ready['shell_code']}")
    expect(page.get_by_text("No model server found")).to_be_visible()
    camera.take("first-run")
    page.get_by_role("button", name="Start the demo").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_text("Online")).to_be_visible()
    camera.take("empty")
    _focus(shell)
    # The same second in all pictures.
    expect(shell.frame().get_by_text("24:56")).to_be_visible(timeout=10_000)
    camera.take("focusing")
    if phone:
        page.get_by_role("button", name="Show the chat").click()
        shell.expect_said("it is running")
        page.wait_for_timeout(400)  # the sheet has come up
        camera.take("focusing-chat")
    shell.say("stop")
    shell.expect_said("stopped after")
    expect(page.locator(".block-record")).to_be_visible()
    shell.say("/ask What comes next? | Review the draft | A walk outside | Call Mia")
    expect(page.get_by_role("radio", name="A walk outside")).to_be_visible()
    camera.take("chatting")
    system.kill()
    expect(page.get_by_role("button", name="Try now")).to_be_visible()
    shell.say("Remind me to send it to Mia")
    expect(page.get_by_text("Waits for this device")).to_be_visible()
    camera.take("offline")


def _focus(shell: Shell) -> None:
    shell.say("start a 25 minute focus called write the report")
    expect(shell.app("Pomodoro")).to_be_visible()
    # On a phone the chat lies hidden below the app.
    expect(shell.page.locator("[role=log]").get_by_text("it is running").first).to_be_attached(timeout=10_000)


@contextmanager
def running() -> Generator[System]:
    """A system that nobody has used yet."""
    with tempfile.TemporaryDirectory(prefix="lineloop-pictures-") as folder:
        system = System(Path(folder), "web")
        system.model = None
        try:
            yield system.start()
        finally:
            system.close()


def context_of(browser: Browser, theme: Theme, size: ViewportSize, phone: bool) -> BrowserContext:
    return browser.new_context(
        locale="en-US",
        color_scheme=theme,
        viewport=size,
        has_touch=phone,
        is_mobile=phone,
        reduced_motion="reduce",
    )


def main(names: list[str]) -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(playwright), args=flags())
        for kind, size in SIZES.items():
            for theme in THEMES:
                prefix = f"{kind}{theme}"
                if names and not any(prefix.startswith(name) for name in names):
                    continue
                with running() as system:
                    context = context_of(browser, theme, size, bool(kind))
                    shell = Shell(system, context)
                    walk(shell, system, Camera(shell.page, prefix), bool(kind))
                    context.close()
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
