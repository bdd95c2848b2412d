"""A second window on a running system says whose system it is, and that it ended."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from lineloop.cli.beside import chat_beside
from lineloop.cli.failures import CommandFailed, Exit
from lineloop.cli.running import Ready, ReadyFiles
from lineloop.testing import FakeClock

READY = Ready("http://127.0.0.1:1", None, None, "secret", "dev", os.getpid())


async def test_a_chat_on_anothers_system_says_so_and_ends_with_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files, clock = ReadyFiles(tmp_path, None), FakeClock()
    files.write(READY)
    left: list[str] = []

    async def chat() -> int:
        try:
            await asyncio.Event().wait()
        finally:
            left.append("in order")
        return 0

    beside = asyncio.get_running_loop().create_task(chat_beside(tmp_path, READY.pid, chat(), clock))
    await clock.advance(10)
    assert f"process {READY.pid}" in capsys.readouterr().err
    assert not beside.done()
    files.remove()
    await clock.advance(1)
    with pytest.raises(CommandFailed, match=f"process {READY.pid} has ended") as failed:
        await beside
    assert failed.value.code is Exit.TEMPORARY
    assert left == ["in order"]


async def test_leaving_such_a_chat_is_no_failure(tmp_path: Path) -> None:
    ReadyFiles(tmp_path, None).write(READY)

    async def chat() -> int:
        return 0

    assert await chat_beside(tmp_path, READY.pid, chat(), FakeClock()) == 0


async def test_a_wish_to_stop_from_outside_stays_one(tmp_path: Path) -> None:
    ReadyFiles(tmp_path, None).write(READY)
    clock = FakeClock()

    async def chat() -> int:
        await asyncio.Event().wait()
        return 0

    beside = asyncio.get_running_loop().create_task(chat_beside(tmp_path, READY.pid, chat(), clock))
    await clock.advance(0)
    beside.cancel()
    with pytest.raises(asyncio.CancelledError):
        await beside
