"""Conversations and the process conversations under them."""

from __future__ import annotations

import pytest
from tests.contract.server.calls import get, history, speak, texts

from lineloop.kit.faults import Faults
from lineloop.testing.server_world import ServerWorld


@pytest.mark.requirement("L1")
async def test_a_new_conversation_belongs_to_the_person_and_has_no_parent(world: ServerWorld) -> None:
    answer = await world.http.post("/v1/conversations", json={"name": "plans"})
    assert answer.status_code == 201
    conversation = answer.json()
    assert conversation["owner"] == {"kind": "user", "key": "local"}
    assert conversation["parent_id"] is None
    assert conversation["name"] == "plans"
    assert await get(world.http, f"/conversations/{conversation['id']}") == conversation


@pytest.mark.requirement("L2")
async def test_the_list_without_filters_has_root_conversations_only(world: ServerWorld) -> None:
    first, second = await world.conversation(), await world.conversation()
    await speak(world.http, first, "a", target="operator/echo")
    listed = (await get(world.http, "/conversations"))["items"]
    assert [one["id"] for one in listed] == [first, second]
    assert all(one["parent_id"] is None for one in listed)


async def test_lists_are_paged_by_cursor(world: ServerWorld) -> None:
    ids = [await world.conversation() for _ in range(5)]
    seen: list[str] = []
    after = ""
    while True:
        page = await get(world.http, "/conversations", limit=2, after=after)
        seen += [one["id"] for one in page["items"]]
        if page["next"] is None:
            break
        after = page["next"]
    assert seen == ids


@pytest.mark.requirement("L3")
async def test_a_targeted_message_makes_one_process_conversation_of_that_actor(world: ServerWorld) -> None:
    root = await world.conversation()
    await speak(world.http, root, "a", target="operator/echo")
    children = (await get(world.http, "/conversations", parent_id=root))["items"]
    assert [child["owner"] for child in children] == [{"kind": "operator", "key": "echo"}]
    assert children[0]["parent_id"] == root


@pytest.mark.requirement("L4")
async def test_process_conversations_are_found_by_parent_and_actor(world: ServerWorld) -> None:
    root = await world.conversation()
    await speak(world.http, root, "a", target="operator/echo")
    await speak(world.http, root, "b", target="operator/planner")
    found = (await get(world.http, "/conversations", parent_id=root, actor="operator/planner"))["items"]
    assert [one["owner"]["key"] for one in found] == ["planner"]
    assert (await get(world.http, "/conversations", parent_id="con_none"))["items"] == []


@pytest.mark.requirement("L5")
async def test_process_conversations_are_reused_and_never_nest(world: ServerWorld) -> None:
    root = await world.conversation()
    await speak(world.http, root, "a", target="operator/echo")
    await speak(world.http, root, "b", target="operator/echo")
    await speak(world.http, root, "c")
    await speak(world.http, root, "d", target="user/local")
    await world.invite(root, "runtime/laptop")
    await speak(world.http, root, "e", target="runtime/laptop")
    (child,) = (await get(world.http, "/conversations", parent_id=root))["items"]
    await speak(world.http, child["id"], "f", target="operator/other")
    assert (await get(world.http, "/conversations", parent_id=child["id"]))["items"] == []
    assert len((await get(world.http, "/conversations", parent_id=root))["items"]) == 1


@pytest.mark.requirement("L5")
async def test_envelopes_make_no_process_conversation(world: ServerWorld) -> None:
    root = await world.conversation()
    block = {"id": "envelope", "type": "envelope", "envelope": {"type": "lineup.tool.invoke"}}
    content = {"version": "1.1", "biz": "chat", "meta": {}, "blocks": [block]}
    await speak(world.http, root, "a", content=content, target="operator/echo")
    assert (await get(world.http, "/conversations", parent_id=root))["items"] == []


@pytest.mark.requirement("L6")
async def test_message_and_process_conversation_roll_back_together(world: ServerWorld) -> None:
    root = await world.conversation()
    await world.restart(faults=Faults(["server.speak.before_commit"], "server.speak.before_commit:raise"))
    refused = await speak(world.http, root, "a", target="operator/echo", status=500)
    assert refused["code"] == "fault_injected"
    assert await history(world.http, root, purpose="all") == []
    assert (await get(world.http, "/conversations", parent_id=root))["items"] == []
    spoken = await speak(world.http, root, "a", target="operator/echo")
    assert (spoken["ordinal"], spoken["offset"]) == (1, 1)
    assert len((await get(world.http, "/conversations", parent_id=root))["items"]) == 1


@pytest.mark.requirement("L7")
async def test_process_messages_are_listed_under_the_process_conversation_only(world: ServerWorld) -> None:
    root = await world.conversation()
    await speak(world.http, root, "a", "to echo", target="operator/echo")
    (child,) = (await get(world.http, "/conversations", parent_id=root))["items"]
    echo = await world.actor("operator/echo")
    await speak(echo, child["id"], "work", "thinking")
    assert texts(await history(echo, root)) == ["to echo"]
    assert texts(await history(echo, child["id"])) == ["thinking"]


async def test_people_see_only_conversations_they_take_part_in(world: ServerWorld) -> None:
    mine = await world.conversation()
    stranger = await world.actor("user/stranger")
    assert (await get(stranger, "/conversations"))["items"] == []
    for path in (f"/conversations/{mine}", f"/conversations/{mine}/messages"):
        assert (await get(stranger, path, status=404))["code"] == "conversation_not_found"
    refused = await speak(stranger, mine, "a", status=404)
    assert refused["code"] == "conversation_not_found"
    assert await history(world.http, mine) == []


async def test_the_persons_device_takes_part_from_the_start_once_it_is_known(world: ServerWorld) -> None:
    before = await world.conversation()
    session = await world.link("runtime/laptop")
    after = await world.conversation()
    for conversation in (before, after):
        resource = await get(world.http, f"/conversations/{conversation}/resource")
        assert {"runtime/laptop"} <= {f"{p['kind']}/{p['key']}" for p in resource["spec"]["participants"]}
    await session.close()


@pytest.mark.requirement("P25")
async def test_creating_with_a_key_makes_one_conversation_per_owner(world: ServerWorld) -> None:
    headers = {"idempotency-key": "mine"}
    first = await world.http.post("/v1/conversations", json={"name": "a"}, headers=headers)
    again = await world.http.post("/v1/conversations", json={"name": "b", "key": "mine"})
    assert again.json() == first.json()
    assert (first.status_code, again.status_code) == (201, 200)
    await world.restart()
    assert (await world.http.post("/v1/conversations", json={"key": "mine"})).json() == first.json()
    echo = await world.actor("operator/echo")
    other = await echo.post("/v1/conversations", json={"key": "mine"})
    assert other.json()["id"] != first.json()["id"]
    # A blank belongs to the owner or to the key, and is not what parts them.
    ids: set[str] = set()
    for who, key in (("user/a b", "c"), ("user/a", "b c")):
        made = await (await world.actor(who)).post("/v1/conversations", json={"key": key})
        assert made.status_code == 201
        ids.add(made.json()["id"])
    assert len(ids) == 2
    for key in ("", "x" * 257, "a\u0000", 7):
        refused = await world.http.post("/v1/conversations", json={"key": key})
        assert refused.status_code in (413, 422), key
    assert len((await get(world.http, "/conversations"))["items"]) == 4
