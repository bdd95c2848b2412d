"""kill -9 on both sides of the commits of speak, append, end, poll and commit; a real process each time.

Whatever was acknowledged is there afterwards; what was not is either there once or not at all, and repeating
the request with its key or number settles which.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from lineloop.protocol.fault_sites import FaultSite

TOKEN = "token-of-the-test"
SCRIPT = Path(__file__).with_name("serving.py")
ECHO = {"kind": "operator", "key": "echo"}


class Process:
    """`with Process(folder) as client:` gives an HTTP client of a server that listens."""

    def __init__(self, folder: Path, plan: str = "") -> None:
        command = [sys.executable, str(SCRIPT), str(folder / "server.db"), TOKEN, plan]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        port = int(self._process.stdout.readline())
        self.client = httpx.Client(
            base_url=f"http://127.0.0.1:{port}",
            headers={"authorization": f"Bearer {TOKEN}"},
            timeout=30,
        )

    def __enter__(self) -> httpx.Client:
        return self.client

    def __exit__(self, *_: object) -> None:
        self.client.close()
        if self._process.poll() is None:
            os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


class Story:
    """The same calls again and again, each with its key or number: what a program does that was cut off."""

    def __init__(self, client: httpx.Client, conversation: str = "") -> None:
        self._client = client
        self.conversation = conversation or self._call("POST", "/conversations", {})["id"]

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        answer = self._client.request(method, f"/v1{path}", json=body)
        assert answer.status_code < 300, answer.text
        return answer.json() if answer.content else None

    def run(self) -> None:
        """Input, a streamed answer, its end, poll and commit. Raises httpx.HTTPError when the server dies."""
        here = f"/conversations/{self.conversation}"
        self._call("POST", f"{here}/messages", {"key": "in", "text": "question", "target": ECHO})
        stream = self._call("POST", f"{here}/messages", {"key": "out", "actor": ECHO, "stream": True})
        block = {"id": "t", "type": "text", "content": "an"}
        more = {"op": "append", "seq": 2, "mask": "block.content", "block": {"id": "t", "content": "swer"}}
        patches = [{"op": "set", "seq": 1, "block": block}, more]
        for patch in patches:
            self._call("POST", f"/messages/{stream['id']}/patches", {"patches": [patch]})
        self._call("POST", f"/messages/{stream['id']}/end", {"seq": 3})
        inbox = self._call("POST", f"{here}/poll", {"actor": ECHO})
        if inbox["messages"]:
            self._call("POST", f"{here}/commit", {"actor": ECHO, "position": inbox["position"]})

    def check(self) -> None:
        here = f"/conversations/{self.conversation}"
        messages = self._call("GET", f"{here}/messages")["items"]
        assert [(m["key"], m["ordinal"], m["offset"]) for m in messages] == [("in", 1, 1), ("out", 2, 2)]
        assert messages[1]["content"]["blocks"][0]["content"] == "answer"
        assert (messages[1]["status"], messages[1]["revision"]) == ("completed", 3)
        inbox = self._call("POST", f"{here}/poll", {"actor": ECHO})
        assert (inbox["messages"], inbox["committed"]) == ([], 1)


SITES = [
    site
    for path in ("speak", "append", "end", "poll", "commit_position")
    for site in (f"server.{path}.before_commit", f"server.{path}.after_commit")
]


@pytest.mark.slow
@pytest.mark.parametrize("site", SITES)
def test_a_server_killed_at_a_commit_loses_nothing_and_does_nothing_twice(tmp_path: Path, site: str) -> None:
    assert site in set(FaultSite)
    with Process(tmp_path) as client:
        conversation = Story(client).conversation
    with Process(tmp_path, f"{site}:kill") as client, pytest.raises(httpx.HTTPError):
        Story(client, conversation).run()
    with Process(tmp_path) as client:
        story = Story(client, conversation)
        story.run()
        story.check()


def test_what_was_acknowledged_before_a_kill_is_there_after_it(tmp_path: Path) -> None:
    with Process(tmp_path, "server.append.after_commit:kill:3") as client:
        conversation = client.post("/v1/conversations", json={}).json()["id"]
        path = f"/v1/conversations/{conversation}/messages"
        stream = client.post(path, json={"key": "s", "stream": True}).json()["id"]
        patch = {"op": "append", "mask": "block.content", "block": {"id": "t", "content": "x"}}
        first = {"op": "set", "seq": 1, "block": {"id": "t", "type": "text", "content": ""}}
        assert client.post(f"/v1/messages/{stream}/patches", json={"patches": [first]}).status_code == 202
        with pytest.raises(httpx.HTTPError):
            for seq in range(2, 10):
                client.post(f"/v1/messages/{stream}/patches", json={"patches": [{**patch, "seq": seq}]})
    with Process(tmp_path) as client:
        stored = client.get(f"/v1/messages/{stream}").json()
        # The third append was committed and its acknowledgement lost with the process.
        assert (stored["revision"], stored["content"]["blocks"][0]["content"]) == (3, "xx")
        again = client.post(f"/v1/messages/{stream}/patches", json={"patches": [{**patch, "seq": 3}]})
        assert again.json() == {"revision": 3, "status": "streaming"}
