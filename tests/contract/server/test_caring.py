"""Names, archive and read positions of conversations."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from tests.contract.server.calls import Json, end, get, history, open_stream, speak
from tests.contract.server.stream_reader import Reader, viewer

from lineloop.server.wakeup.bus import Bus
from lineloop.testing.server_world import ServerWorld


async def change(client: httpx.AsyncClient, conversation: str, status: int = 200, **fields: Any) -> Json:
    answer = await client.patch(f"/v1/conversations/{conversation}", json=fields)
    assert answer.status_code == status, answer.text
    return answer.json()


async def mark(client: httpx.AsyncClient, conversation: str, ordinal: Any, status: int = 200) -> Json:
    answer = await client.put(f"/v1/conversations/{conversation}/read", json={"ordinal": ordinal})
    assert answer.status_code == status, answer.text
    return answer.json()


async def listed(client: httpx.AsyncClient, **params: Any) -> list[str]:
    return [one["id"] for one in (await get(client, "/conversations", **params))["items"]]


async def card(client: httpx.AsyncClient, conversation: str) -> Json:
    return await get(client, f"/conversations/{conversation}")


@pytest.mark.requirement("C1")
async def test_a_new_name_is_seen_by_everyone_and_survives_a_restart(world: ServerWorld) -> None:
    conversation = await world.conversation("old")
    echo = await world.actor("operator/echo")
    await world.invite(conversation, "operator/echo")
    assert (await change(world.http, conversation, name="新的名字"))["name"] == "新的名字"
    await change(world.http, conversation, name="新的名字")
    await world.restart()
    assert (await card(echo, conversation))["name"] == "新的名字"
    resource = await get(echo, f"/conversations/{conversation}/resource")
    assert resource["spec"]["name"] == "新的名字"


@pytest.mark.requirement("C1")
async def test_the_resource_store_hears_of_a_new_name(world: ServerWorld) -> None:
    conversation = await world.conversation("old")
    await change(world.http, conversation, name="new")
    await world.advance(2)
    path = f"/apis/loop.lineloop.dev/v1alpha1/namespaces/default/conversations/{conversation}"
    answer = await world.http.get(path)
    assert answer.json()["spec"]["name"] == "new"


@pytest.mark.requirement("C1")
@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "invalid_request"),
        ({"name": ""}, "invalid_request"),
        ({"name": " \t"}, "invalid_request"),
        ({"name": "a\nb"}, "invalid_request"),
        ({"name": "x" * 201}, "invalid_request"),
        ({"name": 7}, "invalid_request"),
        ({"archived": "yes"}, "invalid_request"),
        ({"archived": 1}, "invalid_request"),
        ({"name": None, "archived": None}, "invalid_request"),
        ({"name": "fine", "owner": "me"}, "unknown_field"),
        ([], "invalid_request"),
    ],
)
async def test_a_change_that_is_none_is_refused_and_changes_nothing(
    world: ServerWorld, body: Any, code: str
) -> None:
    conversation = await world.conversation("kept")
    before = await card(world.http, conversation)
    answer = await world.http.patch(f"/v1/conversations/{conversation}", json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, code)
    assert await card(world.http, conversation) == before


@pytest.mark.requirement("C1", "C2")
async def test_who_does_not_see_a_conversation_cannot_care_for_it(world: ServerWorld) -> None:
    conversation = await world.conversation("kept")
    stranger = await world.actor("operator/stranger")
    refused = await change(stranger, conversation, 404, name="mine")
    assert refused["code"] == "conversation_not_found"
    reader = await world.actor("user/local", ["read"])
    assert (await change(reader, conversation, 403, archived=True))["code"] == "forbidden"
    assert (await change(world.http, "con_none", 404, archived=True))["code"] == "conversation_not_found"
    assert (await card(world.http, conversation))["name"] == "kept"


@pytest.mark.requirement("C1", "C2")
async def test_a_process_conversation_has_no_name_and_archive_of_its_own(world: ServerWorld) -> None:
    root = await world.conversation()
    await speak(world.http, root, "a", target="operator/echo")
    (child,) = await listed(world.http, parent_id=root)
    assert (await change(world.http, child, 422, name="x"))["code"] == "invalid_request"
    assert (await change(world.http, child, 422, archived=True))["code"] == "invalid_request"
    archived = await change(world.http, root, archived=True)
    assert (await card(world.http, child))["archived_at"] == archived["archived_at"] is not None


@pytest.mark.requirement("C2")
async def test_archived_conversations_are_listed_on_request_only(world: ServerWorld) -> None:
    first, second = await world.conversation(), await world.conversation()
    echo = await world.actor("operator/echo")
    both = await world.actor("operator/*")
    for conversation in (first, second):
        await world.invite(conversation, "operator/echo")
    archived = await change(world.http, first, archived=True)
    await world.advance(5)
    assert await change(world.http, first, archived=True) == archived
    for client in (world.http, echo, both):
        assert await listed(client) == [second]
        assert await listed(client, archived="true") == [first]
        assert await listed(client, archived="any") == [first, second]
    assert (await get(world.http, "/conversations", 422, archived="maybe"))["code"] == "invalid_request"
    await speak(world.http, second, "a")
    assert len(await history(world.http, first)) == 0
    restored = await change(world.http, first, archived=False)
    assert restored["archived_at"] is None
    assert await listed(world.http) == [first, second]


@pytest.mark.requirement("C3")
async def test_what_is_said_brings_an_archived_conversation_back(world: ServerWorld) -> None:
    conversation = await world.conversation()
    echo = await world.actor("operator/echo")
    await speak(world.http, conversation, "a", target="operator/echo")
    await change(world.http, conversation, archived=True)
    await speak(echo, conversation, "b")
    assert (await card(world.http, conversation))["archived_at"] is None
    await change(world.http, conversation, archived=True)
    await open_stream(echo, conversation)
    assert (await card(world.http, conversation))["archived_at"] is None
    await change(world.http, conversation, archived=True)
    body = {
        "kind": "confirm",
        "effect_key": "e",
        "to": {"kind": "user", "key": "local"},
        "text": "Sure?",
        "timeout_ms": 1000,
    }
    assert (await echo.post(f"/v1/conversations/{conversation}/questions", json=body)).status_code == 201
    assert (await card(world.http, conversation))["archived_at"] is None


@pytest.mark.requirement("C3")
async def test_traffic_between_programs_and_a_repeated_message_leave_it_archived(world: ServerWorld) -> None:
    conversation = await world.conversation()
    await speak(world.http, conversation, "a", target="operator/echo")
    (child,) = await listed(world.http, parent_id=conversation)
    archived = (await change(world.http, conversation, archived=True))["archived_at"]
    block = {"id": "envelope", "type": "envelope", "envelope": {"type": "lineup.tool.invoke"}}
    content = {"version": "1.1", "biz": "chat", "meta": {}, "blocks": [block]}
    await speak(world.http, conversation, "b", content=content, target="operator/echo")
    await speak(world.http, conversation, "a", status=200, target="operator/echo")
    echo = await world.actor("operator/echo")
    await speak(echo, child, "working")
    assert (await card(world.http, conversation))["archived_at"] == archived


@pytest.mark.requirement("C4")
async def test_unread_counts_what_others_said_to_people(world: ServerWorld) -> None:
    conversation = await world.conversation()
    echo = await world.actor("operator/echo")
    first = await speak(world.http, conversation, "a", target="operator/echo")
    await speak(echo, conversation, "b")
    stream = await open_stream(echo, conversation)
    block = {"id": "envelope", "type": "envelope", "envelope": {"type": "lineup.tool.invoke"}}
    content = {"version": "1.1", "biz": "chat", "meta": {}, "blocks": [block]}
    await speak(echo, conversation, "e", content=content, target="user/local")
    mine = await card(world.http, conversation)
    assert (mine["read_ordinal"], mine["unread"], mine["last_ordinal"]) == (0, 2, 4)
    assert (await get(world.http, "/conversations"))["items"] == [mine]
    read = await mark(world.http, conversation, first["ordinal"] + 1)
    assert read == {"conversation_id": conversation, "ordinal": 2, "unread": 1}
    await end(echo, stream["id"], 1)
    assert (await mark(world.http, conversation, 4))["unread"] == 0
    theirs = await card(echo, conversation)
    assert (theirs["read_ordinal"], theirs["unread"]) == (None, None)


@pytest.mark.requirement("C4")
async def test_a_read_position_never_moves_back_nor_beyond_the_last_message(world: ServerWorld) -> None:
    conversation = await world.conversation()
    await world.invite(conversation, "user/eva", "operator/echo")
    echo = await world.actor("operator/echo")
    eva = await world.actor("user/eva")
    for number in range(3):
        await speak(echo, conversation, f"m{number}")
    assert (await mark(world.http, conversation, 2))["ordinal"] == 2
    assert (await mark(world.http, conversation, 1))["ordinal"] == 2
    assert (await mark(world.http, conversation, 99))["ordinal"] == 3
    await speak(echo, conversation, "m3")
    await world.restart()
    assert (await card(world.http, conversation))["unread"] == 1
    assert (await card(eva, conversation))["unread"] == 4


@pytest.mark.requirement("C4")
async def test_only_a_person_who_sees_the_conversation_has_a_position(world: ServerWorld) -> None:
    conversation = await world.conversation()
    await world.invite(conversation, "operator/echo")
    echo, eva = await world.actor("operator/echo"), await world.actor("user/eva")
    assert (await mark(echo, conversation, 1, 403))["code"] == "forbidden"
    assert (await mark(eva, conversation, 1, 404))["code"] == "conversation_not_found"
    for wrong in (-1, 1.5, "1", None, True, 10**16):
        assert (await mark(world.http, conversation, wrong, 422))["code"] == "invalid_request"
    assert (await card(world.http, conversation))["read_ordinal"] == 0


@pytest.mark.requirement("C4")
async def test_unread_is_counted_up_to_its_bound_and_lists_tell_when_something_was_said(
    world: ServerWorld,
) -> None:
    conversation = await world.conversation()
    echo = await world.actor("operator/echo")
    await world.invite(conversation, "operator/echo")
    created = await card(world.http, conversation)
    assert created["updated_at"] == created["created_at"]
    for number in range(205):
        await speak(echo, conversation, f"m{number}")
    await world.advance(60)
    last = await speak(echo, conversation, "last")
    mine = await card(world.http, conversation)
    assert mine["unread"] == 200
    assert mine["updated_at"] == last["created_at"] != mine["created_at"]


async def told(reader: Reader) -> Json:
    return (await reader.until("conversation"))["conversation"]


@pytest.mark.requirement("C5")
async def test_other_viewers_of_a_person_hear_of_name_archive_and_position(world: ServerWorld) -> None:
    conversation = await world.conversation("old")
    await world.invite(conversation, "operator/echo", "user/eva")
    echo, eva = await world.actor("operator/echo"), await world.actor("user/eva")
    await speak(echo, conversation, "a")
    async with viewer(world.http, conversation) as mine, viewer(eva, conversation) as hers:
        await mine.until("ping")
        await hers.until("ping")
        await mark(world.http, conversation, 1)
        seen = await told(mine)
        assert (seen["read_ordinal"], seen["unread"]) == (1, 0)
        await change(world.http, conversation, name="new")
        assert (await told(mine))["name"] == "new"
        heard = await told(hers)
        assert (heard["name"], heard["read_ordinal"]) == ("new", 0)
        await change(eva, conversation, archived=True)
        assert (await told(mine))["archived_at"] is not None
        await speak(echo, conversation, "b")
        assert (await told(mine))["archived_at"] is None


@pytest.mark.requirement("C5")
async def test_a_hint_that_was_lost_is_made_up_for_by_the_heartbeat(
    world: ServerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation = await world.conversation("old")
    async with viewer(world.http, conversation) as reader:
        await reader.until("ping")
        with monkeypatch.context() as deaf:
            deaf.setattr(Bus, "publish", lambda *_: None)
            await change(world.http, conversation, name="new")
        heard = asyncio.get_running_loop().create_task(told(reader))
        await world.advance(16)
        assert (await heard)["name"] == "new"
