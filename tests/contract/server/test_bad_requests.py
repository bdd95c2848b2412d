"""Bad input: the coded answer, nothing stored, the server as well as before."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.contract.server.calls import Json, get, history, speak

from lineloop.protocol.error_codes import ERRORS
from lineloop.testing.server_world import ServerWorld

pytestmark = pytest.mark.slow

CASES: dict[str, tuple[str, str, bytes, dict[str, str], str]] = {
    "unknown route": ("GET", "/v1/nowhere", b"", {}, "route_not_found"),
    "root": ("GET", "/", b"", {}, "route_not_found"),
    "wrong method": ("DELETE", "/v1/conversations", b"", {}, "method_not_allowed"),
    "no token": ("GET", "/v1/conversations", b"", {"authorization": ""}, "unauthorized"),
    "wrong token": ("GET", "/v1/conversations", b"", {"authorization": "Bearer x"}, "unauthorized"),
    "another scheme": ("GET", "/v1/conversations", b"", {"authorization": "Basic eDp5"}, "unauthorized"),
    "another host": ("GET", "/v1/conversations", b"", {"host": "evil.example"}, "host_not_allowed"),
    "host with a trick": (
        "GET",
        "/v1/conversations",
        b"",
        {"host": "127.0.0.1.evil.example"},
        "host_not_allowed",
    ),
    "another origin": (
        "POST",
        "/v1/conversations",
        b"{}",
        {"origin": "http://evil.example"},
        "origin_not_allowed",
    ),
    "another port": (
        "POST",
        "/v1/conversations",
        b"{}",
        {"origin": "http://127.0.0.1:81"},
        "origin_not_allowed",
    ),
    "null origin": ("POST", "/v1/conversations", b"{}", {"origin": "null"}, "origin_not_allowed"),
    "malformed JSON": ("POST", "/v1/conversations", b'{"name":', {}, "malformed_json"),
    "not UTF-8": ("POST", "/v1/conversations", b'{"name":"\xff"}', {}, "malformed_json"),
    "not an object": ("POST", "/v1/conversations", b"[]", {}, "invalid_request"),
    "unknown field": ("POST", "/v1/conversations", b'{"nmae":"x"}', {}, "unknown_field"),
    "wrong type": ("POST", "/v1/conversations", b'{"name":1}', {}, "invalid_request"),
    "bad query": ("GET", "/v1/conversations?limit=0", b"", {}, "invalid_request"),
    "bad actor": ("GET", "/v1/conversations?actor=nobody", b"", {}, "invalid_request"),
    "missing conversation": ("GET", "/v1/conversations/none", b"", {}, "conversation_not_found"),
    "missing message": ("GET", "/v1/messages/none", b"", {}, "message_not_found"),
    "missing question": ("GET", "/v1/questions/none", b"", {}, "question_not_found"),
    "patch of nothing": (
        "POST",
        "/v1/messages/none/patches",
        b'{"patches":[{"op":"ping","seq":1}]}',
        {},
        "message_not_found",
    ),
    "speak into nothing": (
        "POST",
        "/v1/conversations/none/messages",
        b'{"key":"a","text":"x"}',
        {},
        "conversation_not_found",
    ),
    "bad last event id": (
        "GET",
        "/v1/conversations/none/stream",
        b"",
        {"last-event-id": "x"},
        "conversation_not_found",
    ),
}


@pytest.mark.parametrize("case", CASES)
async def test_bad_input_gets_its_code_and_stores_nothing(world: ServerWorld, case: str) -> None:
    method, path, body, headers, code = CASES[case]
    answer = await world.http.request(method, path, content=body, headers=headers)
    problem = answer.json()
    assert (problem["code"], answer.status_code) == (code, ERRORS[code].status)
    assert answer.headers["content-type"] == "application/problem+json"
    assert {"type", "title", "status", "detail", "retryable"} <= problem.keys()
    assert (await get(world.http, "/conversations"))["items"] == []


async def test_every_answer_carries_a_request_id(world: ServerWorld) -> None:
    good, bad = await world.http.get("/v1/actors"), await world.http.get("/v1/nowhere")
    assert good.headers["x-request-id"] != bad.headers["x-request-id"]


@pytest.mark.parametrize(
    ("fields", "limit"),
    [
        ({"key": "k" * 257, "text": "x"}, "key_bytes"),
        ({"key": "é" * 129, "text": "x"}, "key_bytes"),
        ({"key": "k", "text": "x", "meta": {"a": "x" * 33_000}}, "meta_bytes"),
    ],
)
async def test_limits_are_named(world: ServerWorld, fields: dict[str, Any], limit: str) -> None:
    conversation = await world.conversation()
    answer = await world.http.post(f"/v1/conversations/{conversation}/messages", json=fields)
    assert (answer.status_code, answer.json()["code"]) == (413, "limit_exceeded")
    assert answer.json()["context"]["limit"] == limit
    assert await history(world.http, conversation) == []


async def test_the_limits_themselves_are_accepted(world: ServerWorld) -> None:
    conversation = await world.conversation()
    frame = len('{"key":"","text":""}')
    key = "k" * 256
    text = "x" * (1024 * 1024 - frame - len(key))
    raw = json.dumps({"key": key, "text": text}, separators=(",", ":")).encode()
    assert len(raw) == 1024 * 1024
    answer = await world.http.post(f"/v1/conversations/{conversation}/messages", content=raw)
    assert answer.status_code == 201
    answer = await world.http.post(f"/v1/conversations/{conversation}/messages", content=raw + b" ")
    assert answer.json()["context"]["limit"] == "body_bytes"


async def test_an_oversize_body_is_refused_while_it_is_read(world: ServerWorld) -> None:
    """A body without a length is stopped at the limit, not collected first."""
    sent: list[dict[str, Any]] = []
    parts = 0

    async def receive() -> dict[str, Any]:
        nonlocal parts
        parts += 1
        return {"type": "http.request", "body": b"x" * 100_000, "more_body": True}

    async def send(message: Any) -> None:
        sent.append(dict(message))

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/v1/conversations",
        "raw_path": b"/v1/conversations",
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1"), (b"authorization", f"Bearer {world.admin_token}".encode())],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "root_path": "",
    }
    await asyncio.wait_for(world.server.asgi(scope, receive, send), 5)
    assert sent[0]["status"] == 413
    assert parts <= 12


async def test_a_bug_answers_a_coded_problem_without_its_insides(
    world: ServerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("a secret detail")

    monkeypatch.setattr(world.server.services.commits, "speak", broken)
    conversation = await world.conversation()
    answer = await world.http.post(
        f"/v1/conversations/{conversation}/messages", json={"key": "k", "text": "x"}
    )
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert "secret" not in answer.text
    assert answer.json()["context"]["request_id"] == answer.headers["x-request-id"]
    monkeypatch.undo()
    await speak(world.http, conversation, "k")


@pytest.mark.parametrize("depth", [120, 200, 5_000])
async def test_deep_documents_are_stored_or_refused_but_never_break_the_server(
    world: ServerWorld, depth: int
) -> None:
    conversation = await world.conversation()
    nested = '{"a":' * depth + "1" + "}" * depth
    block = f'{{"id":"b","type":"x","v":{nested}}}'
    raw = f'{{"key":"k","content":{{"version":"1.1","biz":"chat","meta":{{}},"blocks":[{block}]}}}}'
    answer = await world.http.post(f"/v1/conversations/{conversation}/messages", content=raw)
    assert answer.status_code in (201, 400, 422)
    await speak(world.http, conversation, "after")


async def test_the_own_origin_and_listed_origins_are_let_in(world: ServerWorld) -> None:
    answer = await world.http.post("/v1/conversations", json={}, headers={"origin": "http://127.0.0.1"})
    assert answer.status_code == 201


async def test_readiness_means_a_commit_and_metrics_count_requests(world: ServerWorld) -> None:
    anyone = world.client()
    assert (await anyone.get("/healthz")).status_code == 200
    before = world.server.db.commits
    assert (await anyone.get("/readyz")).json()["status"] == "ready"
    assert world.server.db.commits == before + 1
    await anyone.get("/v1/nowhere")
    assert (
        'lineloop_http_requests_total{route="none",status="404"} 1.0'
        in (await world.http.get("/metrics")).text
    )
    await world.server.drain(0)
    assert (await anyone.get("/readyz")).status_code == 503


async def test_the_openapi_document_describes_bodies_answers_and_problems(world: ServerWorld) -> None:
    document = (await world.client().get("/openapi.json")).json()
    speak_route = document["paths"]["/v1/conversations/{conversation_id}/messages"]["post"]
    body = speak_route["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    assert body == "#/components/schemas/SpeakBody"
    assert speak_route["responses"]["409"]["content"].keys() == {"application/problem+json"}
    for reference in set(_references(document)):
        assert reference.removeprefix("#/components/schemas/") in document["components"]["schemas"]


def _references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [found for item in value.values() for found in _references(item)]
    if isinstance(value, list):
        return [found for item in value for found in _references(item)]
    return []


BAD_RUNS: dict[str, tuple[Json, str, str]] = {
    "a schema that is none": ({"output_schema": {"type": "nonsense"}}, "invalid_request", "/output_schema"),
    "a schema that points outside": (
        {"output_schema": {"properties": {"a": {"$ref": "file:///etc/passwd"}}}},
        "invalid_request",
        "/output_schema",
    ),
    "a schema that refers to nothing": (
        {"output_schema": {"$ref": "#/$defs/x"}},
        "invalid_request",
        "/output_schema",
    ),
    "a schema that is a list": ({"output_schema": []}, "invalid_request", "/output_schema"),
    "an unknown source of tools": ({"tools": ["inventory", "shell"]}, "invalid_request", "/tools/1"),
    "a source of tools twice": ({"tools": ["human", "human"]}, "invalid_request", "/tools"),
    "history that is text": ({"history": ["hello"]}, "invalid_request", "/history/0"),
    "history without a text": ({"history": [{"role": "user"}]}, "invalid_request", "/history/0/text"),
    "history of an unknown role": (
        {"history": [{"role": "user", "text": "a"}, {"role": "root", "text": "b"}]},
        "invalid_request",
        "/history/1/role",
    ),
    "history with another field": (
        {"history": [{"role": "user", "text": "a", "name": "b"}]},
        "unknown_field",
        "/history/0/name",
    ),
}


@pytest.mark.parametrize("case", BAD_RUNS)
async def test_a_run_that_cannot_go_well_is_refused_at_once(world: ServerWorld, case: str) -> None:
    fields, code, pointer = BAD_RUNS[case]
    conversation = await world.conversation()
    body = {"conversation_id": conversation, "idempotency_key": "a", "effect_key": "a", "target": "demo"}
    answer = await world.http.post("/v1/harness/runs", json={**body, "text": "hi", **fields})
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (422, code)
    assert [one["pointer"] for one in problem["errors"]] == [pointer]
    assert await history(world.http, conversation, purpose="all") == []


async def test_a_run_with_everything_in_order_is_accepted(world: ServerWorld) -> None:
    body: Json = {
        "conversation_id": await world.conversation(),
        "idempotency_key": "a",
        "effect_key": "a",
        "target": "demo",
        "text": "hi",
        "output_schema": {"$defs": {"x": {"type": "string"}}, "$ref": "#/$defs/x"},
        "tools": ["human", "inventory"],
        "history": [{"role": "user", "text": "a"}, {"role": "assistant", "text": ""}],
    }
    answer = await world.http.post("/v1/harness/runs", json=body)
    assert answer.status_code == 202, answer.text
    await world.advance(5)


async def test_a_frame_with_too_many_items_breaks_a_limit_and_is_answered_under_its_id(
    world: ServerWorld,
) -> None:
    conversation = await world.conversation()
    link = await world.link("user/local")
    assert "hello" in await link.receive()
    item = {"conversation_id": conversation, "key": "k", "text": "x"}
    await link.send(json.dumps({"id": "many", "speak": [item] * 10_000}))
    answer = await link.receive()
    assert (answer["id"], answer["error"]["code"]) == ("many", "limit_exceeded")
    assert answer["error"]["context"] == {"limit": "frame_items", "max": 1000}
    for frame, frame_id, code in (
        ('{"id": 7, "shout": []}', 7, "unknown_field"),
        ('{"id": "x", "speak": {}}', "x", "invalid_request"),
        ('{"id": [], "speak": []}', None, "invalid_request"),
        ('{"id": "x", "speak": [', None, "malformed_json"),
    ):
        await link.send(frame)
        answer = await link.receive()
        assert (answer["id"], answer["error"]["code"]) == (frame_id, code)
    message = await speak(world.http, conversation, "s", None, stream=True)  # pyright: ignore[reportArgumentType]
    patches = [{"op": "ping", "seq": seq} for seq in range(1, 1002)]
    answer = await world.http.post(f"/v1/messages/{message['id']}/patches", json={"patches": patches})
    assert (answer.status_code, answer.json()["code"]) == (413, "limit_exceeded")
    await link.close()


@pytest.mark.parametrize(
    "path",
    ["/messages", "/commit", "/questions", "/patches", "/end", "/answer", "/runs", "/tokens", "/actors"],
)
async def test_an_empty_body_where_one_is_needed_is_no_json(world: ServerWorld, path: str) -> None:
    conversation = await world.conversation()
    message = await speak(world.http, conversation, "a")
    full = {
        "/patches": f"/v1/messages/{message['id']}/patches",
        "/end": f"/v1/messages/{message['id']}/end",
        "/answer": "/v1/questions/none/answer",
        "/runs": "/v1/harness/runs",
        "/tokens": "/v1/tokens",
        "/actors": "/v1/actors/operator/x",
    }.get(path, f"/v1/conversations/{conversation}{path}")
    answer = await world.http.request("PUT" if path == "/actors" else "POST", full)
    assert (answer.status_code, answer.json()["code"]) == (400, "malformed_json")


async def test_an_empty_body_is_fine_where_nothing_must_be_said(world: ServerWorld) -> None:
    made = await world.http.post("/v1/conversations")
    assert made.status_code == 201
    assert (await world.http.post(f"/v1/conversations/{made.json()['id']}/poll")).status_code == 200
    document = (await world.http.get("/openapi.json")).json()["paths"]
    assert document["/v1/conversations"]["post"]["requestBody"]["required"] is False
    assert document["/v1/tokens"]["post"]["requestBody"]["required"] is True


async def test_a_parameter_that_a_route_does_not_know_is_refused(world: ServerWorld) -> None:
    document = (await world.http.get("/openapi.json")).json()["paths"]
    refused = 0
    for path, methods in document.items():
        if path.startswith("/api"):
            continue
        for method in methods:
            full = path.replace("{", "x").replace("}", "")
            answer = await world.http.request(method, f"{full}?colour=red", content=b"")
            assert (answer.status_code, answer.json()["code"]) == (422, "unknown_field"), (method, path)
            assert answer.json()["errors"][0]["pointer"] == "/colour"
            refused += 1
    assert refused > 25
    assert (await world.http.get("/apis?colour=red")).status_code == 200
    both = await world.http.get("/v1/conversations?limit=0&colour=red")
    assert (both.status_code, both.json()["code"]) == (422, "invalid_request")


async def test_a_message_answers_only_what_is_there(world: ServerWorld) -> None:
    conversation, other = await world.conversation(), await world.conversation()
    await world.invite(conversation, "operator/echo")
    said = await speak(world.http, conversation, "a", target="operator/echo")
    elsewhere = await speak(world.http, other, "a")
    echo = await world.actor("operator/echo")
    for reply_to in ("msg_none", elsewhere["id"]):
        problem = await speak(echo, conversation, "b", reply_to_id=reply_to, status=422)
        assert problem["code"] == "invalid_request"
        assert problem["errors"][0]["pointer"] == "/reply_to_id"
    await speak(echo, conversation, "b", reply_to_id=said["id"])
    (process,) = (await get(echo, "/conversations", parent_id=conversation))["items"]
    await speak(echo, process["id"], "c", reply_to_id=said["id"])


async def test_an_encoded_slash_makes_no_key(world: ServerWorld) -> None:
    body = {"display_name": "x", "lease_ms": 1000}
    for path in ("operator/..%2Fx", "operator/a%2fb", "operator%2Fecho/a%2Fb"):
        answer = await world.http.put(f"/v1/actors/{path}", json=body)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request"), path
        assert answer.json()["errors"][0]["pointer"] == "/key"
    answer = await world.http.put("/v1/actors/operator%2Fecho%2Fhelper/a%20b", json=body)
    assert (answer.json()["kind"], answer.json()["key"]) == ("operator/echo/helper", "a b")


async def test_a_path_or_query_that_is_no_utf8_names_nothing(world: ServerWorld) -> None:
    body = {"display_name": "x", "lease_ms": 1000}
    answer = await world.http.put("/v1/actors/operator/%ff", json=body)
    assert (answer.status_code, answer.json()["code"]) == (404, "route_not_found")
    for path in ("/v1/conversations/%c3%28", "/v1/conversations/%ed%a0%80/stream", "/apis/%fe"):
        assert (await world.http.get(path)).json()["code"] == "route_not_found", path
    answer = await world.http.get("/v1/conversations?actor=operator/%ff")
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert (await get(world.http, "/actors"))["items"] == []
    assert (await world.http.put("/v1/actors/operator/%C3%A4", json=body)).json()["key"] == "ä"


async def test_numbers_about_the_server_need_a_credential(world: ServerWorld) -> None:
    refused = await world.client().get("/metrics")
    assert (refused.status_code, refused.json()["code"]) == (401, "unauthorized")
    assert (await (await world.actor("operator/watch", ["read"])).get("/metrics")).status_code == 200


@pytest.mark.requirement("P12")
async def test_a_slash_behind_a_path_is_answered_with_a_code_and_leads_nowhere(world: ServerWorld) -> None:
    paths = ("/v1/conversations/", "/v1/conversations/x/messages/", "/v1/runs/", "/apis/", "/readyz/", "/v1/")
    for path in (*paths, "/openapi.json/", "/v1/conversations//"):
        for method in ("GET", "POST", "DELETE"):
            answer = await world.http.request(method, path)
            assert answer.status_code == 404, (method, path)
            assert '"route_not_found"' in answer.text
            assert "location" not in answer.headers
