"""`lineloop serve` as processes that are killed and come back at the same address."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

START_SECONDS = 60.0


class ServerProcess:
    """One server. Its address stays the same over all restarts."""

    def __init__(self, folder: Path, *more: str) -> None:
        self._folder = folder
        self._more = more
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port: int = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"
        self.admin_token = ""
        self.kills = 0
        folder.mkdir(parents=True, exist_ok=True)

    async def start(self) -> None:
        ready = self._folder / "ready.json"
        ready.unlink(missing_ok=True)
        command = [sys.executable, "-m", "lineloop.cli", "serve", "--port", str(self._port)]
        command += ["--data-dir", str(self._folder / "data"), "--ready-file", str(ready), *self._more]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LINELOOP_")}
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)  # noqa: ASYNC220
        async with asyncio.timeout(START_SECONDS):
            while not ready.exists():
                if self._process.poll() is not None:
                    raise RuntimeError((self._folder / "log").read_text()[-4000:])
                await asyncio.sleep(0.02)
        self.admin_token = json.loads(ready.read_text())["admin_token"]

    def kill(self) -> None:
        """kill -9, as if the plug was pulled."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self.kills += 1

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        return self._process.wait(20)

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def log(self) -> str:
        return (self._folder / "log").read_text(errors="replace")


Disturb = Callable[[list[ServerProcess], random.Random], Coroutine[Any, Any, None]]
"""What harms the servers, or what they stand on, until it is cancelled; then everything runs again."""


def killing(every_seconds: float) -> Disturb:
    """Now and then one server is killed and started again."""

    async def disturb(servers: list[ServerProcess], dice: random.Random) -> None:
        while True:
            await asyncio.sleep(every_seconds * dice.uniform(0.5, 1.5))
            await _to_its_end(_pull_the_plug(dice.choice(servers), dice.uniform(0.0, 0.5)))

    return disturb


def pausing(after_seconds: float, seconds: float) -> Disturb:
    """One server stands still for a while: its connections and its locks stay, and it knows nothing of it."""

    async def disturb(servers: list[ServerProcess], dice: random.Random) -> None:
        await asyncio.sleep(after_seconds)
        victim = dice.choice(servers)
        victim.pause()
        try:
            await asyncio.sleep(seconds)
        finally:
            victim.go_on()
        await asyncio.Event().wait()

    return disturb


def repeating(every_seconds: float, harm: Callable[[], None]) -> Disturb:
    """`harm` again and again, in a thread: it blocks until what it harmed runs again."""

    async def disturb(_: list[ServerProcess], __: random.Random) -> None:
        while True:
            await asyncio.sleep(every_seconds)
            await _to_its_end(asyncio.to_thread(harm))

    return disturb


async def _to_its_end(harm: Coroutine[Any, Any, None]) -> None:
    """Also when cancelled meanwhile: nothing is left half harmed."""
    running = asyncio.ensure_future(harm)
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        await running
        raise


async def _pull_the_plug(victim: ServerProcess, seconds: float) -> None:
    victim.kill()
    await asyncio.sleep(seconds)
    await victim.start()
