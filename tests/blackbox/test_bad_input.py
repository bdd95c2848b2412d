"""Bad input from outside: always the coded answer, nothing stored, the process alive."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.blackbox.system import System

SPEC = json.loads((Path(__file__).parents[2] / "spec/errors.json").read_text())
STATUS = {row["code"]: row["status"] for row in SPEC["errors"]}


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    system = System(tmp_path_factory.mktemp("bad-input")).start()
    yield system
    system.close()


def send(
    system: System, method: str, path: str, body: bytes = b"", **headers: str
) -> tuple[int, dict[str, Any]]:
    """One raw request; `headers` override the good ones (underscores become dashes)."""
    address = urlsplit(system.ready["server_url"])
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=20)
    good = {"Authorization": f"Bearer {system.ready['admin_token']}", "Content-Type": "application/json"}
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body or None, {**good, **given})
    answer = connection.getresponse()
    raw = answer.read()
    connection.close()
    return answer.status, json.loads(raw) if raw else {}


CASES: dict[str, tuple[str, str, bytes, dict[str, str], str]] = {
    "unknown route": ("GET", "/v1/nowhere", b"", {}, "route_not_found"),
    "wrong method": ("DELETE", "/v1/conversations", b"", {}, "method_not_allowed"),
    "wrong token": ("GET", "/v1/conversations", b"", {"Authorization": "Bearer nonsense"}, "unauthorized"),
    "no credential": ("GET", "/v1/conversations", b"", {"Authorization": ""}, "unauthorized"),
    "another host": ("GET", "/v1/conversations", b"", {"Host": "evil.example"}, "host_not_allowed"),
    "another origin": (
        "POST",
        "/v1/conversations",
        b"{}",
        {"Origin": "http://evil.example"},
        "origin_not_allowed",
    ),
    "null origin": ("POST", "/v1/conversations", b"{}", {"Origin": "null"}, "origin_not_allowed"),
    "malformed JSON": ("POST", "/v1/conversations", b'{"name": ', {}, "malformed_json"),
    "not UTF-8": ("POST", "/v1/conversations", b'{"name": "\xff"}', {}, "malformed_json"),
    "not an object": ("POST", "/v1/conversations", b"[1]", {}, "invalid_request"),
    "unknown field": ("POST", "/v1/conversations", b'{"nmae": "x"}', {}, "unknown_field"),
    "wrong type": ("POST", "/v1/conversations", b'{"name": 7}', {}, "invalid_request"),
    "oversize body": (
        "POST",
        "/v1/conversations",
        b'{"name": "' + b"x" * 2_000_000 + b'"}',
        {},
        "limit_exceeded",
    ),
    "missing conversation": ("GET", "/v1/conversations/none", b"", {}, "conversation_not_found"),
    "missing message": ("GET", "/v1/messages/none", b"", {}, "message_not_found"),
    "missing run": ("GET", "/v1/harness/runs/none", b"", {}, "run_not_found"),
    "missing question": ("GET", "/v1/questions/none", b"", {}, "question_not_found"),
    "bad cursor": ("GET", "/v1/conversations?after=%00&limit=-1", b"", {}, "invalid_request"),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_gets_its_code_and_stores_nothing(system: System, case: str) -> None:
    before = system.call("GET", "/conversations")["items"]
    method, path, body, headers, code = CASES[case]
    status, problem = send(system, method, path, body, **headers)
    assert (status, problem.get("code")) == (STATUS[code], code)
    assert {"type", "title", "status", "code", "detail", "retryable"} <= problem.keys()
    assert "Traceback" not in json.dumps(problem)
    assert system.alive
    assert system.call("GET", "/conversations")["items"] == before


def test_a_tokens_actor_cannot_speak_as_another(system: System) -> None:
    token = system.call("POST", "/tokens", {"actor": {"kind": "operator", "key": "small"}})["token"]
    conversation = system.call("POST", "/conversations", {"name": "x"})["id"]
    small = {"kind": "operator", "key": "small"}
    system.call(
        "POST", f"/conversations/{conversation}/messages", {"key": "1", "text": "hi", "target": small}
    )
    body = json.dumps({"key": "k", "text": "I am you", "actor": {"kind": "user", "key": "local"}}).encode()
    path = f"/v1/conversations/{conversation}/messages"
    status, problem = send(system, "POST", path, body, Authorization=f"Bearer {token}")
    assert (status, problem["code"]) == (403, "forbidden")


def test_a_list_of_tokens_never_shows_a_secret(system: System) -> None:
    created = system.call("POST", "/tokens", {"actor": {"kind": "operator", "key": "quiet"}})
    listed = json.dumps(system.call("GET", "/tokens"))
    assert created["id"] in listed
    assert created["token"] not in listed
    assert system.ready["admin_token"] not in listed
    assert created["token"] not in system.log_file.read_text()
    assert system.ready["admin_token"] not in system.log_file.read_text()
