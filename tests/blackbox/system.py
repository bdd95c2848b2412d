"""A running Lineloop seen from outside: a process, its ready file, HTTP. Knows only the names of the wire."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

Json = dict[str, Any]
T = TypeVar("T")

START_SECONDS = 60.0
ANSWER_SECONDS = 20.0


class Refused(Exception):
    """The server answered with a problem document."""

    def __init__(self, status: int, problem: Json) -> None:
        super().__init__(f"{status}: {problem}")
        self.status = status
        self.problem = problem


def eventually(probe: Callable[[], T | None], what: str, seconds: float = ANSWER_SECONDS) -> T:
    """The first answer of `probe` that is neither None nor empty; fails loudly after `seconds`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        answer = probe()
        if answer:
            return answer
        time.sleep(0.02)
    raise AssertionError(f"not seen within {seconds} s: {what}")


class System:
    """`lineloop up` on one data directory, restartable; headless unless a test names another host."""

    def __init__(self, folder: Path, host: str = "headless", ports: tuple[int, int] = (0, 0)) -> None:
        self.host = host
        self.model: str | None = "demo"
        self.ports = ports
        self.data_dir = folder / "data"
        self.ready_file = folder / "ready.json"
        self.log_file = folder / "log.txt"
        self._process: subprocess.Popen[bytes] | None = None
        self.ready: Json = {}

    def start(self, fault: str = "") -> System:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("LINELOOP_")}
        if self.model is not None:
            environment["LINELOOP_MODEL"] = self.model
        if fault:
            environment |= {"LINELOOP_FAULT": fault, "LINELOOP_ALLOW_FAULTS": "1"}
        self.ready_file.unlink(missing_ok=True)
        command = [sys.executable, "-m", "lineloop.cli", "up", "--data-dir", str(self.data_dir)]
        command += ["--server-port", str(self.ports[0]), "--shell-port", str(self.ports[1])]
        command += ["--host", self.host, "--no-open"]
        command += ["--ready-file", str(self.ready_file)]
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        self.ready = eventually(self._read_ready, f"ready file; see {self.log_file}", START_SECONDS)
        return self

    def _read_ready(self) -> Json | None:
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError(
                f"ended with {self._process.returncode}:\n{self.log_file.read_text()[-4000:]}"
            )
        return json.loads(self.ready_file.read_text()) if self.ready_file.exists() else None

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def keep_ports(self) -> None:
        """Started again it is where its pages look for it."""
        server, shell = (urlsplit(self.ready[name]).port for name in ("server_url", "shell_url"))
        assert server is not None
        assert shell is not None
        self.ports = server, shell

    def kill(self) -> None:
        """kill -9, as if the plug was pulled."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def died(self, seconds: float = ANSWER_SECONDS) -> int:
        """Waits for the process to end by itself (a fault site) and tells how."""
        assert self._process is not None
        return self._process.wait(seconds)

    def stop(self) -> int:
        """SIGTERM; answers the exit code."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        return self._process.wait(15)

    def close(self) -> None:
        if self.alive:
            self.kill()

    def call(self, method: str, path: str, body: Json | None = None, token: str | None = None) -> Any:
        """One HTTP call under /v1; raises Refused for a problem document."""
        return self.call_root(method, "/v1" + path, body, token)

    def call_root(self, method: str, path: str, body: Json | None = None, token: str | None = None) -> Any:
        """One HTTP call to any path of the server; raises Refused for a problem document."""
        request = urllib.request.Request(self.ready["server_url"] + path, method=method)
        request.add_header("Authorization", f"Bearer {token or self.ready['admin_token']}")
        data = None
        if body is not None:
            request.add_header("Content-Type", "application/json")
            data = json.dumps(body).encode()
        try:
            with urllib.request.urlopen(request, data, timeout=30) as answer:
                raw = answer.read()
        except urllib.error.HTTPError as refusal:
            raise Refused(refusal.code, json.loads(refusal.read())) from None
        return json.loads(raw) if raw else None


