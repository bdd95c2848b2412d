"""The link: pushes, batches, catching up."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.contract.server.calls import (
    Json,
    commit,
    emit,
    end,
    get,
    history,
    open_stream,
    poll,
    set_text,
    speak,
    wire,
)

from lineloop.kit import json
from lineloop.kit.faults import Faults
from lineloop.protocol.errors import ConnectionLost, LoopError
from lineloop.server.http.link import MAX_QUEUED_MESSAGES, LinkSession
from lineloop.testing.server_world import ServerWorld


async def hello(session: LinkSession) -> Json:
    return (await session.receive())["hello"]


async def frame_with(session: LinkSession, field: str) -> Any:
    """The next frame that has `field`; others are passed over."""
    async with asyncio.timeout(5):
        while True:
            frame = await session.receive()
            if field in frame:
                return frame[field]


async def delivered(session: LinkSession, count: int) -> list[Json]:
    messages: list[Json] = []
    while len(messages) < count:
        messages += await frame_with(session, "deliver")
    return messages


async def test_the_first_frame_says_who_one_is_and_which_database_this_is(world: ServerWorld) -> None:
    session = await world.link("operator/echo")
    first = await hello(session)
    assert (first["actor"], first["protocol"]) == (wire("operator/echo"), 1)
    assert first["heartbeat_ms"] == 15_000
    await world.restart()
    assert (await hello(await world.link("operator/echo")))["epoch"] == first["epoch"]


@pytest.mark.parametrize("as_text", [True, False])
async def test_an_item_has_the_limit_of_a_body(world: ServerWorld, as_text: bool) -> None:
    conversation = await world.conversation()
    await world.invite(conversation, "operator/echo")
    echo, session = await world.actor("operator/echo"), await world.link("operator/echo")
    await hello(session)
    stream = await open_stream(echo, conversation)
    large, small = "ä" * 530_000, "ä" * 500_000
    place = {"conversation_id": conversation}
    speaks = [{**place, "key": f"k{at}", "text": text} for at, text in enumerate([large, small, small])]
    patches = [{"message_id": stream["id"], "patches": [set_text(1, text)]} for text in (large, small)]
    frame = {"id": 7, "speak": speaks, "patches": patches}
    await session.send(json.dumps(frame) if as_text else frame)
    results = await frame_with(session, "results")
    assert [result.get("ok", False) for result in results] == [False, True, True, False, True]
    over_http = [
        await speak(echo, conversation, "h", large, status=413),
        await emit(echo, stream["id"], set_text(2, large), status=413),
    ]
    for at, problem in zip((0, 3), over_http, strict=True):
        refused = results[at]["error"]
        assert (refused["code"], refused["status"]) == ("limit_exceeded", 413)
        assert refused["context"] == problem["context"] == {"limit": "body_bytes", "max": 1024 * 1024}
    assert len(await history(echo, conversation)) == 3


@pytest.mark.parametrize("frame", ['{"id":null,"speak":[]}', '{"speak":[]}', "{}", '{"ping":{},"end":[]}'])
async def test_a_frame_without_an_id_is_answered_too(world: ServerWorld, frame: str) -> None:
    session = await world.link("operator/echo")
    await hello(session)
    await session.send(frame)
    answer = await session.receive()
    assert (answer["id"], answer["error"]["code"]) == (None, "invalid_request")
    await session.send('{"id":1,"speak":[]}')
    assert await session.receive() == {"id": 1, "results": []}


async def test_messages_are_pushed_as_they_become_deliverable(world: ServerWorld) -> None:
    conversation = await world.conversation()
    session = await world.link("operator/echo")
    first = await speak(world.http, conversation, "a", target="operator/echo")
    stream = await open_stream(world.http, conversation, "s", target="operator/echo")
    second = await speak(world.http, conversation, "b")
    await end(world.http, stream["id"], 1)
    messages = await delivered(session, 3)
    assert [m["id"] for m in messages] == [first["id"], second["id"], stream["id"]]
    assert messages[0] == first


async def test_what_waited_is_pushed_first_and_nothing_twice(world: ServerWorld) -> None:
    conversation = await world.conversation()
    for number in range(250):
        await speak(world.http, conversation, str(number), str(number), target="operator/echo")
    session = await world.link("operator/echo")
    await speak(world.http, conversation, "new", "new", target="operator/echo")
    messages = await delivered(session, 251)
    assert [m["offset"] for m in messages] == list(range(1, 252))


async def test_committed_messages_are_not_pushed_again(world: ServerWorld) -> None:
    conversation = await world.conversation()
    for number in range(3):
        await speak(world.http, conversation, str(number), target="operator/echo")
    session = await world.link("operator/echo")
    await delivered(session, 3)
    await session.send({"id": 1, "commit": [{"conversation_id": conversation, "position": 2}]})
    assert await frame_with(session, "results") == [{"ok": True}]
    await session.close()
    again = await world.link("operator/echo")
    assert [m["offset"] for m in await delivered(again, 1)] == [3]


@pytest.mark.requirement("L51")
async def test_a_commit_beyond_what_was_pushed_is_refused_also_after_a_crash(world: ServerWorld) -> None:
    conversation = await world.conversation()
    for number in range(2):
        await speak(world.http, conversation, str(number), target="operator/echo")
    session = await world.link("operator/echo")
    await hello(session)
    item = {"conversation_id": conversation, "position": 2}
    await session.send({"id": 1, "commit": [item]})
    frames = [await session.receive(), await session.receive()]
    (refused,) = next(frame["results"] for frame in frames if "results" in frame)
    assert refused["error"]["code"] == "position_conflict"
    assert [len(frame["deliver"]) for frame in frames if "deliver" in frame] == [2]
    await session.send({"id": 2, "commit": [item]})
    assert await frame_with(session, "results") == [{"ok": True}]


async def test_the_items_of_a_frame_share_a_commit_and_are_answered_in_order(world: ServerWorld) -> None:
    conversation = await world.conversation()
    await speak(world.http, conversation, "in", target="operator/echo")
    echo = await world.actor("operator/echo")
    stream = await open_stream(echo, conversation, "s")
    session = await world.link("operator/echo")
    await delivered(session, 1)
    await world.clock.settle()
    commits = world.server.db.commits
    await session.send(
        {
            "id": "f1",
            "end": [{"message_id": stream["id"], "seq": 2}],
            "patches": [{"message_id": stream["id"], "patches": [set_text(1, "x")]}],
            "commit": [{"conversation_id": conversation, "position": 1}],
            "speak": [
                {"conversation_id": conversation, "key": "a", "text": "one"},
                {"conversation_id": "con_none", "key": "b", "text": "two"},
                {"conversation_id": conversation, "key": "c"},
            ],
        }
    )
    results = await frame_with(session, "results")
    assert results[0]["message"]["key"] == "a"
    assert results[1]["error"]["code"] == "conversation_not_found"
    assert results[2]["error"]["code"] == "invalid_request"
    assert results[3] == {"ok": True}
    assert results[4] == {"ok": True, "revision": 1, "status": "streaming"}
    assert results[5] == {"ok": True, "revision": 2, "status": "completed"}
    # One for the frame; the resource that follows from it may already have taken another.
    assert world.server.db.commits <= commits + 2


async def test_a_frame_that_cannot_be_read_is_refused_and_the_link_lives(world: ServerWorld) -> None:
    session = await world.link("operator/echo")
    await hello(session)
    await session.send("{nonsense")
    assert (await frame_with(session, "error"))["code"] == "malformed_json"
    await session.send({"id": 1, "dance": []})
    assert (await frame_with(session, "error"))["code"] == "unknown_field"
    await session.send({"ping": {}})
    assert await frame_with(session, "pong") == {}


async def test_a_silent_link_is_pinged(world: ServerWorld) -> None:
    session = await world.link("operator/echo")
    await hello(session)
    waiting = world.server.services.tasks.spawn(session.receive(), name="receive")
    await world.advance(14.9)
    assert not waiting.done()
    await world.advance(0.2)
    assert waiting.result() == {"ping": {}}


async def test_a_side_that_is_silent_for_three_heartbeats_is_gone(world: ServerWorld) -> None:
    session = await world.link("operator/echo")
    await hello(session)

    async def read() -> int:
        pings = 0
        try:
            while True:
                pings += "ping" in await session.receive()
        except ConnectionLost:
            return pings

    reading = world.server.services.tasks.spawn(read(), name="read")
    await world.advance(45)
    await session.send({"pong": {}})
    await world.advance(50)
    assert not reading.done()
    await world.advance(15)
    assert reading.result() >= 6
    assert len(world.server.services.links) == 0


async def test_a_slow_reader_holds_no_memory_and_misses_nothing(world: ServerWorld) -> None:
    conversation = await world.conversation()
    session = await world.link("operator/echo")
    count = MAX_QUEUED_MESSAGES + 40
    writer = await world.link("user/local")
    await hello(writer)
    for start in range(0, count, 138):
        items = [
            {"conversation_id": conversation, "key": str(n), "text": "x", "target": wire("operator/echo")}
            for n in range(start, min(start + 138, count))
        ]
        await writer.send({"id": start, "speak": items})
        await frame_with(writer, "results")
    assert len(session._messages) <= MAX_QUEUED_MESSAGES  # pyright: ignore[reportPrivateUsage]
    messages = await delivered(session, count)
    assert [m["offset"] for m in messages] == list(range(1, count + 1))


async def test_a_lost_hint_is_made_good_by_the_sweep(world: ServerWorld) -> None:
    conversation = await world.conversation()
    await speak(world.http, conversation, "a", target="operator/echo")
    # A lost acknowledgement drops the hint with it.
    await world.restart(faults=Faults(["server.speak.after_commit"], "server.speak.after_commit:lost_ack"))
    session = await world.link("operator/echo")
    assert [m["key"] for m in await delivered(session, 1)] == ["a"]
    refused = await speak(world.http, conversation, "b", target="operator/echo", status=503)
    assert refused["code"] == "connection_lost"
    await world.advance(1.0)
    assert [m["key"] for m in await delivered(session, 1)] == ["b"]
    assert (await speak(world.http, conversation, "b", target="operator/echo", status=200))["offset"] == 2


@pytest.mark.requirement("C30")
async def test_what_is_told_while_the_backlog_is_read_is_pushed_once(
    world: ServerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation = await world.conversation()
    await world.invite(conversation, "operator/echo")
    session = await world.link("operator/echo")
    await hello(session)
    await speak(world.http, conversation, "0", target="operator/echo")
    (first,) = await delivered(session, 1)
    read, said = session._commits.read, iter("12")  # pyright: ignore[reportPrivateUsage]

    async def read_late(job: Any) -> Any:
        # The hint of what is said here is heard before the read begins, which finds the message too.
        for key in said:
            await speak(world.http, conversation, key, target="operator/echo")
        return await read(job)

    monkeypatch.setattr(session._commits, "read", read_late)  # pyright: ignore[reportPrivateUsage]
    session.look_again([(conversation, 0, first["offset"] + 1)])
    got = [message["key"] for message in await delivered(session, 2)]
    await speak(world.http, conversation, "3", target="operator/echo")
    got += [message["key"] for message in await delivered(session, 1)]
    assert got == ["1", "2", "3"]


@pytest.mark.requirement("P22")
async def test_what_was_read_for_somebody_who_is_taken_out_meanwhile_is_not_pushed(
    world: ServerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation = await world.conversation()
    await world.invite(conversation, "operator/echo")
    await speak(world.http, conversation, "0", target="operator/echo")
    session = await world.link("operator/echo")
    await hello(session)
    read = session._commits.read  # pyright: ignore[reportPrivateUsage]

    async def read_early(job: Any) -> Any:
        found = await read(job)
        session.forget({conversation})
        return found

    monkeypatch.setattr(session._commits, "read", read_early)  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await delivered(session, 1)


async def test_a_device_learns_which_operators_are_active_beside_it(world: ServerWorld) -> None:
    conversation = await world.conversation()
    await speak(world.http, conversation, "a", target="operator/first")
    session = await world.link("runtime/laptop")
    assert await frame_with(session, "participants") == [
        {"conversation_id": conversation, "kind": "operator", "key": "first"}
    ]
    await speak(world.http, conversation, "b", target="operator/second")
    assert await frame_with(session, "participants") == [
        {"conversation_id": conversation, "kind": "operator", "key": "second"}
    ]
    third = await world.actor("operator/third/helper/x")
    await speak(world.http, conversation, "c", target="operator/third")
    later = await world.conversation()
    await speak(world.http, later, "c", target="operator/third")
    await speak(third, later, "d")
    seen: list[Json] = []
    while len(seen) < 3:
        seen += await frame_with(session, "participants")
    assert [(one["conversation_id"], one["kind"], one["key"]) for one in seen] == [
        (conversation, "operator", "third"),
        (later, "operator", "third"),
        (later, "operator/third/helper", "x"),
    ]


async def test_a_device_is_not_told_what_was_said_before_it_came(world: ServerWorld) -> None:
    conversation = await world.conversation()
    await speak(world.http, conversation, "a", "long ago")
    session = await world.link("runtime/laptop")
    await speak(world.http, conversation, "b", "now")
    assert [m["key"] for m in await delivered(session, 1)] == ["b"]


async def test_messages_of_a_link_count_for_poll_and_history(world: ServerWorld) -> None:
    conversation = await world.conversation()
    await speak(world.http, conversation, "a", target="operator/echo")
    echo = await world.actor("operator/echo")
    session = await world.link("operator/echo")
    await delivered(session, 1)
    assert len((await poll(echo, conversation))["messages"]) == 1
    await commit(echo, conversation, 1)
    assert len(await history(echo, conversation)) == 1


async def test_a_revoked_token_ends_its_links(world: ServerWorld) -> None:
    session = await world.link("operator/echo")
    await hello(session)
    (line,) = (await get(world.http, "/tokens"))["items"]
    await world.http.delete(f"/v1/tokens/{line['id']}")
    with pytest.raises(ConnectionLost):
        await session.receive()


async def test_links_are_refused_without_a_valid_token(world: ServerWorld) -> None:
    with pytest.raises(LoopError) as refused:
        await world.server.open_link("nonsense")
    assert refused.value.code == "unauthorized"
    with pytest.raises(LoopError) as refused:
        await world.server.open_link(await world.token("operator/*"))
    assert refused.value.code == "invalid_request"


async def test_a_stopping_server_tells_its_links_and_takes_no_new_ones(world: ServerWorld) -> None:
    session = await world.link("operator/echo")
    await hello(session)
    token = await world.token("operator/echo")
    draining = world.server.services.tasks.spawn(world.server.drain(1.0), name="drain")
    assert "retry_ms" in await frame_with(session, "drain")
    await session.close()
    await world.advance(0.1)
    assert draining.done()
    with pytest.raises(ConnectionLost):
        await world.server.open_link(token)
