"""Shared by all tests: one event loop backend, and an end for tests that hang."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Generator
from types import FrameType

import pytest
from hypothesis import settings
from tests.services.databases import (
    chosen_database,
    postgres_server,
    postgres_url,
    test_databases,
)
from tests.services.standing import where_everything_stands

__all__ = ["chosen_database", "postgres_server", "postgres_url", "test_databases"]

HANG_SECONDS = 90
# Folders whose every test makes a whole server and device: they run in `make test`.
WHOLE_SYSTEMS = frozenset({"shell", "core_apps", "chat"})
SLOW_HANG_SECONDS = 400
# What goes on hanging is interrupted again; what does not end by that ends with its process.
AGAIN_SECONDS = 20
INTERRUPTIONS = 3

# `make check` looks at fewer random cases; `make test` and a plain run look at all of them.
settings.register_profile("quick", max_examples=25)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--database",
        choices=("sqlite", "postgres"),
        default="sqlite",
        help="where the servers of tests keep their data; tests about SQLite files are skipped on postgres",
    )


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what is long by its folder, before the marks decide what runs; what waits longest is first."""
    for item in items:
        if "interaction" in item.path.parts and WHOLE_SYSTEMS & set(item.path.parts):
            item.add_marker(pytest.mark.slow)
    items.sort(key=_seconds, reverse=True)


def _seconds(item: pytest.Item) -> float:
    """How long its `slow` mark says that it waits at least."""
    mark = item.get_closest_marker("slow")
    return 0.0 if mark is None else float(mark.kwargs.get("seconds", 0.0))


class TestHung(Exception):
    """A test did not end in its time; where every thread and task stood is on stderr."""

    __test__ = False


_STDERR = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    """Keeps the real stderr: what a process writes that ends at once is not among what is captured."""
    config.stash[_STDERR] = os.dup(2)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    return (yield from _ended_in_time(item, "its setup"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    return (yield from _ended_in_time(item, "the test"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    return (yield from _ended_in_time(item, "its teardown"))


def _ended_in_time(item: pytest.Item, what: str) -> Generator[None]:
    """Fails a test that waits for something that never comes, instead of waiting with it."""
    processes = {"faults", "blackbox", "browser", "packaging", "docs"} & set(item.path.parts)
    seconds = SLOW_HANG_SECONDS if processes or item.get_closest_marker("slow") else HANG_SECONDS
    rung = 0

    def ring(_number: int, _frame: FrameType | None) -> None:
        nonlocal rung
        rung += 1
        told = f"{item.nodeid}: no end of {what} after {seconds + AGAIN_SECONDS * (rung - 1)} s"
        standing = where_everything_stands()
        sys.stderr.write(f"{told}\n{standing}\n")
        if rung > INTERRUPTIONS:
            os.write(item.config.stash[_STDERR], f"{told}; the process ends\n{standing}\n".encode())
            os._exit(70)
        raise TestHung(told)

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN_SECONDS)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
