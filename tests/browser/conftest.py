"""Real Chromium for the browser tests: one process for all of them, a fresh profile for each test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from playwright.sync_api import Browser, BrowserContext, Playwright, expect, sync_playwright
from tests.blackbox.system import System
from tests.browser.chromium import NoChromium, chromium_path, flags
from tests.browser.shell import Arena, Shell, install_hostile
from tests.browser.sink import Sink

# A machine with much to do is slow and not wrong; what must be quick says so itself.
expect.set_options(timeout=20_000)

HOSTILE = Path(__file__).with_name("hostile")


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as playwright:
        yield playwright


@pytest.fixture(scope="session")
def chromium(playwright: Playwright) -> str:
    """The browser's path. Without one these tests fail in CI and are skipped visibly elsewhere."""
    try:
        return chromium_path(playwright)
    except NoChromium as missing:
        if os.environ.get("CI"):
            pytest.fail(str(missing))
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def browser(playwright: Playwright, chromium: str) -> Iterator[Browser]:
    browser = playwright.chromium.launch(executable_path=chromium, args=flags())
    yield browser
    browser.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(locale="en-US")
    yield context
    context.close()


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    """A fresh Lineloop that answers with the demo."""
    system = System(tmp_path, "web").start()
    yield system
    system.close()


@pytest.fixture
def undecided(tmp_path: Path) -> Iterator[System]:
    """A fresh Lineloop that has not been told who answers."""
    system = System(tmp_path, "web")
    system.model = None
    yield system.start()
    system.close()


@pytest.fixture
def shell(system: System, context: BrowserContext) -> Shell:
    """Its page."""
    return Shell(system, context).open()


@pytest.fixture(scope="module")
def hostile_system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """One with the hostile app, for all tests of a module."""
    folder = tmp_path_factory.mktemp("hostile")
    system = System(folder, "web").start()
    install_hostile(system, folder)
    yield system
    system.close()


@pytest.fixture(scope="module")
def hostile_shell(hostile_system: System, browser: Browser) -> Iterator[Shell]:
    with browser.new_context(locale="en-US") as context:
        yield Shell(hostile_system, context).open()


@pytest.fixture(scope="module")
def arena(hostile_shell: Shell) -> Arena:
    return Arena(hostile_shell)


@pytest.fixture
def sink() -> Iterator[Sink]:
    sink = Sink()
    yield sink
    sink.close()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class's name)
        """Nothing is said."""


@pytest.fixture(scope="session")
def control_url() -> Iterator[str]:
    """The hostile script in a page without any protection: what it can do when nothing stops it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(HOSTILE)))
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/control.html"
    server.shutdown()
    server.server_close()
