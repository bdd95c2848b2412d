"""Whoever takes the device's port while it is away learns nothing that lets anybody in."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, expect
from tests.blackbox.system import System, eventually
from tests.browser.shell import Shell
from websockets.sync.server import ServerConnection, serve


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    system = System(tmp_path, "web").start()
    system.keep_ports()
    yield system
    system.close()


@contextmanager
def impostor(port: int, answer: dict[str, Any]) -> Generator[list[str]]:
    """Another program on the port, which answers every request with `answer`; what it was told."""
    heard: list[str] = []

    def listen(connection: ServerConnection) -> None:
        for text in connection:
            heard.append(str(text))
            frame = json.loads(text)
            if "id" in frame:
                connection.send(json.dumps({"v": 1, "reply_to": frame["id"], "ok": answer}))

    with serve(listen, "127.0.0.1", port) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield heard
        finally:
            server.shutdown()
            thread.join()


def test_a_page_says_its_name_only_to_who_took_the_port_and_comes_back_to_the_device(
    system: System, context: BrowserContext
) -> None:
    shell = Shell(system, context).open()
    key = shell.page.evaluate("localStorage.getItem('lineloop.shell.key')")
    assert len(key) >= 43
    system.kill()
    welcome = {"host_session_id": "hs_1", "content_origin": "http://127.0.0.1:1", "heartbeat_ms": 15_000}
    guess = {**welcome, "nonce": "n" * 43, "proof": "0" * 64}
    with impostor(system.ports[1], guess) as heard:
        eventually(lambda: len(heard) >= 2, "the page tries twice", 30.0)
    frames = [json.loads(text) for text in heard]
    assert {frame["type"] for frame in frames} == {"hello"}
    assert not any(key in text for text in heard)
    system.start()
    expect(shell.page.get_by_text("Lineloop is back.")).to_have_count(1, timeout=20_000)
    shell.say("back again")
    shell.expect_said("back again")
    assert shell.page.evaluate("localStorage.getItem('lineloop.shell.key')") == key
    assert shell.errors == []
