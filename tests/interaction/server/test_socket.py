"""The link over a real socket: hello, push, batch, refusal, messages of every form.

Once as our own servers carry it, once as any ASGI server would.
"""

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


@pytest.fixture(scope="module", params=["ours", "plain"])
def port(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    database = tmp_path_factory.mktemp("socket") / "server.db"
    command = [sys.executable, str(SCRIPT), str(database), TOKEN, "", request.param]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())
        process.kill()


@pytest.fixture
def http(port: int) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {TOKEN}"}
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers) as client:
        yield client


def invited(http: httpx.Client, key: str) -> tuple[str, str]:
    """The token of an operator and a conversation in which it takes part."""
    actor = {"kind": "operator", "key": key}
    token = http.post("/v1/tokens", json={"actor": actor}).json()["token"]
    conversation = http.post("/v1/conversations", json={}).json()["id"]
    body = {"key": "hello", "text": "hi", "target": actor}
    http.post(f"/v1/conversations/{conversation}/messages", json=body).raise_for_status()
    return token, conversation


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


def test_messages_in_parts_as_bytes_and_many_at_once_keep_their_order(port: int, http: httpx.Client) -> None:
    token, conversation = invited(http, "parts")

    def frame(number: int, text: str = "yo") -> str:
        item = {"conversation_id": conversation, "key": str(number), "text": text}
        return json.dumps({"id": number, "speak": [item]})

    with connect(f"ws://127.0.0.1:{port}/v1/link") as socket:
        socket.send(json.dumps({"hello": {"token": token, "protocol": 1}}))
        assert "hello" in json.loads(socket.recv())
        for number in range(0, 200, 5):
            socket.send(frame(number))
            socket.send([frame(number + 1)[:20], frame(number + 1)[20:50], frame(number + 1)[50:]])
            socket.send(frame(number + 2).encode())
            socket.send("{")
            socket.send(frame(number + 3, "x" * 70_000))
            socket.ping()
            socket.send(frame(number + 4, "漢字" * 40))
        answers: list[Any] = []
        while len(answers) < 241:
            answers.append(json.loads(socket.recv(10)))
    spoken = [one for one in answers if "results" in one]
    assert [one["id"] for one in spoken] == list(range(200))
    ordinals = [one["results"][0]["message"]["ordinal"] for one in spoken]
    assert ordinals == list(range(2, 202))
    assert [one["error"]["code"] for one in answers if "error" in one] == ["malformed_json"] * 40


@pytest.mark.parametrize("last", [b"\xff\xfe", "x" * (17 * 1024 * 1024)], ids=["no text", "too large"])
def test_who_breaks_the_rules_of_the_socket_is_closed(port: int, http: httpx.Client, last: Any) -> None:
    token, _ = invited(http, "breaker")
    with connect(f"ws://127.0.0.1:{port}/v1/link") as socket:
        socket.send(json.dumps({"hello": {"token": token, "protocol": 1}}))
        assert "hello" in json.loads(socket.recv())
        socket.send(json.dumps({"id": 1, "speak": []}))
        with pytest.raises(ConnectionClosed) as closed:
            socket.send(last, text=True)
            while True:
                socket.recv(10)
    assert closed.value.rcvd is None or closed.value.rcvd.code in (1007, 1009)


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
