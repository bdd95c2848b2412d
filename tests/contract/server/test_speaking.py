"""Speaking in one go."""

from __future__ import annotations

from typing import Any

import pytest
from tests.contract.server.calls import end, get, history, open_stream, set_text, speak, text_of, wire

from lineloop.testing.server_world import ServerWorld

ERROR_META = {"error": {"code": "operator_failed", "message": "Please try again."}}


def content_with(*blocks: dict[str, Any], **meta: Any) -> dict[str, Any]:
    return {"version": "1.1", "biz": "chat", "meta": meta, "blocks": list(blocks)}


@pytest.mark.requirement("L15")
async def test_a_streaming_message_needs_no_input_before_it(world: ServerWorld) -> None:
    conversation = await world.conversation()
    await world.invite(conversation, "operator/echo", "runtime/laptop")
    echo = await world.actor("operator/echo")
    message = await open_stream(echo, conversation)
    assert (message["status"], message["revision"], message["offset"]) == ("streaming", 0, None)
    assert message["content"]["blocks"] == []


@pytest.mark.requirement("L16")
async def test_the_same_key_answers_the_first_message(world: ServerWorld) -> None:
    conversation = await world.conversation()
    first = await speak(world.http, conversation, "k", "one", target="operator/echo")
    again = await speak(world.http, conversation, "k", "two", target="operator/echo", status=200)
    assert again == first
    assert len(await history(world.http, conversation)) == 1


@pytest.mark.requirement("L17")
@pytest.mark.parametrize("change", [{"target": "operator/other"}, {"target": None}, {"reply_to_id": "msg_x"}])
async def test_the_same_key_with_other_references_is_a_conflict(
    world: ServerWorld, change: dict[str, Any]
) -> None:
    conversation = await world.conversation()
    await speak(world.http, conversation, "k", target="operator/echo")
    refused = await speak(world.http, conversation, "k", **{"target": "operator/echo", **change}, status=409)
    assert refused["code"] == "key_conflict"


async def test_keys_are_per_conversation_and_actor(world: ServerWorld) -> None:
    one, two = await world.conversation(), await world.conversation()
    await world.invite(one, "operator/echo")
    echo = await world.actor("operator/echo")
    ids = {
        (await speak(world.http, one, "k"))["id"],
        (await speak(world.http, two, "k"))["id"],
        (await speak(echo, one, "k"))["id"],
    }
    assert len(ids) == 3


@pytest.mark.requirement("L23", "L26")
async def test_a_one_shot_message_is_stored_ended_and_completed(world: ServerWorld) -> None:
    conversation = await world.conversation()
    message = await speak(world.http, conversation, "k", "whole")
    assert (message["status"], message["offset"], text_of(message)) == ("completed", 1, "whole")
    refused = await world.http.post(
        f"/v1/messages/{message['id']}/patches", json={"patches": [set_text(1, "more")]}
    )
    assert (refused.status_code, refused.json()["code"]) == (409, "message_ended")
    assert await get(world.http, f"/messages/{message['id']}") == message


@pytest.mark.requirement("L24")
@pytest.mark.parametrize("retry", [{"stream": True}, {"status": "completed"}, {}])
async def test_a_failure_is_one_message_that_no_retry_changes(
    world: ServerWorld, retry: dict[str, Any]
) -> None:
    conversation = await world.conversation()
    path = f"/v1/conversations/{conversation}/messages"
    actor = wire("operator/echo")
    body = {"key": "k", "actor": actor, "content": content_with(**ERROR_META), "status": "failed"}
    failed = (await world.http.post(path, json=body)).json()
    assert failed["status"] == "failed"
    assert failed["content"]["meta"] == ERROR_META
    other = content_with({"id": "t", "type": "text", "content": "x"})
    again = await world.http.post(path, json={"key": "k", "actor": actor, "content": other, **retry})
    assert (again.status_code, again.json()) == (200, failed)


@pytest.mark.requirement("L25")
@pytest.mark.parametrize(
    "fields", [{"stream": True, "status": "completed"}, {"status": "streaming"}, {"status": "done"}]
)
async def test_status_and_stream_that_do_not_fit_are_refused(
    world: ServerWorld, fields: dict[str, Any]
) -> None:
    conversation = await world.conversation()
    body = {"key": "k", "text": "x", **fields}
    refused = await world.http.post(f"/v1/conversations/{conversation}/messages", json=body)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")
    assert await history(world.http, conversation) == []


