"""Messages that grow large, numbers with many digits, and limits to the byte."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path

import pytest
from tests.contract.server.calls import Json, emit, end, get, history, open_stream, poll, set_text, speak
from tests.contract.server.stream_reader import viewer

from lineloop.kit import json
from lineloop.server.commit.context import CommitLimits
from lineloop.server.settings import ServerSettings
from lineloop.testing.server_world import ServerWorld, server_world

MIB = 1024 * 1024
PIECE = 900 * 1024


def append(seq: int, text: str) -> Json:
    return {"op": "append", "seq": seq, "mask": "block.content", "block": {"id": "text", "content": text}}


async def grow(world: ServerWorld, message: str, size: int, begin: int = 2) -> tuple[str, int]:
    """Appends until the block holds `size` characters: (its text, the next seq)."""
    text, seq = "", begin
    while len(text) < size:
        piece = f"{seq:04d}"[-4:] * (min(PIECE, size - len(text)) // 4)
        await emit(world.http, message, append(seq, piece))
        text, seq = text + piece, seq + 1
    return text, seq


@pytest.mark.requirement("L41")
@pytest.mark.parametrize("size", [2 * MIB, 9 * MIB])
async def test_a_large_block_is_read_as_one_live_as_history_and_as_snapshot(
    world: ServerWorld, size: int
) -> None:
    conversation = await world.conversation()
    message = await open_stream(world.http, conversation, target="operator/echo")
    async with viewer(world.http, conversation) as live:
        await live.until("message")
        await emit(world.http, message["id"], set_text(1, ""))
        text, seq = await grow(world, message["id"], size)
        while live.messages[message["id"]]["revision"] < seq - 1:
            await live.next()
        (block,) = live.messages[message["id"]]["content"]["blocks"]
        assert block["content"] == text
        async with viewer(world.http, conversation) as late:
            await late.until("message")
            (block,) = late.messages[message["id"]]["content"]["blocks"]
            assert block["content"] == text
        await end(world.http, message["id"], seq)
        while live.messages[message["id"]]["status"] == "streaming":
            await live.next()
        assert live.messages[message["id"]]["content"]["blocks"][0]["content"] == text
    await world.restart()
    (stored,) = await history(world.http, conversation)
    assert [block["content"] == text for block in stored["content"]["blocks"]] == [True]
    (polled,) = (await poll(await world.actor("operator/echo"), conversation))["messages"]
    assert polled["content"] == stored["content"]


def size_of(message: Json) -> int:
    return len(json.dumps(message["content"]).encode())


@pytest.mark.requirement("L122")
async def test_a_message_exactly_at_the_limit_is_accepted_and_one_byte_more_is_not(
    world: ServerWorld,
) -> None:
    limit = CommitLimits().message_bytes
    assert limit == 16 * MIB
    conversation = await world.conversation()
    message = await open_stream(world.http, conversation)
    await emit(world.http, message["id"], set_text(1, ""))
    empty = size_of(await get(world.http, f"/messages/{message['id']}"))
    _, seq = await grow(world, message["id"], (limit - empty) // 4 * 4)
    rest = (limit - empty) % 4
    if rest:
        await emit(world.http, message["id"], append(seq, "x" * rest))
        seq += 1
    whole = await get(world.http, f"/messages/{message['id']}")
    assert size_of(whole) == limit
    refused = await emit(world.http, message["id"], append(seq, "y"), status=413)
    assert (refused["code"], refused["context"]["limit"]) == ("limit_exceeded", "message_bytes")
    assert await get(world.http, f"/messages/{message['id']}") == whole
    await end(world.http, message["id"], seq)
    assert size_of(await get(world.http, f"/messages/{message['id']}")) == limit


@pytest.mark.requirement("L122")
async def test_a_request_exactly_at_the_body_limit_is_accepted_and_one_byte_more_is_not(
    world: ServerWorld,
) -> None:
    conversation = await world.conversation()
    path = f"/v1/conversations/{conversation}/messages"
    frame = len(json.dumps({"key": "a", "text": ""}))
    for key, spare, status in (("a", 0, 201), ("b", 1, 413)):
        body = json.dumps({"key": key, "text": "x" * (MIB - frame + spare)}).encode()
        answer = await world.http.post(path, content=body, headers={"content-type": "application/json"})
        assert answer.status_code == status
        if status == 413:
            assert answer.json()["context"]["limit"] == "body_bytes"
    assert [message["key"] for message in await history(world.http, conversation)] == ["a"]


async def test_near_the_limit_every_small_append_still_counts_exactly(tmp_path: Path) -> None:
    settings = ServerSettings(tmp_path / "server.db", limits=CommitLimits(message_bytes=20_000))
    async with server_world(tmp_path, settings=settings) as world:
        conversation = await world.conversation()
        message = await open_stream(world.http, conversation)
        await emit(world.http, message["id"], set_text(1, ""))
        empty = size_of(await get(world.http, f"/messages/{message['id']}"))
        seq, left = 2, 20_000 - empty
        while left:
            size = min(left, 211)
            await emit(world.http, message["id"], append(seq, "x" * size))
            seq, left = seq + 1, left - size
        refused = await emit(world.http, message["id"], append(seq, "x"), status=413)
        assert refused["code"] == "limit_exceeded"
        await emit(world.http, message["id"], {"op": "ping", "seq": seq})


NUMBERS = (
    '{"big":123456789012345678901234567890123456789,"minus":-98765432109876543210,'
    '"long":3.14159265358979323846264338327950288,"small":0.1000000000000000055511151231257827,'
    '"exponent":1.23456789012345678901E+30,"plain":0.1,"one":1}'
)


@pytest.mark.requirement("L118")
async def test_numbers_keep_their_digits_through_storage_snapshot_stream_and_link(world: ServerWorld) -> None:
    conversation = await world.conversation()
    await world.invite(conversation, "operator/echo")
    link = await world.link("operator/echo")
    await link.receive()
    message = await open_stream(world.http, conversation, target="operator/echo")
    path = f"/v1/messages/{message['id']}"
    asked = {"content-type": "application/json"}
    block = f'{{"id":"n","type":"data","data":{NUMBERS},"list":[]}}'
    first = f'{{"patches":[{{"op":"set","seq":1,"block":{block}}}]}}'
    more = (
        '{"patches":[{"op":"append","seq":2,"mask":"block.list","block":'
        f'{{"id":"n","list":[{NUMBERS}]}}}},{{"op":"set","seq":3,"mask":"meta.n","meta":{{"n":{NUMBERS}}}}}]}}'
    )
    async with world.http.stream("GET", f"/v1/conversations/{conversation}/stream") as live:
        lines = live.aiter_lines()
        seen = ""
        while seen.count("event: ping") < 2:
            seen += await anext(lines) + "\n"
        for body in (first, more):
            answer = await world.http.post(f"{path}/patches", content=body, headers=asked)
            assert answer.status_code == 202, answer.text
        assert (await world.http.post(f"{path}/end", json={"seq": 4})).status_code == 202
        async with asyncio.timeout(5):
            while '"completed"' not in seen:
                seen += await anext(lines) + "\n"
    data = [line for line in seen.splitlines() if line.startswith("data:")]
    patched = "".join(line for line in data if '"patch"' in line)
    assert (patched.count(NUMBERS), data[-1].count(NUMBERS)) == (3, 3)
    assert (await world.http.get(path)).text.count(NUMBERS) == 3
    deliveries: list[Json] = []
    async with asyncio.timeout(5):
        while not deliveries:
            deliveries = json.loads((await link.next_frame()).text()).get("deliver", [])
    (delivered,) = deliveries
    assert json.dumps(delivered["content"]).count(NUMBERS) == 3
    assert delivered["content"]["blocks"][0]["data"]["long"] == Decimal(
        "3.14159265358979323846264338327950288"
    )
    await world.restart()
    assert (await world.http.get(path)).text.count(NUMBERS) == 3


async def test_what_a_link_says_with_many_digits_is_stored_with_them(world: ServerWorld) -> None:
    conversation = await world.conversation()
    await world.invite(conversation, "operator/echo")
    link = await world.link("operator/echo")
    await link.receive()
    content = (
        f'{{"version":"1.1","biz":"chat","meta":{{}},"blocks":[{{"id":"n","type":"data","data":{NUMBERS}}}]}}'
    )
    await link.send(
        f'{{"id":"1","speak":[{{"conversation_id":"{conversation}","key":"a","content":{content}}}]}}'
    )
    assert NUMBERS in (await link.next_frame()).text()
    assert NUMBERS in (await world.http.get(f"/v1/conversations/{conversation}/messages")).text
    assert (await speak(world.http, conversation, "b"))["ordinal"] == 2
