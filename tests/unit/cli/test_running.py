"""Ready files, ports and credentials of a data directory."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lineloop.cli.credentials import Credentials
from lineloop.cli.failures import CommandFailed, Exit
from lineloop.cli.listening import bind, port_of
from lineloop.cli.running import Ready, ReadyFiles, find_running, read_private, remembered_port
from lineloop.kit.ids import Ids
from lineloop.testing import FakeClock


def ready(pid: int) -> Ready:
    return Ready("http://127.0.0.1:1", None, None, "secret", "dev", pid)


def test_the_ready_file_is_private_complete_and_goes_away(tmp_path: Path) -> None:
    asked = tmp_path / "deep/ready.json"
    files = ReadyFiles(tmp_path, asked)
    files.write(ready(os.getpid()))
    assert stat.S_IMODE(asked.stat().st_mode) == 0o600
    value: dict[str, Any] = json.loads(asked.read_text())
    assert value.keys() == {"server_url", "shell_url", "shell_code", "admin_token", "device_key", "pid"}
    assert find_running(tmp_path) == ready(os.getpid())
    files.remove()
    assert not asked.exists()
    assert find_running(tmp_path) is None


LEAVES_IT_BEHIND = """
import os, signal, sys
from pathlib import Path
from lineloop.cli.running import Ready, ReadyFiles
files = ReadyFiles(Path(sys.argv[1]), None)
files.write(Ready("http://127.0.0.1:1", None, None, "secret", "dev", int(sys.argv[2]) or os.getpid()))
print("written", flush=True)
sys.stdin.readline()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_ready_file_counts_while_its_process_lives_and_not_when_another_has_its_number(
    tmp_path: Path,
) -> None:
    # Our own number stands for one that was given again after kill -9.
    command = [sys.executable, "-c", LEAVES_IT_BEHIND, str(tmp_path), str(os.getpid())]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "written\n"
        assert find_running(tmp_path) == ready(os.getpid())
        child.communicate("now\n")
    assert (tmp_path / "ready.json").exists()
    assert find_running(tmp_path) is None
    ReadyFiles(tmp_path, None).write(ready(os.getpid()))
    assert find_running(tmp_path) == ready(os.getpid())


def test_a_port_is_remembered_and_a_taken_one_is_named(tmp_path: Path) -> None:
    first = bind(None, tmp_path, "server")
    port = port_of(first)
    assert remembered_port(tmp_path, "server") == port
    with pytest.raises(CommandFailed, match=str(port)) as refused:
        bind(port, tmp_path / "other", "server")
    assert refused.value.code is Exit.TEMPORARY
    first.close()
    again = bind(None, tmp_path, "server")
    assert port_of(again) == port
    again.close()


async def test_the_pieces_of_an_answer_do_not_wait_for_each_other_on_any_event_loop(tmp_path: Path) -> None:
    seen: asyncio.Queue[int] = asyncio.Queue()

    class Noting(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            taken: socket.socket = transport.get_extra_info("socket")
            seen.put_nowait(taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    listener = bind(0, tmp_path, "server")
    serving = await asyncio.get_running_loop().create_server(Noting, sock=listener)
    with socket.create_connection(("127.0.0.1", port_of(listener))):
        assert await seen.get() != 0
    serving.close()


def test_a_remembered_port_that_is_taken_is_left_for_another(tmp_path: Path) -> None:
    first = bind(None, tmp_path, "server")
    second = bind(None, tmp_path, "server")
    assert port_of(second) != port_of(first)
    port = port_of(first)
    first.close()
    second.close()
    # Pages of before wait there: it is the first choice of the next start, too.
    third = bind(None, tmp_path, "server")
    assert port_of(third) == port
    third.close()


def test_credentials_are_made_once_and_kept_private(tmp_path: Path) -> None:
    ids = Ids(FakeClock())
    first = Credentials(tmp_path, ids)
    token, device = first.admin_token, first.device_key
    second = Credentials(tmp_path, ids)
    assert (second.admin_token, second.device_key) == (token, device)
    assert stat.S_IMODE((tmp_path / "credentials.json").stat().st_mode) == 0o600


def test_an_unreadable_note_counts_as_absent(tmp_path: Path) -> None:
    (tmp_path / "ports.json").write_text("{broken")
    assert read_private(tmp_path / "ports.json") == {}
    assert remembered_port(tmp_path, "server") is None
