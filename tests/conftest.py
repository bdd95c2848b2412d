"""Shared by all tests: one event loop backend, and an end for tests that hang."""

from __future__ import annotations

import faulthandler
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

__all__ = ["chosen_database", "postgres_server", "postgres_url", "test_databases"]

HANG_SECONDS = 90
# Folders whose every test makes a whole server and device: they run in `make test`.
WHOLE_SYSTEMS = frozenset({"shell", "core_apps", "chat"})
SLOW_HANG_SECONDS = 400

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
    """A test did not end in its time; where every thread stood is on stderr."""

    __test__ = False


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Fails a test that waits for something that never comes, instead of waiting with it."""
    processes = {"faults", "blackbox", "browser", "packaging", "docs"} & set(item.path.parts)
    seconds = SLOW_HANG_SECONDS if processes or item.get_closest_marker("slow") else HANG_SECONDS

    def ring(_number: int, _frame: FrameType | None) -> None:
        faulthandler.dump_traceback(sys.__stderr__ or 2)
        raise TestHung(f"no end after {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
