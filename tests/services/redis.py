"""A Redis of a test's own: from an installed binary, on a free port, without anything on disk."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

USUAL_PLACES = ("/usr/bin", "/usr/local/bin", "/usr/sbin", "/opt/homebrew/bin", "/opt/redis/bin")
START_SECONDS = 10.0


@cache
def redis_program() -> str | None:
    """On PATH, in the usual places, or Debian's package where this process may install it."""
    return _found() or _installed()


def _found() -> str | None:
    path = os.pathsep.join((os.environ.get("PATH", ""), *USUAL_PLACES))
    return shutil.which("redis-server", path=path)


def _installed() -> str | None:
    if os.geteuid() != 0 or not Path("/etc/debian_version").exists() or not shutil.which("apt-get"):
        return None
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", "redis-server"]):
        subprocess.run(["apt-get", *command], env=environment, check=False, capture_output=True, timeout=600)
    return _found()


def require_redis() -> str:
    """The program. Without one a visible skip; in CI a failure."""
    program = redis_program()
    if program is None:
        words = "no redis-server: install Redis 7 (Debian: apt-get install redis-server)"
        if os.environ.get("CI"):
            pytest.fail(words)
        pytest.skip(words)
    return program


class RedisProcess:
    """`start` and `kill` as often as a test likes: the address stays, what was in it does not."""

    def __init__(self, folder: Path) -> None:
        self._program = require_redis()
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> Self:
        options = ["--bind", "127.0.0.1", "--port", str(self.port), "--save", "", "--appendonly", "no"]
        with (self._folder / "redis.log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._program, *options, "--dir", str(self._folder)], stdout=log, stderr=log
            )
        until = time.monotonic() + START_SECONDS
        while self.command("PING") != b"+PONG\r\n":
            if self._process.poll() is not None or time.monotonic() > until:
                raise RuntimeError((self._folder / "redis.log").read_text()[-2000:])
            time.sleep(0.01)
        return self

    def command(self, *words: str) -> bytes | None:
        """The raw start of the answer; None when there is none within a second."""
        text = f"*{len(words)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in words)
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1.0) as connection:
                connection.sendall(text.encode())
                return connection.recv(65536)
        except OSError:
            return None

    def kill(self) -> None:
        """kill -9. Repeating is harmless."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop_time(self) -> None:
        """SIGSTOP: connections stay, nobody answers."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
