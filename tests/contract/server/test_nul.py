"""The character U+0000: kept inside of content as it is, refused everywhere else, alike on every database."""

from __future__ import annotations

from typing import Any

import pytest
from tests.contract.server.calls import Json, emit, end, get, open_stream, set_text, speak, wire

from lineloop.testing.server_world import ServerWorld

NUL = "one\0two"
TEXT: Json = {"id": "t", "type": "text", "content": "x"}


def content(block: Json, **more: Any) -> Json:
    return {"version": "1.1", "biz": "chat", "meta": {}, "blocks": [block], **more}


@pytest.mark.requirement("R12")
@pytest.mark.parametrize(
    "given",
    [
        content({**TEXT, "content": NUL}),
        content({**TEXT, NUL: {NUL: [NUL]}}),
        content({**TEXT, "id": NUL, "type": NUL}),
        content(TEXT, biz=NUL, meta={NUL: NUL}),
    ],
)
async def test_it_is_kept_in_content_found_around_and_exported(world: ServerWorld, given: Json) -> None:
    root = await world.conversation()
    said = await speak(world.http, root, "k", content=given)
    assert (await get(world.http, f"/messages/{said['id']}"))["content"] == given
    exported = (await world.http.get(f"/v1/conversations/{root}/export")).json()
    assert exported["messages"][0]["content"] == given
    assert (await world.http.get(f"/v1/conversations/{root}/export?format=markdown")).status_code == 200
    await world.advance(2)
    for query in ("two", NUL):
        found = (await get(world.http, "/messages/search", q=query))["items"]
        assert len(found) == (1 if given["blocks"][0]["content"] == NUL else 0)


@pytest.mark.requirement("R12")
async def test_it_is_kept_in_streams_questions_and_answers(world: ServerWorld) -> None:
    root = await world.conversation()
    stream = await open_stream(world.http, root)
    await emit(world.http, stream["id"], set_text(1, NUL))
    await end(world.http, stream["id"], 2)
    assert (await get(world.http, f"/messages/{stream['id']}"))["content"]["blocks"][0]["content"] == NUL
    terms = {"kind": "ask", "effect_key": "q", "to": wire("user/local"), "text": NUL, "timeout_ms": 60_000}
    choices = {"choices": [{"value": NUL, "label": NUL}]}
    path = f"/v1/conversations/{root}/questions"
    asked = (await world.http.post(path, json={**terms, **choices})).json()
    reply = {"reply_to_id": asked["id"], "value": NUL}
    answered = await world.http.post(f"/v1/questions/{asked['id']}/answer", json=reply)
    assert answered.json()["question"]["value"] == NUL
    assert (await get(world.http, f"/questions/{asked['id']}"))["value"] == NUL


NAMED = {"kind": "operator", "key": NUL}
BODIES: list[tuple[str, str, Json]] = [
    ("POST", "/conversations", {"name": NUL}),
    ("POST", "/conversations", {"key": NUL}),
    ("PATCH", "/conversations/{root}", {"name": NUL}),
    ("POST", "/conversations/{root}/messages", {"key": NUL, "text": "x"}),
    ("POST", "/conversations/{root}/messages", {"key": "a", "text": "x", "reply_to_id": NUL}),
    (
        "POST",
        "/conversations/{root}/messages",
        {"key": "a", "text": "x", "target": {"kind": "o", "key": NUL}},
    ),
    ("POST", "/conversations/{root}/participants", NAMED),
    (
        "POST",
        "/harness/runs",
        {"conversation_id": NUL, "idempotency_key": "k", "effect_key": "e", "target": "demo", "text": "x"},
    ),
    ("PUT", "/actors/operator/echo", {"display_name": NUL, "lease_ms": 5_000}),
    ("PUT", "/actors/operator/echo", {"display_name": "x", "description": NUL, "lease_ms": 5_000}),
    ("POST", "/tokens", {"actor": NAMED}),
    ("POST", "/users", {"key": NUL}),
]


@pytest.mark.requirement("R12")
async def test_it_is_refused_in_every_other_field_and_nothing_is_stored(world: ServerWorld) -> None:
    root = await world.conversation()
    for method, path, body in BODIES:
        answer = await world.http.request(method, f"/v1{path.format(root=root)}", json=body)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request"), (path, body)
    assert (await get(world.http, f"/conversations/{root}"))["last_ordinal"] == 0
    assert len((await get(world.http, "/conversations"))["items"]) == 1


@pytest.mark.requirement("R12")
async def test_it_is_refused_in_every_path_and_parameter(world: ServerWorld) -> None:
    root = await world.conversation()
    view = "/apis/loop.lineloop.dev/v1alpha1"
    places = (
        "conversations",
        "messages",
        "questions",
        "harness/runs",
        "blobs",
        f"conversations/{root}/participants",
    )
    paths = [*(f"/v1/{place}/a%00b" for place in places), f"{view}/namespaces/a%00b/conversations"]
    for path in paths:
        answer = await world.http.get(path)
        assert answer.status_code == 404, path
    queries = [
        *(f"/v1/{one}?after=a%00b" for one in ("conversations", "tokens", "actors", "users", "refusals")),
        "/v1/conversations?parent_id=a%00b",
        "/v1/conversations?actor=operator/a%00b",
        f"/v1/conversations/{root}/messages?call_id=a%00b",
        f"/v1/conversations/{root}/messages?reply_to_id=a%00b",
        "/v1/messages/search?q=x&conversation_id=a%00b",
    ]
    for path in queries:
        answer = await world.http.get(path)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request"), path
    assert (await world.http.get(f"{view}/conversations?labelSelector=a%3Db%00")).status_code == 400
