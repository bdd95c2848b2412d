"""Who sees and enters which conversation: only those who take part. For others it does not exist."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tests.contract.server.calls import commit, end, get, history, open_stream, poll, speak, texts, wire

from lineloop.testing.server_world import ServerWorld

Json = dict[str, Any]


async def gone(answer: httpx.Response, code: str) -> None:
    assert (answer.status_code, answer.json()["code"]) == (404, code), answer.text


async def ids(client: httpx.AsyncClient, **params: Any) -> list[str]:
    return [one["id"] for one in (await get(client, "/conversations", **params))["items"]]


async def process_of(world: ServerWorld, root: str, actor: str) -> str:
    (found,) = await ids(world.http, parent_id=root, actor=actor)
    return found


READS = (
    "/conversations/{root}",
    "/conversations/{root}/messages",
    "/conversations/{root}/resource",
    "/conversations/{root}/stream",
)


@pytest.mark.parametrize("path", READS)
@pytest.mark.parametrize("stranger", ["operator/nosy", "operator/nosy/a/x", "harness/nosy", "runtime/nosy"])
async def test_a_program_that_takes_no_part_finds_no_conversation(
    world: ServerWorld, path: str, stranger: str
) -> None:
    root = await world.conversation()
    await speak(world.http, root, "secret", "my secret")
    nosy = await world.actor(stranger)
    await gone(await nosy.get("/v1" + path.format(root=root)), "conversation_not_found")
    assert await ids(nosy) == []
    assert await ids(nosy, actor="user/local") == []
    assert await ids(nosy, parent_id=root) == []


async def test_a_program_that_takes_no_part_cannot_enter_by_speaking_or_asking(world: ServerWorld) -> None:
    root = await world.conversation()
    message = await speak(world.http, root, "secret", "my secret")
    nosy = await world.actor("operator/nosy")
    for fields in (
        {},
        {"stream": True, "text": None},
        {"target": "user/local"},
        {"actor": "operator/nosy/r/x"},
    ):
        refused = await speak(nosy, root, "hello", status=404, **fields)  # pyright: ignore[reportArgumentType]
        assert refused["code"] == "conversation_not_found"
    question = {"kind": "confirm", "effect_key": "q", "to": wire("user/local"), "text": "?", "timeout_ms": 9}
    await gone(
        await nosy.post(f"/v1/conversations/{root}/questions", json=question), "conversation_not_found"
    )
    assert (await poll(nosy, root, status=404))["code"] == "conversation_not_found"
    assert (await commit(nosy, root, 1, status=404))["code"] == "conversation_not_found"
    await gone(await nosy.get(f"/v1/messages/{message['id']}"), "message_not_found")
    stream = await open_stream(world.http, root)
    for path, body in (("patches", {"patches": [{"op": "ping", "seq": 1}]}), ("end", {"seq": 1})):
        await gone(await nosy.post(f"/v1/messages/{stream['id']}/{path}", json=body), "message_not_found")
    run = {"conversation_id": root, "idempotency_key": "a", "effect_key": "a", "target": "demo", "text": "hi"}
    await gone(await nosy.post("/v1/harness/runs", json=run), "conversation_not_found")
    assert texts(await history(world.http, root, purpose="all")) == ["my secret", ""]
    resource = await get(world.http, f"/conversations/{root}/resource")
    assert [one["key"] for one in resource["spec"]["participants"]] == ["local"]


async def test_a_link_gives_no_way_in_either(world: ServerWorld) -> None:
    root = await world.conversation()
    await speak(world.http, root, "secret", "my secret")
    link = await world.link("operator/nosy")
    assert "hello" in await link.receive()
    item = {"conversation_id": root, "key": "a", "text": "hi"}
    await link.send({"id": 1, "speak": [item], "commit": [{"conversation_id": root, "position": 1}]})
    results = (await link.receive())["results"]
    assert [one["error"]["code"] for one in results] == ["conversation_not_found"] * 2
    await link.close()


async def test_who_is_spoken_to_sees_the_conversation_from_then_on(world: ServerWorld) -> None:
    root = await world.conversation()
    await speak(world.http, root, "before", "what came before")
    echo = await world.actor("operator/echo")
    await get(echo, f"/conversations/{root}", status=404)
    await speak(world.http, root, "hello", "hello", target="operator/echo")
    assert await ids(echo) == [root]
    assert texts(await history(echo, root)) == ["what came before", "hello"]
    assert texts((await poll(echo, root))["messages"]) == ["what came before", "hello"]
    await speak(echo, root, "answer", "hi")


async def test_a_broadcast_invites_nobody(world: ServerWorld) -> None:
    root = await world.conversation()
    echo = await world.actor("operator/echo")
    await speak(world.http, root, "all", "hello, everyone")
    assert await ids(echo) == []
    await get(echo, f"/conversations/{root}", status=404)


async def test_an_operator_sees_what_it_created_and_whom_it_invites(world: ServerWorld) -> None:
    echo, planner = await world.actor("operator/echo"), await world.actor("operator/planner")
    root = (await echo.post("/v1/conversations", json={"name": "ours"})).json()["id"]
    assert (await ids(echo), await ids(planner)) == ([root], [])
    await speak(echo, root, "come", target="operator/planner")
    assert await ids(planner) == [root]
    await speak(planner, root, "here")


async def test_a_role_sees_what_its_operator_sees_and_enters_by_speaking(world: ServerWorld) -> None:
    root, other = await world.conversation(), await world.conversation()
    role = await world.actor("operator/echo/helper/x")
    await speak(world.http, root, "hello", target="operator/echo")
    await speak(world.http, other, "hello", target="operator/echoes")
    assert await ids(role) == [root]
    assert (await poll(role, root, status=403))["code"] == "not_participant"
    await speak(role, root, "here I am")
    await poll(role, root)


async def test_an_operator_sees_where_one_of_its_roles_takes_part(world: ServerWorld) -> None:
    root = await world.conversation()
    await speak(world.http, root, "hello", target="operator/echo/helper/x")
    echo, longer = await world.actor("operator/echo"), await world.actor("operator/ech")
    assert (await ids(echo), await ids(longer)) == ([root], [])
    await speak(echo, root, "mine too")


async def test_a_pattern_sees_where_somebody_takes_part_whom_it_may_be(world: ServerWorld) -> None:
    roots = [await world.conversation() for _ in range(5)]
    for root in roots[1::2]:
        await speak(world.http, root, "hello", target="operator/echo")
    anyone = await world.actor("operator/*")
    first = await get(anyone, "/conversations", limit=1)
    assert [one["id"] for one in first["items"]] == [roots[1]]
    assert await ids(anyone, limit=1, after=first["next"]) == [roots[3]]
    assert await ids(anyone) == roots[1::2]
    await get(anyone, f"/conversations/{roots[0]}", status=404)


async def test_lists_combine_who_looks_and_who_is_looked_for(world: ServerWorld) -> None:
    both, one = await world.conversation(), await world.conversation()
    for root in (both, one):
        await speak(world.http, root, "hello", target="operator/echo")
    await speak(world.http, both, "you too", target="operator/planner")
    echo = await world.actor("operator/echo")
    assert await ids(echo, actor="operator/planner") == [both]
    assert await ids(echo, actor="operator/echo") == [both, one]


async def test_the_workspace_of_an_operator_is_its_own_and_the_peoples(world: ServerWorld) -> None:
    root = await world.conversation()
    for name in ("echo", "planner"):
        await speak(world.http, root, name, target=f"operator/{name}")
    mine = await process_of(world, root, "operator/echo")
    echo, planner = await world.actor("operator/echo"), await world.actor("operator/planner")
    role = await world.actor("operator/echo/helper/x")
    note = await speak(echo, mine, "note", "working")
    stream = await open_stream(echo, mine)
    assert texts(await history(role, mine)) == ["working", ""]
    assert texts(await history(world.http, mine)) == ["working", ""]
    assert await ids(echo, parent_id=root) == [mine]
    assert mine not in await ids(planner, parent_id=root)
    await get(planner, f"/conversations/{mine}", status=404)
    await get(planner, f"/messages/{note['id']}", status=404)
    assert (await speak(planner, mine, "note", status=404))["code"] == "conversation_not_found"
    assert (await end(planner, stream["id"], 1, status=404))["code"] == "message_not_found"


async def test_only_the_person_brings_a_device_into_a_conversation(world: ServerWorld) -> None:
    device = await world.link("runtime/laptop")
    root = await world.conversation()
    echo = await world.actor("operator/echo")
    own = (await echo.post("/v1/conversations", json={})).json()["id"]
    refused = await speak(echo, own, "do it", target="runtime/laptop", status=403)
    assert refused["code"] == "not_participant"
    await speak(world.http, root, "hello", target="operator/echo")
    await speak(echo, root, "do it", target="runtime/laptop")
    await device.close()


async def test_a_question_is_seen_where_its_conversation_is(world: ServerWorld) -> None:
    root = await world.conversation()
    await speak(world.http, root, "hello", target="operator/echo")
    echo, nosy = await world.actor("operator/echo"), await world.actor("operator/nosy")
    body = {"kind": "confirm", "effect_key": "q", "to": wire("user/local"), "text": "?", "timeout_ms": 9000}
    question = (await echo.post(f"/v1/conversations/{root}/questions", json=body)).json()["id"]
    await get(echo, f"/questions/{question}")
    assert (await get(nosy, f"/questions/{question}", status=404))["code"] == "question_not_found"


async def test_a_run_belongs_to_who_prompted_it_and_to_the_person_of_the_conversation(
    world: ServerWorld,
) -> None:
    root = await world.conversation()
    await world.invite(root, "operator/echo", "operator/planner", "user/guest")
    echo, planner = await world.actor("operator/echo"), await world.actor("operator/planner")
    body = {"conversation_id": root, "idempotency_key": "a", "effect_key": "a", "target": "demo"}
    run = (await echo.post("/v1/harness/runs", json={**body, "text": "hi"})).json()["id"]
    paths = (f"/v1/harness/runs/{run}", f"/v1/harness/runs/{run}/ledger")
    role, owner = await world.actor("operator/echo/helper/x"), await world.actor("user/local")
    for client in (echo, role, owner, world.http):
        for path in paths:
            assert (await client.get(path)).status_code == 200
    for client in (planner, await world.actor("user/guest"), await world.actor("operator/nosy")):
        for path in (*paths, f"{paths[0]}/stream"):
            await gone(await client.get(path), "run_not_found")
        await gone(await client.post(f"{paths[0]}/cancel"), "run_not_found")
    assert (await role.post(f"{paths[0]}/cancel")).status_code == 202
