"""What /openapi.json says is what the server does: schemathesis asks every route what nobody would.

`openapi.toml` holds what the tool cannot know. LINELOOP_TEST_N asks for so many cases of every route, and
for sequences of them; without it every rule of every schema is kept and broken once.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from lineloop.cli.listening import served
from lineloop.server.app import Server
from lineloop.server.settings import Rates, ServerSettings
from lineloop.testing.databases import server_database

TOKEN = "token-of-the-test"
HERE = Path(__file__).parent
PROGRAM = Path(sys.executable).with_name("schemathesis")
LONGEST_SECONDS = 380.0
CASES = os.environ.get("LINELOOP_TEST_N", "")


@pytest.fixture
async def url(tmp_path: Path) -> AsyncGenerator[str]:
    """A server with something in it that takes any number of requests."""
    server = Server(
        ServerSettings(
            server_database(tmp_path / "server.db"),
            admin_token=TOKEN,
            blobs=tmp_path / "blobs",
            rates=Rates(person=None, stranger=None),
        )
    )
    await server.start()
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    try:
        async with served(server.asgi, listener):
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
            await server.drain(1.0)
    finally:
        await server.close()


async def asked(url: str, folder: Path, *options: str) -> str:
    """What the tool reports. Fails with its report when a check failed or the tool did."""
    command = [str(PROGRAM), "--config-file", str(HERE / "openapi.toml"), "run", f"{url}/openapi.json"]
    command += ["--header", f"Authorization: Bearer {TOKEN}", "--no-color", "--continue-on-failure", *options]
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        async with asyncio.timeout(LONGEST_SECONDS):
            output, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        raise
    text = output.decode(errors="replace")
    assert process.returncode == 0, text
    return text


@pytest.mark.slow(seconds=15)
@pytest.mark.requirement("SV1")
async def test_no_request_is_answered_by_a_server_error_or_by_what_the_document_does_not_say(
    url: str, tmp_path: Path
) -> None:
    if CASES:
        options = ("--max-examples", CASES)
    else:
        # Every rule of every schema, kept and broken; cut off where the machine has too
        # much else to do.
        options = ("--phases", "coverage", "--max-time", "60", "--generation-deterministic")
    report = await asked(url, tmp_path, *options)
    generated = re.search(r"(\d+) generated", report)
    assert generated is not None, report
    assert int(generated[1]) > 100
