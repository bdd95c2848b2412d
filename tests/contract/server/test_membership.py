"""The owner invites and takes out; whoever is taken out has nothing left here and leaves nothing open."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from tests.contract.server.calls import (
    Json,
    append_text,
    commit,
    emit,
    end,
    get,
    history,
    open_stream,
    poll,
    speak,
    texts,
    wire,
)
from tests.contract.server.stream_reader import viewer

from lineloop.protocol.errors import ErrorCode
from lineloop.testing.server_world import ServerWorld

ECHO = "operator/echo"
READS = ("", "/messages", "/resource", "/stream", "/export", "/participants")


async def invite(client: httpx.AsyncClient, root: str, actor: str, status: int = 201) -> Json:
    answer = await client.post(f"/v1/conversations/{root}/participants", json=wire(actor))
    assert answer.status_code == status, answer.text
    return answer.json()


async def remove(client: httpx.AsyncClient, root: str, actor: str, status: int = 204) -> Json:
    kind, _, key = actor.rpartition("/")
    kind = kind.replace("/", "%2F")
    answer = await client.delete(f"/v1/conversations/{root}/participants/{kind}/{key}")
    assert answer.status_code == status, answer.text
    return answer.json() if answer.content else {}


async def names(client: httpx.AsyncClient, root: str) -> list[str]:
    items = (await get(client, f"/conversations/{root}/participants"))["items"]
    return [f"{one['kind']}/{one['key']}" for one in items]


async def nothing_left(client: httpx.AsyncClient, root: str) -> None:
    for path in READS:
        refused = await client.get(f"/v1/conversations/{root}{path}")
        assert (refused.status_code, refused.json()["code"]) == (404, "conversation_not_found"), path
    assert (await get(client, "/conversations"))["items"] == []
    for refused in (
        await poll(client, root, status=404),
        await commit(client, root, 1, status=404),
        await speak(client, root, "again", status=404),
        await speak(client, root, "hello", status=404),
    ):
        assert refused["code"] == "conversation_not_found"
    assert (await get(client, "/messages/search", q="hello"))["items"] == []


@pytest.mark.requirement("P20")
async def test_the_owner_invites_and_whoever_is_invited_sees_everything(world: ServerWorld) -> None:
    root = await world.conversation()
    await speak(world.http, root, "first", "hello")
    owner, echo, bob = [await world.actor(one) for one in ("user/local", ECHO, "user/bob")]
    line = await invite(owner, root, ECHO)
    assert line == {
        **wire(ECHO),
        "owner": False,
        "display_name": None,
        "process_conversation_id": None,
        "joined_at": line["joined_at"],
    }
    assert await invite(owner, root, ECHO, 200) == line
    await invite(owner, root, "user/bob")
    await invite(owner, root, "operator/echo/worker/1")
    await invite(owner, root, "user/local", 200)
    for client in (echo, bob):
        assert texts(await history(client, root))[0] == "hello"
        assert await names(client, root) == [
            ECHO,
            "operator/echo/worker/1",
            "user/bob",
            "user/local",
        ]
        await speak(client, root, "here")
    lease = {"display_name": "Echo", "lease_ms": 9000}
    assert (await echo.put("/v1/actors/operator/echo", json=lease)).status_code == 200
    page = await get(bob, f"/conversations/{root}/participants", limit=1)
    assert page["items"][0]["display_name"] == "Echo"
    rest = await get(bob, f"/conversations/{root}/participants", after=page["next"])
    assert [one["owner"] for one in rest["items"]] == [False, False, True]


@pytest.mark.requirement("P20")
async def test_nobody_but_the_owner_invites_or_takes_out_others(world: ServerWorld) -> None:
    root = await world.conversation()
    for actor in (ECHO, "user/bob"):
        await invite(world.http, root, actor)
    for who in (ECHO, "user/bob"):
        client = await world.actor(who)
        assert (await invite(client, root, "user/eve", 403))["code"] == "forbidden"
        assert (await remove(client, root, "user/local", 422))["code"] == "invalid_request"
    assert (await remove(await world.actor(ECHO), root, "user/bob", 403))["code"] == "forbidden"
    eve = await world.actor("user/eve")
    assert (await invite(eve, root, "user/eve", 404))["code"] == "conversation_not_found"
    assert (await remove(eve, root, "user/bob", 404))["code"] == "conversation_not_found"
    reader = await world.actor("user/local", ["read"])
    assert (await invite(reader, root, "user/eve", 403))["code"] == "forbidden"
    assert (await remove(reader, root, "user/bob", 403))["code"] == "forbidden"
    assert await names(world.http, root) == [ECHO, "user/bob", "user/local"]


@pytest.mark.requirement("P21")
async def test_whoever_is_taken_out_has_nothing_left_here_at_once(world: ServerWorld) -> None:
    root = await world.conversation()
    await speak(world.http, root, "first", "hello", target=ECHO)
    echo = await world.actor(ECHO)
    await poll(echo, root)
    said = await speak(echo, root, "again", "I heard hello", target="user/local")
    link = await world.link(ECHO)
    await link.receive()
    assert len((await link.receive())["deliver"]) == 1
    async with viewer(echo, root) as reader:
        await reader.until("ping")
        await reader.until("ping")
        await remove(world.http, root, ECHO)
        await speak(world.http, root, "secret", "a secret")
        with pytest.raises(StopAsyncIteration):
            while True:
                kind, _ = await reader.next()
                assert kind not in ("message", "patch")
    await nothing_left(echo, root)
    assert (await get(echo, f"/messages/{said['id']}", status=404))["code"] == "message_not_found"
    item = {"conversation_id": root, "key": "x", "text": "hi"}
    await link.send({"id": 1, "speak": [item], "commit": [{"conversation_id": root, "position": 1}]})
    results = (await link.receive())["results"]
    assert [one["error"]["code"] for one in results] == ["conversation_not_found"] * 2
    await world.advance(3)
    await link.send({"id": 2, "ping": {}})
    frames = [await link.receive(), await link.receive()]
    assert not any("deliver" in frame for frame in frames)
    await link.close()
    assert texts(await history(world.http, root)) == ["hello", "I heard hello", "a secret"]
    resource = await get(world.http, f"/conversations/{root}/resource")
    assert [one["key"] for one in resource["spec"]["participants"]] == ["local"]


@pytest.mark.requirement("P21")
async def test_what_waits_on_a_slow_link_is_not_delivered_any_more(world: ServerWorld) -> None:
    root, other = await world.conversation(), await world.conversation()
    link = await world.link(ECHO)
    await link.receive()
    for place in (root, other):
        await invite(world.http, place, ECHO)
        await speak(world.http, place, "waits", place)
    await remove(world.http, root, ECHO)
    frame = await link.receive()
    assert texts(frame["deliver"]) == [other]
    await link.close()


@pytest.mark.requirement("P21")
async def test_a_wait_for_a_question_ends_for_who_is_taken_out(world: ServerWorld) -> None:
    root = await world.conversation()
    await invite(world.http, root, ECHO)
    await invite(world.http, root, "user/bob")
    echo, bob = await world.actor(ECHO), await world.actor("user/bob")
    ask = {"kind": "confirm", "text": "?", "timeout_ms": 600_000}
    place = f"/v1/conversations/{root}/questions"
    by_bob_to = {"effect_key": "a", "to": wire("user/local")}
    kept = (await bob.post(place, json={**ask, **by_bob_to})).json()
    waiting = asyncio.ensure_future(echo.get(f"/v1/questions/{kept['id']}", params={"wait_ms": 60_000}))
    to_bob = (await world.http.post(place, json={**ask, "effect_key": "b", "to": wire("user/bob")})).json()
    by_echo = (await echo.post(place, json={**ask, "effect_key": "c", "to": wire("user/local")})).json()
    await remove(world.http, root, ECHO)
    assert (await waiting).json()["code"] == "question_not_found"
    await remove(world.http, root, "user/bob")
    for question in (by_echo, to_bob, kept):
        closed = await get(world.http, f"/questions/{question['id']}")
        assert (closed["state"], closed["reason"]) == ("failure", "participant_removed")
        answer = {"reply_to_id": question["id"], "value": "accepted"}
        refused = await bob.post(f"/v1/questions/{question['id']}/answer", json=answer)
        assert (refused.status_code, refused.json()["code"]) == (404, "question_not_found")


@pytest.mark.requirement("P22")
async def test_whoever_is_taken_out_leaves_nothing_open(world: ServerWorld) -> None:
    root = await world.conversation()
    await speak(world.http, root, "hello", target=ECHO)
    echo = await world.actor(ECHO)
    stream = await open_stream(echo, root)
    await emit(
        echo, stream["id"], {"op": "set", "seq": 1, "block": {"id": "t", "type": "text", "content": "a"}}
    )
    prompt = {"conversation_id": root, "idempotency_key": "a", "effect_key": "a", "target": "demo"}
    body = {**prompt, "text": "wait for me", "tools": ["human"]}
    run = (await echo.post("/v1/harness/runs", json=body)).json()
    await remove(world.http, root, ECHO)
    message = await get(world.http, f"/messages/{stream['id']}")
    assert (message["status"], message["content"]["meta"]["error"]["code"]) == ("failed", "writer_gone")
    assert (await emit(echo, stream["id"], append_text(3, "b"), status=409))["code"] == "message_ended"
    await end(echo, stream["id"], 2, status=409)
    await world.advance(2)
    refused = await echo.get(f"/v1/harness/runs/{run['id']}")
    assert (refused.status_code, refused.json()["code"]) == (404, "run_not_found")
    owned = await get(await world.actor("user/local"), f"/harness/runs/{run['id']}")
    assert owned["phase"] in ("cancelled", "succeeded")


@pytest.mark.requirement("P23")
async def test_only_an_invitation_brings_back_who_was_taken_out(world: ServerWorld) -> None:
    root = await world.conversation()
    for number in range(3):
        await speak(world.http, root, f"k{number}", str(number), target=ECHO)
    echo = await world.actor(ECHO)
    polled = await poll(echo, root, limit=2)
    await commit(echo, root, polled["position"])
    line = (await get(world.http, f"/conversations/{root}/participants"))["items"][0]
    await remove(world.http, root, ECHO)
    await remove(world.http, root, ECHO)
    owner = await world.actor("user/local")
    for client in (world.http, owner):
        refused = await speak(client, root, "come back", target=ECHO, status=403)
        assert refused["code"] == "not_participant"
        refused = await speak(client, root, "role", target="operator/echo/worker/1", status=403)
        assert refused["code"] == "not_participant"
    await world.restart()
    await speak(world.http, root, "come back", target=ECHO, status=403)
    await nothing_left(echo, root)
    back = await invite(owner, root, ECHO)
    assert back["process_conversation_id"] == line["process_conversation_id"]
    assert texts((await poll(echo, root))["messages"]) == ["2"]
    await speak(world.http, root, "welcome", "welcome", target=ECHO)
    assert texts((await poll(echo, root))["messages"]) == ["2", "welcome"]
    assert texts(await history(echo, root)) == ["0", "1", "2", "welcome"]


@pytest.mark.requirement("P23")
async def test_an_operator_goes_with_its_roles_and_a_person_with_their_devices(world: ServerWorld) -> None:
    root = await world.conversation()
    role = "operator/echo/worker/1"
    for actor in (ECHO, role, "operator/echoes", "user/bob"):
        await invite(world.http, root, actor)
    await world.server.commits.activate_device("bob", "tablet")
    await world.invite(root, "runtime/tablet")
    await remove(world.http, root, ECHO)
    assert await names(world.http, root) == ["operator/echoes", "runtime/tablet", "user/bob", "user/local"]
    worker = await world.actor(role)
    await nothing_left(worker, root)
    await remove(world.http, root, "user/bob")
    assert await names(world.http, root) == ["operator/echoes", "user/local"]
    await invite(world.http, root, "user/bob")
    await invite(world.http, root, ECHO)
    assert await names(world.http, root) == [
        ECHO,
        role,
        "operator/echoes",
        "runtime/tablet",
        "user/bob",
        "user/local",
    ]


@pytest.mark.requirement("P23")
async def test_everybody_but_the_owner_may_leave(world: ServerWorld) -> None:
    root = await world.conversation()
    for who in (ECHO, "user/bob"):
        await invite(world.http, root, who)
        client = await world.actor(who)
        await remove(client, root, who)
        await remove(client, root, who)
        await nothing_left(client, root)
        assert (await invite(client, root, who, 404))["code"] == "conversation_not_found"
    assert await names(world.http, root) == ["user/local"]


@pytest.mark.requirement("P20")
@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 422, "invalid_request"),
        ({"kind": "user"}, 422, "invalid_request"),
        ({"kind": "user", "key": "a/b"}, 422, "invalid_request"),
        ({"kind": "user/", "key": "a"}, 422, "invalid_request"),
        ({"kind": "user", "key": ""}, 422, "invalid_request"),
        ({"kind": "user", "key": "x" * 129}, 422, "invalid_request"),
        ({"kind": "user", "key": "a\u0000"}, 422, "invalid_request"),
        ({"kind": "user", "key": 7}, 422, "invalid_request"),
        ({"kind": "user", "key": "*"}, 422, "invalid_request"),
        ({"kind": "operator/*", "key": "a"}, 422, "invalid_request"),
        ({"kind": "user", "key": "bob", "role": "owner"}, 422, "unknown_field"),
        ([], 422, "invalid_request"),
        ({"kind": "runtime", "key": "invented"}, 403, "not_participant"),
    ],
)
async def test_an_invitation_that_names_nobody_is_refused_and_stores_nothing(
    world: ServerWorld, body: object, status: int, code: ErrorCode
) -> None:
    root = await world.conversation()
    answer = await world.http.post(f"/v1/conversations/{root}/participants", json=body)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    empty = await world.http.post(f"/v1/conversations/{root}/participants")
    assert (empty.status_code, empty.json()["code"]) == (400, "malformed_json")
    assert await names(world.http, root) == ["user/local"]


@pytest.mark.requirement("P20")
async def test_removals_that_make_no_sense_are_refused(world: ServerWorld) -> None:
    root = await world.conversation()
    await speak(world.http, root, "hello", target=ECHO)
    (process,) = (await get(world.http, "/conversations", parent_id=root))["items"]
    device = await world.link("runtime/laptop")
    for actor, status, code in (
        ("user/local", 422, "invalid_request"),
        ("runtime/laptop", 422, "invalid_request"),
        ("operator/*", 422, "invalid_request"),
        ("operator/nobody", 404, "not_found"),
    ):
        assert (await remove(world.http, root, actor, status))["code"] == code, actor
    for call in (invite, remove):
        assert (await call(world.http, process["id"], ECHO, 422))["code"] == "invalid_request"
        assert (await call(world.http, "con_none", ECHO, 404))["code"] == "conversation_not_found"
    assert await names(world.http, root) == [ECHO, "runtime/laptop", "user/local"]
    await device.close()


@pytest.mark.requirement("P24")
async def test_those_who_stay_hear_of_who_comes_and_goes(world: ServerWorld) -> None:
    device = await world.link("runtime/laptop")
    root = await world.conversation()
    await device.receive()
    async with viewer(await world.actor("user/local"), root) as reader:
        await reader.until("ping")
        await reader.until("ping")
        await invite(world.http, root, ECHO)
        assert await reader.until("participants") == {"conversation_id": root}
        assert await device.receive() == {"participants": [{"conversation_id": root, **wire(ECHO)}]}
        await remove(world.http, root, ECHO)
        assert await reader.until("participants") == {"conversation_id": root}
        assert await device.receive() == {"departed": [{"conversation_id": root, **wire(ECHO)}]}
    await device.close()
