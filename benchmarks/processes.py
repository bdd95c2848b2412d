"""Processes that benchmarks measure: Lineloop's commands and small yardsticks, each on a free port."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

START_SECONDS = 60.0
POLL_SECONDS = 0.002

Ready = dict[str, Any]


def environment(**extra: str) -> dict[str, str]:
    """Without settings of ours, and with bytecode caches for both sides, as an installed program has them."""
    hidden = ("LINELOOP_", "PYTHONDONTWRITEBYTECODE")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    return {**clean, "LINELOOP_MODEL": "demo", **extra}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(command: Sequence[str], log: Path, **extra: str) -> subprocess.Popen[bytes]:
    with log.open("ab") as sink:
        return subprocess.Popen(
            [sys.executable, *command], stdout=sink, stderr=sink, env=environment(**extra)
        )


def stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


async def ready(process: subprocess.Popen[bytes], path: Path, log: Path) -> Ready:
    """Waits for a ready file. Raises RuntimeError when the process ends or takes too long."""
    end = time.monotonic() + START_SECONDS
    while not path.exists():
        if process.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f"not ready: {log.read_text()[-3000:]}")
        await asyncio.sleep(POLL_SECONDS)
    return json.loads(path.read_text())


async def listening(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Waits until something accepts connections on a port."""
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"not listening: {log.read_text()[-3000:]}") from None
            await asyncio.sleep(POLL_SECONDS)
        else:
            writer.close()
            return


@asynccontextmanager
async def lineloop(folder: Path, name: str, *arguments: str, **extra: str) -> AsyncGenerator[Ready]:
    """One `lineloop` command with a data directory of its own in `folder`, until the block ends."""
    ready_file, log = folder / f"{name}.ready.json", folder / f"{name}.log"
    common = ["--data-dir", str(folder / f"{name}-data"), "--ready-file", str(ready_file)]
    process = start(["-m", "lineloop.cli", *arguments, *common], log, **extra)
    try:
        yield await ready(process, ready_file, log)
    finally:
        stop(process)
