"""The shell of a running system, seen from outside: who gets in, what survives kill -9, what stays secret."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.blackbox.system import Agent, System, eventually
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from lineloop.testing.shell_page import PageProof

pytestmark = pytest.mark.slow

HELLO: dict[str, Any] = {"tab": "t", "visible": True, "focused": True, "language": "en", "versions": [3]}


@pytest.fixture
def system(tmp_path: Path) -> Generator[System]:
    made = System(tmp_path, "web")
    try:
        yield made.start()
    finally:
        made.close()


@contextmanager
def a_page(system: System, secret: str) -> Generator[Page]:
    """A page that was let in."""
    url: str = system.ready["shell_url"]
    origin = Origin(url.rstrip("/"))
    with connect(f"ws{url.removeprefix('http')}shell", origin=origin, max_size=None) as socket:
        page = Page(socket)
        proof = PageProof(secret, url)
        challenge = page.ask("hello", **proof.hello, **HELLO)
        page.welcome = page.ask("prove", proof=proof.answer(challenge))
        page.key = proof.key
        yield page


class Page:
    """One page, read when it is asked for something."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.parts: dict[str, Any] = {}
        self.welcome: dict[str, Any] = {}
        self.key = ""

    def tell(self, kind: str, **payload: Any) -> None:
        self.socket.send(json.dumps({"v": 1, "type": kind, "payload": payload}))

    def ask(self, kind: str, /, **payload: Any) -> Any:
        self.socket.send(json.dumps({"v": 1, "id": kind, "type": kind, "payload": payload}))
        while True:
            frame = self._next()
            if frame.get("reply_to") == kind:
                assert "ok" in frame, frame
                return frame["ok"]

    def _next(self) -> dict[str, Any]:
        frame = json.loads(self.socket.recv(20))
        if frame.get("type") in ("workspace", "connection"):
            self.parts[frame["type"]] = frame["payload"]
        return frame

    def foreground(self) -> dict[str, Any]:
        """The instance that the person should see, once there is one."""
        while not self.parts.get("workspace", {}).get("foreground"):
            self._next()
        place = self.parts["workspace"]["foreground"]
        return self.parts["workspace"]["conversations"][place["conversation_id"]]["stack"][-1]

    def shows(self) -> dict[str, Any]:
        instance = self.foreground()
        self.tell(
            "surface.shown",
            **{name: instance[name] for name in ("instance_id", "activation_id", "generation")},
        )
        return instance


def lineloop(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lineloop.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_page_and_its_timer_survive_kill_9(system: System) -> None:
    agent = Agent(system, "timekeeper")
    with a_page(system, system.ready["shell_code"]) as page:
        agent.invoke("pomodoro.start", {"minutes": 5}, "call-1")
        shown = page.shows()
        agent.wait_for("call-1", "started")
        system.keep_ports()
        system.kill()
    system.start()
    with a_page(system, page.key) as again:
        back = again.foreground()
        assert (back["instance_id"], back["confirmed"]) == (shown["instance_id"], True)


def test_open_prints_a_link_that_lets_in_once(system: System) -> None:
    answer = lineloop("open", "--data-dir", str(system.data_dir), "--no-open")
    assert answer.returncode == 0, answer.stderr
    link = answer.stdout.strip()
    assert link.startswith(system.ready["shell_url"] + "#code=")
    with a_page(system, link.partition("=")[2]) as page:
        assert page.welcome["host_session_id"]


def test_open_says_when_nothing_runs(tmp_path: Path) -> None:
    answer = lineloop("open", "--data-dir", str(tmp_path / "none"), "--no-open")
    assert answer.returncode == 3
    assert "lineloop up" in answer.stderr


@pytest.mark.requirement("H09")
@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs /proc")
def test_h09_the_listeners_are_on_loopback_only(system: System) -> None:
    ours = {str(fd.readlink()) for fd in Path(f"/proc/{system.pid}/fd").iterdir()}
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        if words[3] == "0A" and f"socket:[{words[9]}]" in ours:
            assert words[1].startswith("0100007F:"), line
    sockets = Path(f"/proc/{system.pid}/net/tcp6")
    listening = [line.split() for line in sockets.read_text().splitlines()[1:]] if sockets.exists() else []
    assert not [words for words in listening if words[3] == "0A" and f"socket:[{words[9]}]" in ours]


@pytest.mark.requirement("H08")
def test_h08_no_code_or_key_is_in_logs_arguments_or_refusals(system: System) -> None:
    with a_page(system, system.ready["shell_code"]) as page:
        key = page.key
    opened = lineloop("open", "--data-dir", str(system.data_dir), "--no-open").stdout.strip()
    arguments = Path(f"/proc/{system.pid}/cmdline").read_bytes().decode()
    environment = Path(f"/proc/{system.pid}/environ").read_bytes().decode()
    said = system.log_file.read_text()
    for secret in (system.ready["shell_code"], key, opened.partition("=")[2]):
        assert secret
        assert secret not in arguments + environment + said
    database = system.data_dir / "device/device.sqlite3"
    for file in database.parent.iterdir():
        if file.is_file():
            assert key.encode() not in file.read_bytes(), file


@pytest.mark.requirement("X05")
def test_x05_control_characters_of_an_app_are_encoded_in_logs(system: System) -> None:
    message = 'fine\r\n{"event":"forged"}\x1b[2J\u202e'
    with a_page(system, system.ready["shell_code"]) as page:
        conversation = system.call("POST", "/conversations", {"name": "somewhere"})["id"]
        page.ask("apps.launch", app_scope="pomodoro", conversation_id=conversation)
        opened = page.ask("surface.open", instance_id=page.foreground()["instance_id"])
        hello = {"v": 1, "id": "1", "type": "hello", "payload": {"sdk": "t", "nonce": opened["nonce"]}}
        says = {"v": 1, "type": "diagnostics.log", "payload": {"level": "in\nfo", "message": message}}
        for frame in (hello, says):
            page.tell("frame", launch=opened["launch"], text=json.dumps(frame))
        eventually(lambda: "surface_says" in system.log_file.read_text(), "what the surface says")
    said = system.log_file.read_text()
    lines = [json.loads(line) for line in said.splitlines()]
    (line,) = [line for line in lines if line["event"] == "surface_says"]
    assert line["message"] == message
    assert not [line for line in lines if line["event"] == "forged"]
    assert "\x1b" not in said


@pytest.mark.requirement("H15")
def test_h15_without_a_credential_there_is_nothing_but_the_static_shell(system: System) -> None:
    for name in ("ready.json", "ports.json", "credentials.json", "device/control.json"):
        assert stat.S_IMODE((system.data_dir / name).stat().st_mode) == 0o600, name
    url = system.ready["shell_url"]
    with httpx.Client() as client:
        assert "<div" in client.get(url).text
        for path in ("api", "v1/conversations", "ready.json", "shell", "apps", "static/index.html"):
            assert client.get(url + path).status_code == 404, path


def test_a_stop_says_goodbye_to_open_pages(system: System) -> None:
    with a_page(system, system.ready["shell_code"]) as page:
        assert system.stop() == 0
        with pytest.raises(ConnectionClosed):
            while True:
                page.socket.recv(10)
        assert page.socket.close_code == 4503
