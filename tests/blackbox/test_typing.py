"""A person at a real terminal, who does not wait for the prompt."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.blackbox.system import eventually

SECONDS = 60.0


class Terminal:
    """A command on a pseudo terminal. `screen` is all that it ever wrote."""

    def __init__(self, *arguments: str) -> None:
        self._master, slave = pty.openpty()
        environment = {k: v for k, v in os.environ.items() if not k.startswith("LINELOOP_")}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "lineloop.cli", *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**environment, "LINELOOP_MODEL": "demo", "TERM": "xterm", "COLUMNS": "100", "LINES": "40"},
            start_new_session=True,
        )
        os.close(slave)
        self.screen = ""

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def shows(self, text: str) -> bool:
        while select.select([self._master], [], [], 0.02)[0]:
            try:
                self.screen += os.read(self._master, 65536).decode(errors="replace")
            except OSError:  # the command has ended
                break
        return text in self.screen

    def ended(self) -> int | None:
        self.shows("")
        return self._process.poll()

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(20)
        os.close(self._master)


@contextmanager
def terminal(*arguments: str) -> Generator[Terminal]:
    one = Terminal(*arguments)
    try:
        yield one
    finally:
        one.close()


@pytest.mark.requirement("T1")
@pytest.mark.slow(seconds=4)
def test_what_is_typed_while_the_chat_is_starting_is_said_when_the_prompt_appears(tmp_path: Path) -> None:
    data_dir = str(tmp_path / "data")
    with terminal("up", "--chat", "--host", "headless", "--data-dir", data_dir) as up:
        up.type("tell me of alpacas\n")
        eventually(lambda: up.shows("starting Lineloop"), "it starts", SECONDS)
        up.type("and of llamas\nhalf a li")
        eventually(lambda: up.shows("you typed") or up.shows("demo, not AI"), "an answer", SECONDS)
        with terminal("chat", "--data-dir", data_dir) as chat:
            chat.type("and of vicunas\n/quit\n")
            eventually(lambda: chat.ended() is not None, "the chat ends by what was typed early", SECONDS)
            for said in ("tell me of alpacas", "and of llamas", "and of vicunas"):
                assert chat.shows(said), chat.screen
        up.type("ne\n/quit\n")
        eventually(lambda: up.ended() is not None, "it ends", SECONDS)
        assert up.shows("half a line")