class Agent:
    """An outside program that acts as `operator/<key>` with a token of its own."""

    def __init__(self, system: System, key: str) -> None:
        self.system = system
        self.actor = {"kind": "operator", "key": key}
        self.token: str = system.call("POST", "/tokens", {"actor": self.actor})["token"]
        self.conversation: str = system.call("POST", "/conversations", {"name": "black box"})["id"]
        self.greet()

    def greet(self) -> None:
        """The person speaks to the agent, which makes it take part; the device then publishes to it."""
        body = {"key": "greeting", "text": "hello", "target": self.actor}
        self.system.call("POST", f"/conversations/{self.conversation}/messages", body)

    def messages(self, **query: str) -> list[Json]:
        return list(self._pages(query))

    def _pages(self, query: dict[str, str]) -> Iterator[Json]:
        after = ""
        while True:
            arguments = "&".join(
                f"{k}={v}" for k, v in {**query, **({"after": after} if after else {})}.items()
            )
            path = f"/conversations/{self.conversation}/messages?{arguments}"
            page = self.system.call("GET", path, token=self.token)
            yield from page["items"]
            if not page["next"]:
                return
            after = page["next"]

    def inventory(self) -> Json:
        """The newest inventory published to this agent here."""

        def newest() -> Json | None:
            mine = [m for m in self.messages(purpose="inventory") if m["target"] == self.actor]
            return envelope_of(mine[-1])["payload"] if mine else None

        return eventually(newest, "inventory")

    def invoke(self, method: str, params: Json, call_id: str, **changes: Any) -> Json:
        """Speaks one lineup.tool.invoke; the answer is the stored message."""
        scope, _, _ = method.partition(".")
        envelope: Json = {
            "v": 1,
            "id": f"env-{changes.get('key', call_id)}",
            "type": "lineup.tool.invoke",
            "timestamp": "2026-01-01T00:00:00Z",
            "sender": {"kind": "agent", "id": f"operator/{self.actor['key']}"},
            "target": {"kind": "runtime", "app_scope": scope},
            "scope": {"app_scope": scope, "conversation_id": self.conversation},
            "correlation": {
                "call_id": call_id,
                "inventory_revision": changes.get("revision") or self.inventory()["revision"],
            },
            "payload": {"app_scope": scope, "method": method, "contract_version": "1", "params": params},
        }
        return self.speak_envelope(envelope, changes.get("key", call_id))

    def speak_envelope(self, envelope: Json, key: str) -> Json:
        block = {"id": "envelope", "type": "envelope", "envelope": envelope}
        body = {
            "key": key,
            "target": {"kind": "runtime", "key": self.system.ready["device_key"]},
            "content": {"version": "1.1", "biz": "chat", "meta": {}, "blocks": [block]},
        }
        path = f"/conversations/{self.conversation}/messages"
        return self.system.call("POST", path, body, token=self.token)

    def answers(self, call_id: str) -> list[Json]:
        """Every envelope the device has spoken about a call, in the order of the conversation."""
        spoken = self.messages(purpose="envelope", call_id=call_id)
        return [envelope_of(m) for m in spoken if m["actor"]["kind"] == "runtime"]

    def stages(self, call_id: str) -> list[str]:
        """The call's story in words: receipt stages, then `result:<outcome>` or `error:<code>`."""
        return [story(envelope) for envelope in self.answers(call_id)]

    def wait_for(self, call_id: str, stage: str, seconds: float = ANSWER_SECONDS) -> list[str]:
        def seen() -> list[str] | None:
            stages = self.stages(call_id)
            return stages if stage in stages else None

        return eventually(seen, f"{stage} of {call_id}; seen {self.stages(call_id)}", seconds)


def envelope_of(message: Json) -> Json:
    return message["content"]["blocks"][0]["envelope"]


def story(envelope: Json) -> str:
    payload = envelope["payload"]
    match envelope["type"]:
        case "lineup.tool.result":
            return f"result:{payload['result'].get('outcome')}"
        case "lineup.tool.error":
            return f"error:{payload['code']}"
        case _:
            return payload["stage"]
