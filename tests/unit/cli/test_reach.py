"""Which server gets which credential, and finding a system that came back on another port."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lineloop.cli.commands import app
from lineloop.cli.failures import CommandFailed, Exit
from lineloop.cli.following import FollowingTransport
from lineloop.cli.reach import admin_transport, own_server, person_transport
from lineloop.cli.running import Ready, ReadyFiles, find_running
from lineloop.protocol.errors import ConnectionLost, LoopError
from lineloop.settings import Settings

ADMIN = "admin-secret-of-the-data-directory"
OPERATOR = """
from lineloop import Operator

operator = Operator("mine", display_name="Mine")


@operator.reconcile
async def reconcile(turn):
    pass
"""


class Listener:
    """An HTTP server that answers everything with `{}` and keeps what it heard."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.url = ""

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heard.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"
            b"Connection: close\r\n\r\n{}"
        )
        await writer.drain()
        writer.close()

    async def stop(self) -> None:
        self._server.close()
        await self._server.wait_closed()


@pytest.fixture
async def listeners() -> AsyncIterator[tuple[Listener, Listener]]:
    pair = Listener(), Listener()
    for listener in pair:
        await listener.start()
    yield pair
    for listener in pair:
        await listener.stop()


def announce(data_dir: Path, url: str) -> Ready:
    ready = Ready(url, None, None, ADMIN, "dev", os.getpid())
    ReadyFiles(data_dir, None).write(ready)
    return ready


COMMANDS = (
    ("chat", "hello"),
    ("chat",),
    ("chat", "--dismiss"),
    ("run", "{file}"),
    ("device",),
    ("token", "list"),
    ("token", "create", "--actor", "operator/x"),
    ("token", "revoke", "tok_1"),
)


@pytest.mark.parametrize("by_environment", [False, True])
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
async def test_no_command_gives_the_directorys_credentials_to_a_server_that_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    listeners: tuple[Listener, Listener],
    words: tuple[str, ...],
    by_environment: bool,
) -> None:
    own, other = listeners
    announce(tmp_path / "data", own.url)
    file = tmp_path / "mine.py"
    file.write_text(OPERATOR)
    monkeypatch.setattr("lineloop.cli.run.set_up_logs", lambda *_: None)
    monkeypatch.delenv("LINELOOP_TOKEN", raising=False)
    line = [word.format(file=file) for word in words] + ["--data-dir", str(tmp_path / "data")]
    if by_environment:
        monkeypatch.setenv("LINELOOP_SERVER", other.url)
    else:
        line += ["--server", other.url]
    answer = await asyncio.to_thread(CliRunner().invoke, app, line)
    assert answer.exit_code == Exit.USAGE, answer.stderr
    assert "token" in answer.stderr
    assert other.heard == []
    assert own.heard == []


@pytest.mark.parametrize("kind", ["person", "admin"])
async def test_the_directorys_own_address_may_be_named(
    tmp_path: Path, listeners: tuple[Listener, Listener], kind: str
) -> None:
    own, _ = listeners
    announce(tmp_path, own.url)
    settings = Settings(tmp_path, server=f"{own.url}/")
    if kind == "person":
        transport = person_transport(settings)
        await transport.request("GET", "/v1/x")
        await transport.close()
    else:
        async with admin_transport(settings) as transport:
            await transport.request("GET", "/v1/x")
    assert f"Bearer {ADMIN}" in own.heard[0]


@pytest.mark.parametrize(
    "named",
    ["http://{at}@evil.example", "http://u@{at}", "https://{at}", "http://{at}/x", "http://[", "{at}"],
)
def test_what_only_looks_like_the_own_address_is_another(tmp_path: Path, named: str) -> None:
    ready = announce(tmp_path, "http://127.0.0.1:8100")
    settings = Settings(tmp_path, server=named.format(at="127.0.0.1:8100"))
    with pytest.raises(CommandFailed, match="no credential") as refused:
        own_server(settings, "no credential")
    assert refused.value.code is Exit.USAGE
    assert own_server(replace(settings, server="http://127.0.0.1:8100"), "") == ready


async def test_a_system_that_came_back_on_another_port_is_found(
    tmp_path: Path, listeners: tuple[Listener, Listener]
) -> None:
    before, after = listeners
    ready = announce(tmp_path, before.url)
    transport = FollowingTransport(tmp_path, ready, lambda found: found.admin_token)
    await transport.request("GET", "/v1/first")
    await before.stop()
    with pytest.raises(ConnectionLost):
        await transport.request("GET", "/v1/lost")
    announce(tmp_path, after.url)
    await transport.request("GET", "/v1/second")
    async with transport.lines("/v1/third"):
        pass
    await transport.close()
    assert [head.split()[1] for head in after.heard] == ["/v1/second", "/v1/third"]
    assert all(f"Bearer {ADMIN}" in head for head in after.heard)


async def test_links_and_streams_look_again_too(tmp_path: Path, listeners: tuple[Listener, Listener]) -> None:
    before, after = listeners
    ready = announce(tmp_path, before.url)
    transport = FollowingTransport(tmp_path, ready, lambda _: "mine")
    await before.stop()
    with pytest.raises(ConnectionLost):
        await transport.open_link()
    assert find_running(tmp_path) == ready
    announce(tmp_path, after.url)
    with pytest.raises(LoopError, match="answered 200"):  # found, though it offers no link
        await transport.open_link()
    assert "/v1/link" in after.heard[0]
    await transport.close()
