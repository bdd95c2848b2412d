"""Who is named by a caller takes part by the caller's right only, in whatever field it is named.

A device is brought into a conversation by the person to whom both belong, and by nobody else.
"""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tests.contract.server.calls import Json, open_stream, speak, wire

from lineloop.kit.database import Tx
from lineloop.server.commit.accounts import create_person_in
from lineloop.server.http.identity import COOKIE, SECRET_HEADER
from lineloop.server.store import consumers
from lineloop.testing.server_world import ServerWorld

DEVICE, INVENTED = "runtime/laptop", "runtime/x"
RUN: Json = {"idempotency_key": "k", "effect_key": "e", "target": "demo", "text": "go"}


async def stranger(world: ServerWorld, who: str) -> httpx.AsyncClient:
    """A credential to whom the device does not belong: an operator, or another person with a cookie."""
    if who.startswith("operator/"):
        return await world.actor(who)
    key, ctx = who.partition("/")[2], world.server.commits.ctx
    await world.server.commits.write(lambda tx: create_person_in(tx, ctx, key, "cookie", "secret"))
    return world.client({"cookie": f"{COOKIE}=cookie", SECRET_HEADER: "secret"})


async def members(world: ServerWorld, conversation: str) -> set[str]:
    def read(tx: Tx) -> set[str]:
        return {str(one.actor) for one in consumers.of_conversation(tx, conversation)}

    return await world.server.commits.read(read)


async def own_conversation(client: httpx.AsyncClient) -> str:
    return (await client.post("/v1/conversations", json={})).json()["id"]


async def run(client: httpx.AsyncClient, conversation: str, **fields: Any) -> httpx.Response:
    return await client.post("/v1/harness/runs", json={**RUN, "conversation_id": conversation, **fields})


@pytest.mark.parametrize("target", [DEVICE, INVENTED])
@pytest.mark.parametrize("who", ["operator/evil", "user/bob"])
async def test_no_field_of_a_stranger_brings_a_device_in(world: ServerWorld, who: str, target: str) -> None:
    device = await world.link(DEVICE)
    client = await stranger(world, who)
    own = await own_conversation(client)
    named = wire(target)
    question = {"kind": "confirm", "effect_key": "q", "to": named, "text": "?", "timeout_ms": 9000}
    place = f"/v1/conversations/{own}"
    answers = {
        "recipient": await run(client, own, recipient=named),
        "speak": await client.post(f"{place}/messages", json={"key": "k", "text": "do", "target": named}),
        "stream": await client.post(f"{place}/messages", json={"key": "s", "stream": True, "target": named}),
    }
    for field, answer in answers.items():
        assert (answer.status_code, answer.json()["code"]) == (403, "not_participant"), field
    answers = {
        "to": await client.post(f"{place}/questions", json=question),
        "asked by": await client.post(f"{place}/questions", json={**question, "actor": named}),
        "run by": await run(client, own, actor=named),
        "spoken by": await client.post(f"{place}/messages", json={"key": "a", "text": "do", "actor": named}),
        "polled by": await client.post(f"{place}/poll", json={"actor": named}),
        "committed by": await client.post(f"{place}/commit", json={"actor": named, "position": 0}),
    }
    for field, answer in answers.items():
        assert answer.status_code in (403, 422), field
    lease = {"display_name": "mine", "lease_ms": 9000}
    assert (await client.put(f"/v1/actors/{target}", json=lease)).status_code == 403
    stream = await open_stream(client, own, "mine")
    patch = {"op": "start", "seq": 1, "target": named}
    refused = await client.post(f"/v1/messages/{stream['id']}/patches", json={"patches": [patch]})
    assert refused.status_code == 422
    assert target not in await members(world, own)
    await device.close()


@pytest.mark.parametrize("target", [DEVICE, INVENTED])
async def test_no_item_of_a_link_brings_a_device_in(world: ServerWorld, target: str) -> None:
    device = await world.link(DEVICE)
    evil = await world.actor("operator/evil")
    own = await own_conversation(evil)
    link = await world.link("operator/evil")
    await link.receive()
    item = {"conversation_id": own, "text": "do"}
    speaks = [
        {**item, "key": "a", "target": wire(target)},
        {**item, "key": "b", "actor": wire(target)},
        {"conversation_id": own, "key": "c", "stream": True, "target": wire(target)},
    ]
    await link.send({"id": 1, "speak": speaks})
    results = (await link.receive())["results"]
    codes = [result["error"]["code"] for result in results]
    assert codes == ["not_participant", "forbidden", "not_participant"]
    assert target not in await members(world, own)
    await link.close()
    await device.close()


@pytest.mark.parametrize("how", ["speak", "recipient"])
async def test_a_person_brings_their_own_device_in_and_no_invented_one(world: ServerWorld, how: str) -> None:
    first, second = await world.link(DEVICE), await world.link("runtime/tablet")
    root = await world.conversation()
    person = await world.actor("user/local")
    assert await members(world, root) == {"user/local", DEVICE}

    async def name(client: httpx.AsyncClient, target: str) -> httpx.Response:
        if how == "recipient":
            return await run(client, root, recipient=wire(target), idempotency_key=target)
        body = {"key": target, "text": "hi", "target": wire(target)}
        return await client.post(f"/v1/conversations/{root}/messages", json=body)

    for client in (person, world.http):
        assert (await name(client, INVENTED)).json()["code"] == "not_participant"
    assert INVENTED not in await members(world, root)
    assert (await name(person, "runtime/tablet")).is_success
    assert "runtime/tablet" in await members(world, root)
    await first.close()
    await second.close()


async def test_an_operator_beside_a_person_brings_no_second_device_in(world: ServerWorld) -> None:
    first, second = await world.link(DEVICE), await world.link("runtime/tablet")
    root = await world.conversation()
    await speak(world.http, root, "hello", target="operator/echo")
    echo = await world.actor("operator/echo")
    assert (await run(echo, root, recipient=wire(DEVICE))).status_code == 202
    refused = await run(echo, root, recipient=wire("runtime/tablet"), idempotency_key="other")
    assert refused.json()["code"] == "not_participant"
    await speak(echo, root, "do", target="runtime/tablet", status=403)
    assert "runtime/tablet" not in await members(world, root)
    await first.close()
    await second.close()


async def test_a_token_for_every_device_makes_none_of_a_name_that_nobody_registered(
    world: ServerWorld,
) -> None:
    device = await world.link(DEVICE)
    root = await world.conversation()
    anything = await world.actor("runtime/*")
    await speak(anything, root, "known", actor=DEVICE)
    await speak(anything, root, "new", actor=INVENTED)
    assert INVENTED not in await members(world, root)
    lease = {"display_name": "all", "lease_ms": 9000}
    refused = await anything.put("/v1/actors/runtime/*", json=lease)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")
    person = await world.actor("user/local")
    for client in (person, world.http):
        await speak(client, root, "all", target="runtime/*", status=403)
    await device.close()
