"""A database with one table, and child processes that end with the test."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from tests.unit.kit.notes import NOTES

from lineloop.kit.clock import SystemClock
from lineloop.kit.database import Tx
from lineloop.kit.sqlite.database import SqliteDatabase

CHILD = Path(__file__).with_name("kit_child.py")
Child = Callable[[str, Path, str], "subprocess.Popen[str]"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kit.db"


@pytest.fixture
async def database(path: Path) -> AsyncIterator[SqliteDatabase]:
    database = await SqliteDatabase.open(path, clock=SystemClock())
    await database.write(lambda tx: tx.run(NOTES))
    yield database
    await database.close()


@pytest.fixture
async def made(path: Path) -> Path:
    """The path of a closed database file with the table."""
    database = await SqliteDatabase.open(path, clock=SystemClock())
    await database.write(lambda tx: tx.run(NOTES))
    await database.close()
    return path


@pytest.fixture
def child() -> Iterator[Child]:
    children: list[subprocess.Popen[str]] = []

    def start(role: str, path: Path, argument: str = "") -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, str(CHILD), role, str(path), argument],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        children.append(process)
        return process

    yield start
    for process in children:
        process.kill()
        process.communicate()


class Gate:
    """Holds the writer in a job of its own, so that what is submitted meanwhile is one batch."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._open = threading.Event()
        self._database = database

    async def __aenter__(self) -> None:
        entered = threading.Event()

        def hold(_: Tx) -> None:
            entered.set()
            assert self._open.wait(5)

        self._held = self._database.submit(hold)
        await asyncio.to_thread(entered.wait, 5)

    async def __aexit__(self, *_: object) -> None:
        self._open.set()
        await self._held


@pytest.fixture
def gate(database: SqliteDatabase) -> Gate:
    return Gate(database)