async def test_ordinals_and_offsets_count_within_a_conversation(world: ServerWorld) -> None:
    conversation = await world.conversation()
    stream = await open_stream(world.http, conversation, "s")
    one = await speak(world.http, conversation, "a")
    await end(world.http, stream["id"], 1)
    two = await speak(world.http, conversation, "b")
    ended = await get(world.http, f"/messages/{stream['id']}")
    assert [m["ordinal"] for m in (ended, one, two)] == [1, 2, 3]
    assert [m["offset"] for m in (one, ended, two)] == [1, 2, 3]


@pytest.mark.parametrize("kind", ["ask", "confirm", "human_reply", "result"])
async def test_controlled_blocks_cannot_be_spoken(world: ServerWorld, kind: str) -> None:
    conversation = await world.conversation()
    body = {"key": "k", "content": content_with({"id": "b", "type": kind})}
    refused = await world.http.post(f"/v1/conversations/{conversation}/messages", json=body)
    assert (refused.status_code, refused.json()["code"]) == (422, "block_protected")
    assert await history(world.http, conversation) == []


async def test_purposes_follow_from_speaker_and_content(world: ServerWorld) -> None:
    conversation = await world.conversation()
    await world.invite(conversation, "operator/echo", "runtime/laptop")
    echo = await world.actor("operator/echo")
    envelope = {"type": "lineup.tool.invoke", "correlation": {"call_id": "c1"}}
    block = {"id": "envelope", "type": "envelope", "envelope": envelope}
    assert (await speak(world.http, conversation, "a"))["purpose"] == "input"
    assert (await speak(echo, conversation, "b"))["purpose"] == "speech"
    invoke = await speak(echo, conversation, "c", content=content_with(block), target="runtime/laptop")
    assert invoke["purpose"] == "envelope"
    assert [m["key"] for m in await history(echo, conversation)] == ["a", "b"]
    assert [m["key"] for m in await history(echo, conversation, call_id="c1")] == ["c"]
    assert [m["key"] for m in await history(echo, conversation, purpose="envelope")] == ["c"]
    assert [m["key"] for m in await history(echo, conversation, purpose="all")] == ["a", "b", "c"]


async def test_a_call_is_read_whole_whatever_the_keys_of_its_messages(world: ServerWorld) -> None:
    conversation = await world.conversation()
    await world.invite(conversation, "operator/echo", "runtime/laptop")
    echo = await world.actor("operator/echo")
    for key, call in (("c1", "c1"), ("r1", "c1"), ("c2", "c2"), ("r2", "c1")):
        envelope = {"type": "lineup.tool.invoke", "correlation": {"call_id": call}}
        block = {"id": "envelope", "type": "envelope", "envelope": envelope}
        await speak(echo, conversation, key, content=content_with(block), target="runtime/laptop")
    assert [m["key"] for m in await history(echo, conversation, call_id="c1")] == ["c1", "r1", "r2"]
    assert [m["key"] for m in await history(echo, conversation, call_id="c2")] == ["c2"]


async def test_history_is_paged_in_both_directions(world: ServerWorld) -> None:
    conversation = await world.conversation()
    for number in range(1, 8):
        await speak(world.http, conversation, str(number))
    page = await get(world.http, f"/conversations/{conversation}/messages", limit=3)
    assert [m["ordinal"] for m in page["items"]] == [1, 2, 3]
    rest = await history(world.http, conversation, limit=10, after=page["next"])
    assert [m["ordinal"] for m in rest] == [4, 5, 6, 7]
    last = await get(world.http, f"/conversations/{conversation}/messages", limit=2, order="desc")
    assert [m["ordinal"] for m in last["items"]] == [7, 6]
    older = await history(world.http, conversation, limit=2, order="desc", before=last["next"])
    assert [m["ordinal"] for m in older] == [5, 4]


async def test_a_message_survives_a_restart_as_it_was_acknowledged(world: ServerWorld) -> None:
    conversation = await world.conversation()
    message = await speak(world.http, conversation, "k", "说 “hi” \u2028 \U0001f600", target="operator/échø")
    await world.restart()
    assert await get(world.http, f"/messages/{message['id']}") == message
    assert await speak(world.http, conversation, "k", target="operator/échø", status=200) == message


@pytest.mark.parametrize("purpose", ["envelope", "inventory"])
async def test_a_purpose_that_contradicts_the_content_is_refused(world: ServerWorld, purpose: str) -> None:
    conversation = await world.conversation()
    refused = await speak(world.http, conversation, "a", "words", purpose=purpose, status=422)
    assert refused["code"] == "invalid_request"
    block = {"id": "envelope", "type": "envelope", "envelope": {"type": "lineup.tool.invoke"}}
    body = {"key": "b", "purpose": "speech", "content": content_with(block)}
    answer = await world.http.post(f"/v1/conversations/{conversation}/messages", json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert await history(world.http, conversation, purpose="all") == []
