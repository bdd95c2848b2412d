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
from pathlib import Path

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


async def kill_at_random(servers: list[ServerProcess], every_seconds: float, dice: random.Random) -> None:
    """Until cancelled: now and then one server is killed and started again. Ends with all of them running."""
    while True:
        await asyncio.sleep(every_seconds * dice.uniform(0.5, 1.5))
        coming_back = asyncio.ensure_future(_pull_the_plug(dice.choice(servers), dice.uniform(0.0, 0.5)))
        try:
            await asyncio.shield(coming_back)
        except asyncio.CancelledError:
            await coming_back
            raise


async def _pull_the_plug(victim: ServerProcess, seconds: float) -> None:
    victim.kill()
    await asyncio.sleep(seconds)
    await victim.start()
