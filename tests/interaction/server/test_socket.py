"""The link over a real socket: hello, push, batch, refusal, and an oversize frame."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin

TOKEN = "token-of-the-test"
SCRIPT = Path(__file__).parents[2] / "faults/server/serving.py"


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    database = tmp_path_factory.mktemp("socket") / "server.db"
    command = [sys.executable, str(SCRIPT), str(database), TOKEN, ""]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())
        process.kill()


@pytest.fixture
def http(port: int) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {TOKEN}"}
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers) as client:
        yield client


def test_a_link_over_a_socket_pushes_and_answers(port: int, http: httpx.Client) -> None:
    actor = {"kind": "operator", "key": "echo"}
    token = http.post("/v1/tokens", json={"actor": actor}).json()["token"]
    conversation = http.post("/v1/conversations", json={}).json()["id"]
    with connect(f"ws://127.0.0.1:{port}/v1/link") as socket:
        socket.send(json.dumps({"hello": {"token": token, "protocol": 1}}))
        assert json.loads(socket.recv())["hello"]["actor"] == actor
        body = {"key": "a", "text": "hi", "target": actor}
        spoken = http.post(f"/v1/conversations/{conversation}/messages", json=body).json()
        assert json.loads(socket.recv())["deliver"] == [spoken]
        item = {"conversation_id": conversation, "key": "b", "text": "yo"}
        commit = {"conversation_id": conversation, "position": 1}
        socket.send(json.dumps({"id": 7, "speak": [item], "commit": [commit]}))
        answer = json.loads(socket.recv())
        assert (answer["id"], answer["results"][1]) == (7, {"ok": True})
        assert answer["results"][0]["message"]["key"] == "b"


@pytest.mark.parametrize(
    ("hello", "code"),
    [
        ({"hello": {"token": "nonsense", "protocol": 1}}, "unauthorized"),
        ({"hello": {"token": TOKEN, "protocol": 99}}, "protocol_version_unsupported"),
        ({"speak": []}, "invalid_request"),
    ],
)
def test_a_refused_link_is_told_why_and_closed(port: int, hello: Any, code: str) -> None:
    with connect(f"ws://127.0.0.1:{port}/v1/link") as socket:
        socket.send(json.dumps(hello))
        assert json.loads(socket.recv())["error"]["code"] == code
        with pytest.raises(ConnectionClosed):
            socket.recv()


def test_a_page_of_another_origin_gets_no_link(port: int) -> None:
    address, origin = f"ws://127.0.0.1:{port}/v1/link", Origin("http://evil.example")
    with pytest.raises(InvalidStatus) as refused, connect(address, origin=origin):
        pass
    assert refused.value.response.status_code == 403
