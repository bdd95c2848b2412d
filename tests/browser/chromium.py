"""Finds a Chromium for the browser tests, and installs Debian's where that is possible."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

from playwright.sync_api import Playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)


class NoChromium(Exception):
    """There is none and none could be installed."""


@cache
def _named() -> str | None:
    asked = os.environ.get("PLAYWRIGHT_CHROMIUM")
    if asked:
        return asked
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@cache
def _installed() -> str | None:
    """Debian's package, where this process may install it."""
    if os.geteuid() != 0 or not Path("/etc/debian_version").exists() or not shutil.which("apt-get"):
        return None
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", "chromium"]):
        subprocess.run(["apt-get", *command], env=environment, check=False, capture_output=True, timeout=600)
    return shutil.which("chromium")


def chromium_path(playwright: Playwright) -> str:
    """PLAYWRIGHT_CHROMIUM, else one on PATH, else Playwright's own, else Debian's. Raises NoChromium."""
    own = playwright.chromium.executable_path
    found = _named() or (own if own and Path(own).exists() else None) or _installed()
    if found is None:
        raise NoChromium("no Chromium: set PLAYWRIGHT_CHROMIUM, or install the package `chromium`")
    return found


def flags() -> list[str]:
    """What every start needs; as root the browser's own sandbox cannot be used."""
    return [*FLAGS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
