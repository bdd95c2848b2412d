"""Named places where a test may break the program.

A site is a name reached on both sides of every commit and outside call. Which sites exist is decided by their
owners' list; this module decides what happens there. Without a plan a site only counts, and in a program
that nobody tests not even that: sites lie on every hot path.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterable
from enum import StrEnum

EVERY = 0


class FaultMode(StrEnum):
    """What goes wrong at a site."""

    KILL = "kill"
    RAISE = "raise"
    HANG = "hang"
    LOST_ACK = "lost_ack"
    DUPLICATE = "duplicate"
    DELAY = "delay"


class FaultInjected(Exception):
    """The planned exception of a site."""

    def __init__(self, site: str) -> None:
        super().__init__(f"fault injected at {site}")
        self.site = site


class Faults:
    """The sites of one process and what is planned for them.

    `plan` is `site:mode[:nth]`, comma separated: the mode acts at the nth time the site is reached (default
    1; `*` = every time). Raises ValueError for an unknown site or mode. `reached` counts per site, without a
    plan only when it `counts`; with neither it is `asleep`, and nothing ever happens. Thread-safe.
    """

    def __init__(
        self, sites: Iterable[str], plan: str = "", *, delay_seconds: float = 0.2, counts: bool = True
    ) -> None:
        self._sites: frozenset[str] | None = frozenset(str(site) for site in sites)
        self._delay_seconds = delay_seconds
        self._lock = threading.Lock()
        self._released = threading.Event()
        self._hanging: list[asyncio.Future[None]] = []
        self.reached: Counter[str] = Counter()
        self._plan = {site: (mode, nth) for site, mode, nth in map(self._entry, _entries(plan))}
        self.asleep = not counts and not self._plan

    @classmethod
    def none(cls) -> Faults:
        """Accepts every site and only counts."""
        faults = cls(())
        faults._sites = None
        return faults

    def knows(self, site: str) -> bool:
        """Whether the site is on the list."""
        return self._sites is None or site in self._sites

    def reach(self, site: str) -> FaultMode | None:
        """Be at `site`, from synchronous code.

        KILL never returns, RAISE raises FaultInjected, HANG blocks this thread until `release`, DELAY for a
        while. LOST_ACK and DUPLICATE are returned, because only the caller can act them out. Raises
        ValueError for an unknown site.
        """
        mode = self._due(site)
        if mode is FaultMode.HANG:
            self._released.wait()
        elif mode is FaultMode.DELAY:
            self._released.wait(self._delay_seconds)
        return mode

    async def areach(self, site: str) -> FaultMode | None:
        """As `reach`, for asynchronous code: HANG and DELAY hold only this task."""
        mode = self._due(site)
        if mode is FaultMode.HANG and not self._released.is_set():
            future = asyncio.get_running_loop().create_future()
            self._hanging.append(future)
            await future
        elif mode is FaultMode.DELAY:
            await asyncio.sleep(self._delay_seconds)
        return mode

    def release(self) -> None:
        """Let go of everything that hangs, now and from now on. Call it on the loop's thread."""
        self._released.set()
        for future in self._hanging:
            if not future.done():
                future.set_result(None)
        self._hanging.clear()

    def _due(self, site: str) -> FaultMode | None:
        if self.asleep:
            return None
        if not self.knows(site):
            raise ValueError(f"unknown fault site {site!r}")
        with self._lock:
            self.reached[site] += 1
            count = self.reached[site]
        planned = self._plan.get(site)
        if planned is None:
            return None
        mode, nth = planned
        if nth not in (EVERY, count):
            return None
        if mode is FaultMode.KILL:
            _die()
        if mode is FaultMode.RAISE:
            raise FaultInjected(site)
        return mode

    def _entry(self, entry: str) -> tuple[str, FaultMode, int]:
        site, _, rest = entry.partition(":")
        mode_text, _, nth_text = rest.partition(":")
        if not self.knows(site):
            raise ValueError(f"unknown fault site {site!r}")
        try:
            mode = FaultMode(mode_text)
        except ValueError:
            raise ValueError(f"unknown fault mode {mode_text!r} at {site}") from None
        if nth_text == "*":
            return site, mode, EVERY
        if nth_text and (not nth_text.isdecimal() or int(nth_text) < 1):
            raise ValueError(f"{entry!r}: the count must be a positive number or *")
        return site, mode, int(nth_text or "1")


def _entries(plan: str) -> list[str]:
    return [entry.strip() for entry in plan.split(",") if entry.strip()]


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    while True:  # The signal takes this thread too; nothing may run after the site.
        time.sleep(1)
