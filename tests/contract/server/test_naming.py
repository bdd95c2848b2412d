"""Who is named in a message is brought in only by the owner; naming is no way around the invitation."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tests.contract.server.calls import Json, get, history, open_stream, speak, wire

from lineloop.testing.server_world import ServerWorld

ECHO = "operator/echo"
STRANGERS = ("user/bob", "operator/planner", "operator/planner/critic", "sensor/door")


async def ask(client: httpx.AsyncClient, root: str, to: str, key: str) -> httpx.Response:
    terms: Json = {"kind": "confirm", "effect_key": key, "text": "Sure?", "timeout_ms": 60_000}
    return await client.post(f"/v1/conversations/{root}/questions", json={**terms, "to": wire(to)})


async def prompt(client: httpx.AsyncClient, root: str, recipient: str) -> httpx.Response:
    body: dict[str, Any] = {"idempotency_key": recipient, "effect_key": "e", "target": "demo", "text": "hi"}
    fields = {"conversation_id": root, "recipient": wire(recipient)}
    return await client.post("/v1/harness/runs", json={**body, **fields})


async def names(world: ServerWorld, root: str) -> set[str]:
    items = (await get(world.http, f"/conversations/{root}/participants"))["items"]
    return {f"{one['kind']}/{one['key']}" for one in items}


@pytest.mark.requirement("SV3")
@pytest.mark.parametrize("stranger", STRANGERS)
async def test_who_does_not_own_the_conversation_brings_in_nobody_by_naming_them(
    world: ServerWorld, stranger: str
) -> None:
    root = await world.conversation()
    await world.invite(root, ECHO, "user/ann")
    for name in (ECHO, "user/ann"):
        client = await world.actor(name)
        refused = [
            await speak(client, root, "a", target=stranger, status=403),
            await open_stream(client, root, "b", target=stranger, status=403),
            (await prompt(client, root, stranger)).json(),
        ]
        if stranger.startswith("user/"):
            refused.append((await ask(client, root, stranger, "c")).json())
        assert {one["code"] for one in refused} == {"not_participant"}
    assert await history(world.http, root, purpose="all") == []
    assert await names(world, root) == {"user/local", ECHO, "user/ann"}


@pytest.mark.requirement("SV3")
async def test_who_takes_part_names_who_is_there_roles_of_them_and_executions(world: ServerWorld) -> None:
    root = await world.conversation()
    await world.invite(root, ECHO, "operator/planner", "user/ann")
    echo = await world.actor(ECHO)
    for target in (
        "user/ann",
        "operator/planner",
        "operator/planner/critic",
        "operator/echo/critic",
        "harness/r",
    ):
        await speak(echo, root, target, target=target)
    assert (await ask(echo, root, "user/ann", "q")).status_code == 201
    assert await speak(echo, root, "again", target="user/bob", status=403)


@pytest.mark.requirement("SV3", "P23")
async def test_the_owner_brings_in_by_naming_but_not_who_was_taken_out(world: ServerWorld) -> None:
    root = await world.conversation()
    owner, echo = await world.actor("user/local"), await world.actor(ECHO)
    await speak(owner, root, "a", target=ECHO)
    await speak(owner, root, "b", target="user/bob")
    await speak(echo, root, "c", target="user/bob")
    assert (await owner.delete(f"/v1/conversations/{root}/participants/user/bob")).status_code == 204
    for client in (owner, echo, world.http):
        assert (await speak(client, root, "d", target="user/bob", status=403))["code"] == "not_participant"
        assert (await ask(client, root, "user/bob", "e")).json()["code"] == "not_participant"
    path = f"/v1/conversations/{root}/participants"
    assert (await echo.post(path, json=wire("user/bob"))).status_code == 403
    assert (await owner.post(path, json=wire("user/bob"))).status_code == 201
    await speak(echo, root, "f", target="user/bob")


@pytest.mark.requirement("SV3")
async def test_a_workspace_is_no_way_in_either(world: ServerWorld) -> None:
    root = await world.conversation()
    owner, echo = await world.actor("user/local"), await world.actor(ECHO)
    await speak(owner, root, "a", target=ECHO)
    [place] = (await get(owner, "/conversations", parent_id=root))["items"]
    assert (await speak(echo, place["id"], "b", target="user/bob", status=403))["code"] == "not_participant"
    await speak(echo, place["id"], "c", target="user/local")
    await speak(echo, place["id"], "d", target="operator/echo/critic")
