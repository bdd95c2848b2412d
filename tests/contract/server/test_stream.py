"""Conversation streams for viewers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack, aclosing
from typing import Any

import pytest
from tests.contract.server.calls import (
    append_text,
    emit,
    end,
    get,
    open_stream,
    set_text,
    speak,
    text_of,
)
from tests.contract.server.stream_reader import viewer

from lineloop.client.in_process import InProcessTransport
from lineloop.client.sse import MessageEvent, View, stream_once
from lineloop.kit.database import Tx
from lineloop.protocol.messages import Message
from lineloop.server.http import sse
from lineloop.server.records import StoredMessage
from lineloop.server.store import viewing
from lineloop.server.wakeup.bus import Bus
from lineloop.testing.server_world import ServerWorld


async def test_a_viewer_sees_messages_patches_and_ends_as_they_happen(world: ServerWorld) -> None:
    conversation = await world.conversation()
    async with viewer(world.http, conversation) as reader:
        assert (await reader.until("ping"))["ordinals"] == {conversation: 0}
        spoken = await speak(world.http, conversation, "a", "hello")
        assert (await reader.until("message"))["message"] == spoken
        message = await open_stream(world.http, conversation)
        await reader.until("message")
        await emit(world.http, message["id"], set_text(1, "a"), append_text(2, "b"))
        await reader.until("patch")
        await reader.until("patch")
        assert text_of(reader.messages[message["id"]]) == "ab"
        await end(world.http, message["id"], 3)
        assert (await reader.until("message"))["message"]["status"] == "completed"
        assert reader.ids == sorted(reader.ids)


async def test_a_new_viewer_is_given_history_and_open_streams_whole(world: ServerWorld) -> None:
    conversation = await world.conversation()
    await speak(world.http, conversation, "a", "one")
    message = await open_stream(world.http, conversation)
    await emit(world.http, message["id"], set_text(1, "half"))
    await speak(world.http, conversation, "b", "two")
    async with viewer(world.http, conversation) as reader:
        for _ in range(3):
            await reader.until("message")
        assert sorted(text_of(m) for m in reader.messages.values()) == ["half", "one", "two"]
        await emit(world.http, message["id"], append_text(2, " and half"))
        await reader.until("patch")
        assert text_of(reader.messages[message["id"]]) == "half and half"


async def test_resuming_gives_what_changed_since_and_all_open_streams(world: ServerWorld) -> None:
    conversation = await world.conversation()
    stream = await open_stream(world.http, conversation)
    await speak(world.http, conversation, "a", "seen")
    async with viewer(world.http, conversation) as reader:
        await reader.until("message")
        await reader.until("message")
        last = reader.ids[-1]
    await emit(world.http, stream["id"], set_text(1, "grew"))
    await speak(world.http, conversation, "b", "missed")
    async with viewer(world.http, conversation, last) as reader:
        await reader.until("message")
        await reader.until("message")
        assert sorted(text_of(m) for m in reader.messages.values()) == ["grew", "missed"]


async def test_process_conversations_are_covered_too(world: ServerWorld) -> None:
    root = await world.conversation()
    await speak(world.http, root, "a", target="operator/echo")
    (child,) = (await get(world.http, "/conversations", parent_id=root))["items"]
    async with viewer(world.http, root) as reader:
        await reader.until("message")
        echo = await world.actor("operator/echo")
        await speak(echo, child["id"], "work", "thinking")
        assert (await reader.until("message"))["message"]["conversation_id"] == child["id"]
        await world.advance(15)
        assert (await reader.until("ping"))["ordinals"] == {root: 1, child["id"]: 1}


@pytest.mark.requirement("L130")
async def test_a_quiet_stream_pings_every_fifteen_seconds(world: ServerWorld) -> None:
    conversation = await world.conversation()
    async with viewer(world.http, conversation) as reader:
        await reader.until("ping")
        for _ in range(2):
            await world.advance(15)
            await reader.until("ping")


async def test_a_slow_viewer_is_resynced_from_a_snapshot(world: ServerWorld, monkeypatch: Any) -> None:
    monkeypatch.setattr(sse, "MAX_QUEUED_EVENTS", 4)
    conversation = await world.conversation()
    message = await open_stream(world.http, conversation)
    async with viewer(world.http, conversation) as reader:
        await reader.until("message")
        # Nobody reads: the transport's few parts fill, then the viewer's queue, and the rest is not kept.
        await emit(world.http, message["id"], set_text(1, ""))
        for seq in range(2, 120):
            await emit(world.http, message["id"], append_text(seq, "x"))
        await speak(world.http, conversation, "last", "last")
        while "last" not in {text_of(m) for m in reader.messages.values()}:
            await reader.next()
        assert text_of(reader.messages[message["id"]]) == "x" * 118
        assert reader.kinds.count("patch") < 119


@pytest.mark.requirement("L130")
async def test_a_stream_of_nothing_or_of_others_is_refused(world: ServerWorld) -> None:
    conversation = await world.conversation()
    missing = await world.http.get("/v1/conversations/none/stream")
    assert (missing.status_code, missing.json()["code"]) == (404, "conversation_not_found")
    stranger = await world.actor("user/stranger")
    refused = await stranger.get(f"/v1/conversations/{conversation}/stream")
    assert refused.status_code == 404
    bad = await world.http.get(f"/v1/conversations/{conversation}/stream", headers={"last-event-id": "x"})
    assert (bad.status_code, bad.json()["code"]) == (422, "invalid_request")


async def test_line_separators_inside_text_do_not_tear_events_apart(world: ServerWorld) -> None:
    conversation = await world.conversation()
    text = "a\u2028b\u2029c\x85d\r\ne"
    async with viewer(world.http, conversation) as reader:
        await reader.until("ping")
        await speak(world.http, conversation, "a", text)
        await reader.until("message")
        assert [text_of(m) for m in reader.messages.values()] == [text]


async def test_a_closing_question_is_shown_again(world: ServerWorld) -> None:
    conversation = await world.conversation()
    body = {
        "kind": "confirm",
        "effect_key": "q",
        "to": {"kind": "user", "key": "local"},
        "text": "Sure?",
        "timeout_ms": 5_000,
    }
    question = (await world.http.post(f"/v1/conversations/{conversation}/questions", json=body)).json()
    async with viewer(world.http, conversation) as reader:
        await reader.until("message")
        await world.advance(5)
        closed = (await reader.until("message"))["message"]
        assert (closed["id"], closed["content"]["blocks"][0]["state"]) == (question["id"], "timeout")


@pytest.mark.parametrize("last", [None, 1])
async def test_a_ping_says_when_everything_that_was_missing_has_been_sent(
    world: ServerWorld, last: int | None
) -> None:
    conversation = await world.conversation()
    for number in range(3):
        await speak(world.http, conversation, f"k{number}", "hello")
    async with viewer(world.http, conversation, last) as reader:
        seen = [(await reader.next())[0] for _ in range(5 if last is None else 4)]
        assert seen == ["ping", *["message"] * (len(seen) - 2), "ping"]


@pytest.mark.requirement("SV2")
async def test_a_stopping_server_ends_its_streams_at_once_and_says_when_to_come_again(
    world: ServerWorld,
) -> None:
    conversation = await world.conversation()
    async with viewer(world.http, conversation) as reader:
        await reader.until("ping")
        await reader.until("ping")
        world.server.leave()
        assert await reader.until("drain") == {"retry_ms": world.settings.drain_retry_ms}
        with pytest.raises(StopAsyncIteration):
            await reader.next()


async def test_an_operators_stream_leaves_out_the_workspaces_of_others(world: ServerWorld) -> None:
    root = await world.conversation()
    for name in ("echo", "planner"):
        await speak(world.http, root, name, name, target=f"operator/{name}")
    echo, planner = await world.actor("operator/echo"), await world.actor("operator/planner")
    places = {
        one["owner"]["key"]: one["id"]
        for one in (await get(world.http, "/conversations", parent_id=root))["items"]
    }
    await speak(echo, places["echo"], "old", "secret before")
    grows = await open_stream(echo, places["echo"])
    async with viewer(planner, root) as reader:
        assert (await reader.until("ping"))["ordinals"] == {root: 2, places["planner"]: 0}
        await emit(echo, grows["id"], set_text(1, "secret draft"))
        await speak(echo, places["echo"], "new", "secret after")
        await emit(echo, grows["id"], append_text(2, "!"))
        await end(echo, grows["id"], 3)
        await speak(planner, places["planner"], "mine", "my work")
        await speak(world.http, root, "last", "last")
        while "last" not in [text_of(m) for m in reader.messages.values()]:
            await reader.next()
        await world.advance(15)
        await reader.until("ping")
        assert sorted(text_of(m) for m in reader.messages.values()) == ["echo", "last", "my work", "planner"]


async def test_a_revoked_token_ends_its_open_streams_at_once(world: ServerWorld) -> None:
    root = await world.conversation()
    await speak(world.http, root, "hello", target="operator/echo")
    run = {
        "conversation_id": root,
        "idempotency_key": "a",
        "effect_key": "a",
        "target": "demo",
        "text": "wait",
    }
    echo = await world.actor("operator/echo")
    started = (await echo.post("/v1/harness/runs", json=run)).json()["id"]
    (token,) = (await get(world.http, "/tokens"))["items"]
    paths = (
        f"/v1/conversations/{root}/stream",
        f"/v1/harness/runs/{started}/stream",
        "/apis/loop.lineloop.dev/v1alpha1/conversations?watch=true",
    )
    async with AsyncExitStack() as streams:
        opened = [await streams.enter_async_context(echo.stream("GET", path)) for path in paths]
        other = await streams.enter_async_context(world.http.stream("GET", paths[0]))
        assert [one.status_code for one in opened] == [200, 200, 200]
        assert (await world.http.delete(f"/v1/tokens/{token['id']}")).status_code == 204
        await speak(world.http, root, "later", "not for you")
        for one in opened:
            text = "".join([part async for part in one.aiter_text()])
            assert "not for you" not in text
        lines = other.aiter_lines()
        while "not for you" not in await anext(lines):
            pass


@pytest.mark.parametrize("last", ["x", "-1", "1.5", "9" * 40, "1 2", "%00"])
async def test_an_id_that_no_event_can_have_had_is_refused(world: ServerWorld, last: str) -> None:
    conversation = await world.conversation()
    path = f"/v1/conversations/{conversation}/stream"
    refused = await world.http.get(path, headers={"last-event-id": last})
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")


async def test_an_id_from_the_future_is_of_another_life_of_the_database(world: ServerWorld) -> None:
    conversation = await world.conversation()
    spoken = await speak(world.http, conversation, "a", "hello")
    async with viewer(world.http, conversation, 1_000) as reader:
        await reader.until("ping")
        await reader.until("ping")
        assert reader.messages == {spoken["id"]: spoken}
        await speak(world.http, conversation, "b", "more")
        await reader.until("message")
        assert max(reader.ids) == 2


async def test_who_knows_another_epoch_is_given_everything(world: ServerWorld) -> None:
    conversation = await world.conversation()
    spoken = await speak(world.http, conversation, "a", "hello")
    epoch = world.server.services.epoch
    for known, expected in ((epoch, {}), ("epo_before", {spoken["id"]: spoken})):
        async with viewer(world.http, conversation, 1, **{"x-lineloop-epoch": known}) as reader:
            await reader.until("ping")
            await reader.until("ping")
            assert reader.messages == expected


async def test_what_no_hint_told_of_is_found_within_a_second(
    world: ServerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation = await world.conversation()
    message = await open_stream(world.http, conversation)
    async with viewer(world.http, conversation) as reader:
        await reader.until("ping")
        await reader.until("ping")
        monkeypatch.setattr(Bus, "publish", lambda *_: None)
        await emit(world.http, message["id"], set_text(1, "a"), append_text(2, "b"))
        spoken = await speak(world.http, conversation, "a", "silent")
        await world.advance(1)
        while spoken["id"] not in reader.messages or reader.messages[message["id"]]["revision"] < 2:
            await reader.next()
        assert reader.kinds[-3:] == ["message", "patch", "patch"]
        await end(world.http, message["id"], 3)
        await world.advance(1)
        assert (await reader.until("message"))["message"]["status"] == "completed"


async def test_a_long_history_is_read_and_sent_in_parts(
    world: ServerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "PART_BYTES", 10_000)
    groups: list[int] = []
    whole = viewing.whole

    def counted(tx: Tx, places: Sequence[viewing.Place]) -> list[StoredMessage]:
        groups.append(sum(place.weight for place in places))
        return whole(tx, places)

    monkeypatch.setattr(viewing, "whole", counted)
    conversation = await world.conversation()
    for number in range(12):
        await speak(world.http, conversation, f"k{number}", "x" * 3_000)
    large = await open_stream(world.http, conversation)
    await emit(world.http, large["id"], set_text(1, "y" * 50_000))
    async with viewer(world.http, conversation) as reader:
        await reader.until("ping")
        await reader.until("ping")
        assert len(reader.messages) == 13
    assert len(groups) == 5
    assert sorted(groups)[-2] <= 10_000 < sorted(groups)[-1]


async def test_a_viewer_from_before_a_restore_forgets_and_is_given_everything(world: ServerWorld) -> None:
    conversation = await world.conversation()
    path = f"/v1/conversations/{conversation}/stream"
    first = await speak(world.http, conversation, "a", "hello")
    view, last = await _seen(world, path, None, 1)
    lost = {**first, "id": "msg_lost"}
    view.apply(MessageEvent(Message.from_wire(lost)))
    second = await speak(world.http, conversation, "b", "more")

    await world.server.commits.write(
        lambda tx: tx.execute("DELETE FROM meta WHERE name = 'server_epoch'"), "t"
    )
    await world.restart()

    # The restored server has moved past what the viewer had seen: only the epoch tells them apart.
    view, last_now = await _seen(world, path, last, 2, view)
    assert set(view.messages) == {first["id"], second["id"]}
    assert last_now != last


@pytest.mark.requirement("T2")
async def test_a_reader_that_sends_no_epoch_is_told_it_by_the_first_ping_of_each_connection(
    world: ServerWorld,
) -> None:
    conversation = await world.conversation()
    await speak(world.http, conversation, "a", "hello")
    async with viewer(world.http, conversation) as reader:
        kind, before = await reader.next()
        assert kind == "ping"
        assert before["epoch"]
        last = reader.ids[-1]
    await world.server.commits.write(
        lambda tx: tx.execute("DELETE FROM meta WHERE name = 'server_epoch'"), "t"
    )
    await world.restart()
    async with viewer(world.http, conversation, last) as reader:
        kind, after = await reader.next()
        assert kind == "ping"
        assert after["epoch"] != before["epoch"]
    # What it does then: forget, and open the stream as a new viewer.
    async with viewer(world.http, conversation) as reader:
        assert (await reader.until("message"))["message"]["key"] == "a"


async def _seen(
    world: ServerWorld, path: str, last: str | None, count: int, view: View | None = None
) -> tuple[View, str | None]:
    """The view after `count` messages more, and the id to resume from."""
    view = view or View()
    transport = InProcessTransport(world.server.asgi, world.server.open_link, world.admin_token)
    try:
        async with asyncio.timeout(5), aclosing(stream_once(transport, path, last)) as events:
            async for event_id, event in events:
                last = event_id or last
                view.apply(event)
                count -= isinstance(event, MessageEvent)
                if not count:
                    break
    finally:
        await transport.close()
    return view, last
