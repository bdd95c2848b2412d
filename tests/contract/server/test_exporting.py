"""Conversations as documents."""

from __future__ import annotations

import httpx
import pytest
from tests.contract.server.calls import Json, emit, get, history, open_stream, set_text, speak

from lineloop.client import Loop
from lineloop.client.in_process import InProcessTransport
from lineloop.testing.server_world import ServerWorld


async def export(client: httpx.AsyncClient, conversation: str, status: int = 200, **params: str) -> str:
    answer = await client.get(f"/v1/conversations/{conversation}/export", params=params)
    assert answer.status_code == status, answer.text
    return answer.text


async def filled(world: ServerWorld) -> str:
    """A conversation with more than a page of messages, an envelope, an attachment and working messages."""
    conversation = await world.conversation("花园 / plans")
    planner = await world.actor("operator/planner")
    await speak(world.http, conversation, "a", "# not a heading\n```\nnor an end", target="operator/planner")
    block: Json = {"id": "envelope", "type": "envelope", "envelope": {"type": "lineup.tool.invoke"}}
    content: Json = {"version": "1.1", "biz": "chat", "meta": {}, "blocks": [block]}
    await speak(world.http, conversation, "e", content=content, target="operator/planner")
    blob = (await world.http.post("/v1/blobs", content=b"%PDF")).json()
    attached = {"id": "file", "type": "attachment", "name": "plan.pdf", **blob}
    odd = {"id": "odd", "type": "chart", "points": [1, 2]}
    await speak(world.http, conversation, "f", content={**content, "blocks": [attached, odd]})
    for number in range(45):
        await speak(planner, conversation, f"k{number}", f"said {number}")
    stream = await open_stream(planner, conversation, "s")
    await emit(planner, stream["id"], set_text(1, "still writing"))
    (child,) = (await get(world.http, "/conversations", parent_id=conversation))["items"]
    await speak(planner, child["id"], "w", "working")
    return conversation


@pytest.mark.requirement("C14")
async def test_json_holds_everything_but_envelopes_and_is_always_the_same(world: ServerWorld) -> None:
    conversation = await filled(world)
    answer = await world.http.get(f"/v1/conversations/{conversation}/export")
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["content-disposition"].startswith("attachment; filename*=UTF-8''%E8%8A%B1")
    document = answer.json()
    assert document["format"] == "lineloop.conversation.v1"
    assert document["conversation"]["name"] == "花园 / plans"
    assert document["messages"] == await history(world.http, conversation, limit=100)
    assert len(document["messages"]) == 48
    (process,) = document["process_conversations"]
    assert process["conversation"]["parent_id"] == conversation
    assert [one["key"] for one in process["messages"]] == ["w"]
    await world.http.put(f"/v1/conversations/{conversation}/read", json={"ordinal": 3})
    await world.restart()
    assert (await world.http.get(f"/v1/conversations/{conversation}/export")).content == answer.content


@pytest.mark.requirement("C14")
async def test_markdown_shows_everything_and_nothing_said_looks_like_a_heading(world: ServerWorld) -> None:
    conversation = await filled(world)
    text = await export(world.http, conversation, format="markdown")
    assert text.startswith("# 花园 / plans\n")
    assert "\n> # not a heading\n> ```\n> nor an end\n" in text
    assert text.count("\n## ") == 49
    assert "- attachment `plan.pdf` (application/octet-stream, 4 bytes): `sha256:" in text
    assert '- ` {"id":"odd","type":"chart","points":[1,2]} `' in text
    assert "still writing" in text and "streaming" in text
    assert "\n# Working messages of `operator/planner`\n" in text and "> working" in text
    assert "lineup.tool" not in text
    assert await export(world.http, conversation, format="markdown") == text


@pytest.mark.requirement("C14")
async def test_who_does_not_see_it_exports_nothing_and_a_role_only_what_it_sees(world: ServerWorld) -> None:
    conversation = await filled(world)
    stranger = await world.actor("operator/stranger")
    assert "conversation_not_found" in await export(stranger, conversation, 404)
    await world.invite(conversation, "operator/stranger")
    assert '"process_conversations":[\n]' in await export(stranger, conversation)
    assert "invalid_request" in await export(world.http, conversation, 422, format="pdf")
    empty = await world.conversation()
    assert '"messages":[\n]' in await export(world.http, empty)


@pytest.mark.requirement("C14")
async def test_the_client_exports_and_searches(world: ServerWorld) -> None:
    conversation = await filled(world)
    await world.advance(1)
    async with Loop(InProcessTransport(world.server.asgi, world.server.open_link, world.admin_token)) as loop:
        async with loop.conversation(conversation).export("markdown") as parts:
            whole = b"".join([part async for part in parts]).decode()
        assert whole == await export(world.http, conversation, format="markdown")
        page = await loop.search("said 44", conversation_id=conversation, limit=5)
        assert [hit.text for hit in page.items] == ["said 44"]
        found = await loop.search("plan.pdf")
        assert [hit.ordinal for hit in found.items] == [3]
