"""Starting, stopping and the ten-line operator, from outside."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.blackbox.system import Json, System, eventually

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    system = System(tmp_path)
    yield system
    system.close()


def lineloop(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("LINELOOP_")}
    command = [sys.executable, "-m", "lineloop.cli", *arguments]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=60, env={**clean, **environment}
    )


def run_operator(system: System, fault: str = "") -> subprocess.Popen[bytes]:
    token = system.call("POST", "/tokens", {"actor": {"kind": "operator", "key": "echo"}})["token"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("LINELOOP_")}
    environment |= {"LINELOOP_SERVER": system.ready["server_url"], "LINELOOP_TOKEN": token}
    if fault:
        environment |= {"LINELOOP_FAULT": fault, "LINELOOP_ALLOW_FAULTS": "1"}
    command = [sys.executable, "-m", "lineloop.cli", "run", str(EXAMPLES / "echo.py")]
    with system.log_file.open("ab") as log:
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log)


def answers(system: System, conversation: str, count: int) -> list[Json]:
    def seen() -> list[Json] | None:
        items = system.call("GET", f"/conversations/{conversation}/messages?limit=200")["items"]
        mine = [m for m in items if m["actor"] == {"kind": "operator", "key": "echo"}]
        return mine if len(mine) >= count else None

    return eventually(seen, f"{count} answers of echo", 40)


def tell_echo(system: System, conversation: str, text: str) -> None:
    target = {"kind": "operator", "key": "echo"}
    body = {"key": f"say {text}", "text": text, "target": target}
    system.call("POST", f"/conversations/{conversation}/messages", body)


@pytest.mark.requirement("L50")
def test_the_ten_line_operator_answers_no_message_twice_after_kill_9_between_speak_and_commit(
    system: System,
) -> None:
    system.start()
    conversation = system.call("POST", "/conversations", {"name": "echo"})["id"]
    first = run_operator(system, fault="operator.turn.commit.before:kill")
    try:
        tell_echo(system, conversation, "one")
        assert first.wait(40) == -9
        assert len(answers(system, conversation, 1)) == 1
        second = run_operator(system)
        try:
            tell_echo(system, conversation, "two")
            said = answers(system, conversation, 2)
            texts = [m["content"]["blocks"][0]["content"] for m in said]
            assert texts == ["You said: one", "You said: two"]
            time.sleep(0.5)
            assert len(answers(system, conversation, 2)) == 2
        finally:
            second.kill()
            second.wait()
    finally:
        first.kill()
        first.wait()


def test_the_ready_file_is_private_and_goes_away_on_a_graceful_stop(system: System) -> None:
    system.start()
    assert stat.S_IMODE(system.ready_file.stat().st_mode) == 0o600
    assert system.ready["pid"] == system.pid
    wanted = {"server_url", "shell_url", "shell_code", "admin_token", "device_key", "pid"}
    assert wanted <= system.ready.keys()
    begun = time.monotonic()
    assert system.stop() == 0
    assert time.monotonic() - begun < 10
    assert not system.ready_file.exists()


def test_a_second_process_on_the_same_data_is_told_who_holds_it(system: System) -> None:
    system.start()
    second = lineloop("up", "--data-dir", str(system.data_dir), "--server-port", "0", "--no-open")
    assert second.returncode in (1, 75)
    assert str(system.pid) in second.stderr
    assert "Traceback" not in second.stderr


def test_a_taken_port_is_named(system: System, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        refused = lineloop("up", "--data-dir", str(tmp_path / "other"), "--server-port", port, "--no-open")
    assert refused.returncode in (1, 75)
    assert port in refused.stderr
    assert "Traceback" not in refused.stderr


def test_the_audit_tells_the_story_of_a_call_and_unknown_ids_exit_3(system: System) -> None:
    system.start()
    missing = lineloop("audit", "--call", "no-such-call", "--data-dir", str(system.data_dir), "--json")
    assert missing.returncode == 3
    sites = lineloop("doctor", "--fault-sites", "--json")
    assert sites.returncode == 0
    assert "device.accept.before_commit" in sites.stdout
