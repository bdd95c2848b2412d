"""Many at once: one child, gap-free offsets in commit order, one message per key, one End."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx
import pytest

from lineloop.testing.asgi_transport import AsgiTransport
from lineloop.testing.server_world import HOST, ServerWorld, server_world


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[ServerWorld]:
    async with server_world(tmp_path) as world:
        yield world


async def post(client: httpx.AsyncClient, path: str, body: Any) -> httpx.Response:
    return await client.post(f"/v1{path}", json=body)


@pytest.mark.requirement("L6")
async def test_many_first_messages_to_one_actor_make_one_process_conversation(world: ServerWorld) -> None:
    conversation = await world.conversation()
    path = f"/conversations/{conversation}/messages"
    target = {"kind": "operator", "key": "echo"}
    answers = await asyncio.gather(
        *(post(world.http, path, {"key": str(n), "text": "x", "target": target}) for n in range(40))
    )
    assert {answer.status_code for answer in answers} == {201}
    children = (await world.http.get(f"/v1/conversations?parent_id={conversation}")).json()["items"]
    assert len(children) == 1
    assert sorted(answer.json()["offset"] for answer in answers) == list(range(1, 41))


@pytest.mark.requirement("L16")
async def test_the_same_key_from_many_callers_is_one_message(world: ServerWorld) -> None:
    conversation = await world.conversation()
    path = f"/conversations/{conversation}/messages"
    answers = await asyncio.gather(
        *(post(world.http, path, {"key": "same", "text": str(n)}) for n in range(30))
    )
    assert sorted(answer.status_code for answer in answers) == [200] * 29 + [201]
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert len({answer.json()["content"]["blocks"][0]["content"] for answer in answers}) == 1


async def test_a_reader_never_sees_a_smaller_offset_after_a_larger_one(world: ServerWorld) -> None:
    conversation = await world.conversation()
    path = f"/conversations/{conversation}/messages"
    seen: list[int] = []
    writing = True

    async def read() -> None:
        while writing or (seen and seen[-1] < 60) or not seen:
            body = {"after": seen[-1] if seen else 0}
            inbox = (await post(world.http, f"/conversations/{conversation}/poll", body)).json()
            seen.extend(message["offset"] for message in inbox["messages"])

    async def write(number: int) -> None:
        actor = {"kind": "operator", "key": f"w{number % 7}"}
        opened = await post(world.http, path, {"key": str(number), "actor": actor, "stream": True})
        await post(world.http, f"/messages/{opened.json()['id']}/end", {"seq": 1})

    reading = asyncio.gather(read())
    await asyncio.gather(*(write(number) for number in range(60)))
    writing = False
    await reading
    assert seen == list(range(1, 61))


async def test_of_two_different_ends_exactly_one_wins(world: ServerWorld) -> None:
    conversation = await world.conversation()
    for number in range(10):
        body = {"key": str(number), "stream": True}
        message = (await post(world.http, f"/conversations/{conversation}/messages", body)).json()["id"]
        ends = await asyncio.gather(
            *(
                post(world.http, f"/messages/{message}/end", {"seq": 1, "status": status})
                for status in ("completed", "failed", "cancelled")
            )
        )
        assert sorted(answer.status_code for answer in ends) == [202, 409, 409]
        winner = next(answer.json()["status"] for answer in ends if answer.status_code == 202)
        assert (await world.http.get(f"/v1/messages/{message}")).json()["status"] == winner


async def test_two_writers_of_one_message_never_tear_it(world: ServerWorld) -> None:
    """Both number from what they know; exactly one of two different patches with one seq is accepted."""
    conversation = await world.conversation()
    body = {"key": "s", "stream": True}
    message = (await post(world.http, f"/conversations/{conversation}/messages", body)).json()["id"]
    path = f"/messages/{message}/patches"
    first = {"op": "set", "seq": 1, "block": {"id": "t", "type": "text", "content": ""}}
    await post(world.http, path, {"patches": [first]})
    expected = ""
    for seq in range(2, 30):
        patches = [
            {"op": "append", "seq": seq, "mask": "block.content", "block": {"id": "t", "content": who}}
            for who in "ab"
        ]
        answers = await asyncio.gather(*(post(world.http, path, {"patches": [patch]}) for patch in patches))
        assert sorted(answer.status_code for answer in answers) == [202, 409]
        expected += "ab"[[answer.status_code for answer in answers].index(202)]
    stored = (await world.http.get(f"/v1/messages/{message}")).json()
    assert (stored["content"]["blocks"][0]["content"], stored["revision"]) == (expected, 29)


async def test_closing_an_answer_in_the_middle_loses_nothing_that_was_accepted(world: ServerWorld) -> None:
    """A caller that goes away cancels nothing that was queued."""
    conversation = await world.conversation()
    transport = AsgiTransport(world.server.asgi)
    headers = {"authorization": f"Bearer {world.admin_token}"}
    client = httpx.AsyncClient(transport=transport, base_url=HOST, headers=headers)
    calls = [
        asyncio.ensure_future(
            post(client, f"/conversations/{conversation}/messages", {"key": str(n), "text": "x"})
        )
        for n in range(20)
    ]
    done, pending = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
    for call in pending:
        call.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    await client.aclose()
    await transport.aclose()
    await world.clock.settle()
    items = (await world.http.get(f"/v1/conversations/{conversation}/messages?limit=100")).json()["items"]
    accepted = {call.result().json()["id"] for call in done}
    assert accepted <= {item["id"] for item in items}
    assert [item["offset"] for item in items] == list(range(1, len(items) + 1))
