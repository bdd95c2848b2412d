"""What a page is told of a conversation: a snapshot, then everything after it, without a gap."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.interaction.core_apps.page import Page, Refused, View

from lineloop.device.core_apps import message_feed
from lineloop.protocol.actors import Actor
from lineloop.testing.full_world import AGENT, FullWorld, full_world
from lineloop.testing.waiting import until

Json = dict[str, Any]


async def page_of(world: FullWorld, app_scope: str = "chat") -> Page:
    return await Page(world.runtime.core_sessions, app_scope).hello()


async def speak(world: FullWorld, key: str, text: str | None = None, **body: Any) -> Json:
    """The agent says something."""
    path = f"/v1/conversations/{world.conversation_id}/messages"
    given = {"key": key, **body} if text is None else {"key": key, "text": text, **body}
    answer = await world.agent.post(path, json=given)
    assert answer.status_code == 201, answer.text
    return answer.json()


async def emit(world: FullWorld, message_id: str, *patches: Json) -> None:
    answer = await world.agent.post(f"/v1/messages/{message_id}/patches", json={"patches": list(patches)})
    assert answer.status_code == 202, answer.text


def first(seq: int, text: str) -> Json:
    return {"op": "set", "seq": seq, "block": {"id": "t", "type": "text", "content": text}}


def more(seq: int, text: str) -> Json:
    return {"op": "append", "seq": seq, "block": {"id": "t", "content": text}, "mask": "block.content"}


async def end(world: FullWorld, message_id: str, seq: int) -> None:
    answer = await world.agent.post(f"/v1/messages/{message_id}/end", json={"seq": seq})
    assert answer.status_code == 202, answer.text


def has_ended(view: View) -> bool:
    return all(one["status"] == "completed" for one in view.messages.values())


async def test_a_session_begins_with_hello_and_gets_its_state(tmp_path: Path) -> None:
    async with full_world(tmp_path, person=True) as world:
        page = Page(world.runtime.core_sessions)
        with pytest.raises(Refused) as refused:
            await page.ask("messages.list", conversation_id=world.conversation_id)
        assert refused.value.code == "bridge_invalid"
        await page.hello()
        assert page.init is not None
        assert page.init["app_scope"] == "chat"
        assert page.init["state"]["person"] == {"kind": "user", "key": "local"}
        with pytest.raises(Refused):
            await page.ask("hello", sdk="test/1")


async def test_a_page_sees_what_was_said_and_what_is_said_then(tmp_path: Path) -> None:
    async with full_world(tmp_path, person=True) as world:
        page = await page_of(world)
        view = await page.open(world.conversation_id)
        await until(lambda: view.texts() == ["hello"])
        await speak(world, "k1", "hi there")
        await until(lambda: view.texts() == ["hello", "hi there"])
        message = await speak(world, "k2", stream=True)
        await until(lambda: message["id"] in view.messages)
        for seq in range(1, 6):
            await emit(world, message["id"], first(seq, "0") if seq == 1 else more(seq, str(seq)))
        await until(lambda: view.texts()[-1] == "02345")
        await end(world, message["id"], 6)
        await until(lambda: view.messages[message["id"]]["status"] == "completed")
        assert view.gaps == []
        assert view.patches == 5


@pytest.mark.parametrize("late", [0, 1, 3])
async def test_who_comes_late_gets_an_open_stream_as_it_stands_and_then_what_follows(
    tmp_path: Path, late: int
) -> None:
    async with full_world(tmp_path, person=True) as world:
        message = await speak(world, "k", stream=True)
        early = await (await page_of(world)).open(world.conversation_id)
        for seq in range(1, late + 1):
            await emit(world, message["id"], first(seq, "a") if seq == 1 else more(seq, "b"))
        await until(lambda: early.messages.get(message["id"], {}).get("revision", -1) == late)
        view = await (await page_of(world)).open(world.conversation_id)
        shown = view.messages[message["id"]]
        assert (shown["revision"], shown["status"]) == (late, "streaming")
        await emit(world, message["id"], *([first(1, "a")] if late == 0 else [more(late + 1, "c")]))
        await until(lambda: view.messages[message["id"]]["revision"] == late + 1)
        assert view.gaps == []
        assert view.texts() == early.texts()


@pytest.mark.slow
async def test_nothing_is_missed_between_snapshot_and_live_under_concurrent_speaking(tmp_path: Path) -> None:
    async with full_world(tmp_path, person=True) as world:
        page = await page_of(world)
        spoken: list[str] = []

        async def talk(name: str) -> None:
            for number in range(12):
                message = await speak(world, f"{name}{number}", stream=True)
                await emit(world, message["id"], first(1, f"{name}{number}"))
                for seq in range(2, 8):
                    await emit(world, message["id"], more(seq, "."))
                await end(world, message["id"], 8)
                spoken.append(f"{name}{number}......")

        talks = [asyncio.create_task(talk(name)) for name in ("a", "b", "c")]
        views = []
        for number in range(12):
            await until(lambda number=number: len(spoken) >= number * 2)
            views.append(await page.open(world.conversation_id))
        await asyncio.gather(*talks)
        wanted = {"hello", *spoken}
        for view in views:
            await until(lambda view=view: set(view.texts()) == wanted and has_ended(view))
            assert view.gaps == []


@pytest.mark.requirement("L179")
async def test_a_page_that_leaves_a_conversation_hears_no_more_of_it(tmp_path: Path) -> None:
    """The page takes nothing for a subscription that has ended."""
    async with full_world(tmp_path, person=True) as world:
        other = await world.server.conversation("other")
        page = await page_of(world)
        await page.open(world.conversation_id, "a")
        await page.leave("a")
        view = await page.open(other, "b")
        message = await speak(world, "late", stream=True)
        await emit(world, message["id"], first(1, "late"))
        again = await page.open(world.conversation_id, "a2")
        await until(lambda: again.texts() == ["hello", "late"])
        assert view.texts() == []


@pytest.mark.requirement("L185")
async def test_equal_block_ids_in_different_messages_stay_apart(tmp_path: Path) -> None:
    async with full_world(tmp_path, person=True) as world:
        view = await (await page_of(world)).open(world.conversation_id)
        one = await speak(world, "one", stream=True)
        two = await speak(world, "two", stream=True)
        for seq in range(1, 4):
            for message, text in ((one, "1"), (two, "2")):
                patch = first(seq, text) if seq == 1 else more(seq, text)
                await emit(world, message["id"], patch)
        await until(lambda: view.texts() == ["hello", "111", "222"])
        assert view.gaps == []


async def test_two_subscriptions_and_two_pages_are_told_alike(tmp_path: Path) -> None:
    async with full_world(tmp_path, person=True) as world:
        page, second = await page_of(world), await page_of(world)
        views = [await page.open(world.conversation_id) for _ in range(2)]
        views.append(await second.open(world.conversation_id))
        with pytest.raises(Refused):
            await page.ask(
                "messages.subscribe",
                subscription=next(iter(page.views)),
                conversation_id=world.conversation_id,
            )
        await speak(world, "k", "to all")
        for view in views:
            await until(lambda view=view: view.texts() == ["hello", "to all"])
        second.session.close()
        frames = second.frames
        await speak(world, "k2", "to whom is there")
        await until(lambda: views[0].texts()[-1] == "to whom is there")
        assert second.frames == frames


async def test_the_history_is_read_page_by_page_and_without_a_server_too(tmp_path: Path) -> None:
    async with full_world(tmp_path, person=True) as world:
        for number in range(70):
            await speak(world, f"k{number}", f"{number}")
        page = await page_of(world)
        view = await page.open(world.conversation_id)
        await until(lambda: view.texts()[-1:] == ["69"])
        whole = await read_all(page, world.conversation_id)
        assert whole == ["hello", *map(str, range(70))]
        await world.server_goes()
        await world.restart_device()
        page = await page_of(world)
        assert await read_all(page, world.conversation_id) == whole
        view = await page.open(world.conversation_id)
        assert view.texts() == whole[-50:]
        assert view.more


async def read_all(page: Page, conversation_id: str, before: int | None = None) -> list[str]:
    texts: list[str] = []
    while True:
        about = {} if before is None else {"before": before}
        answer = await page.ask("messages.list", conversation_id=conversation_id, limit=20, **about)
        found = answer["messages"]
        texts[:0] = [one["content"]["blocks"][0]["content"] for one in found]
        if not answer["more"]:
            return texts
        before = found[0]["ordinal"]


async def test_what_lies_before_the_messages_a_page_knows_is_there_though_the_newest_were_never_listed(
    tmp_path: Path,
) -> None:
    """As a page does that scrolls up: it was given a snapshot, and asks from its first message on."""
    async with full_world(tmp_path, person=True) as world:
        long = await world.server.conversation("long")
        await world.runtime.close()
        last = 0
        for number in range(70):
            body = {"key": f"k{number}", "text": f"{number}"}
            answer = await world.server.http.post(f"/v1/conversations/{long}/messages", json=body)
            assert answer.status_code == 201
            last = answer.json()["ordinal"]
        await world.restart_device()
        page = await page_of(world)
        assert await read_all(page, long, before=last) == [*map(str, range(69))]


@pytest.mark.slow
async def test_a_new_device_reads_a_long_history_that_it_never_saw(tmp_path: Path) -> None:
    """Its stream begins with the newest 200 messages; what lies before them the server is asked for."""
    async with full_world(tmp_path, person=True) as world:
        long = await world.server.conversation("long")
        path = f"/v1/conversations/{long}/messages"
        await world.runtime.close()
        for number in range(330):
            answer = await world.server.http.post(path, json={"key": f"k{number}", "text": f"{number}"})
            assert answer.status_code == 201
        await world.restart_device()
        page = await page_of(world)
        view = await page.open(long)
        await until(lambda: view.texts()[-1:] == ["329"])
        assert view.more
        assert await read_all(page, long) == [*map(str, range(330))]
        await world.server_goes()
        assert await read_all(page, long) == [*map(str, range(330))]


async def test_a_stream_broken_by_a_restart_of_the_server_goes_on_where_it_stands(tmp_path: Path) -> None:
    async with full_world(tmp_path, person=True) as world:
        page = await page_of(world)
        await page.watch()
        view = await page.open(world.conversation_id)
        message = await speak(world, "k", stream=True)
        await emit(world, message["id"], first(1, "a"))
        await until(lambda: view.texts() == ["hello", "a"])
        await world.server_goes()
        await world.server.advance(10)
        assert page.state["connection"]["state"] == "offline"
        late = await (await page_of(world)).open(world.conversation_id)
        assert late.texts() == ["hello", "a"]
        await world.server_comes()
        await emit(world, message["id"], more(2, "b"))
        await end(world, message["id"], 3)
        await speak(world, "k2", "after")

        async def caught_up() -> bool:
            await world.server.advance(1)
            told = view.texts() == late.texts() == ["hello", "ab", "after"]
            return told and page.state["connection"]["state"] == "online"

        await until(caught_up)
        assert view.gaps == late.gaps == []


async def test_a_slow_page_costs_no_memory_and_gets_the_newest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_feed, "MAX_WAITING", 60)
    async with full_world(tmp_path, person=True) as world:
        page = await page_of(world)
        view = await page.open(world.conversation_id, "slow")
        await until(lambda: view.texts() == ["hello"])
        feed = page.session.app._feeds["slow"]  # pyright: ignore
        page.hold()
        message = await speak(world, "k", stream=True)
        await emit(world, message["id"], first(1, "."))
        for start in range(2, 2002, 100):
            await emit(world, message["id"], *(more(seq, ".") for seq in range(start, start + 100)))
        await world.server.clock.settle()
        assert feed.waiting < 600
        frames = page.frames
        page.let_go()
        await until(lambda: [len(one) for one in view.texts()] == [5, 2001])
        assert page.frames - frames < 300
        assert view.gaps == []
        page.hold()
        for number in range(70):
            await speak(world, f"many{number}", "x")
        await world.server.clock.settle()
        assert feed.waiting <= 60
        page.let_go()
        await until(lambda: view.snapshots == 2)
        assert len(view.messages) == 50 + 1
        assert view.more


async def test_a_message_larger_than_a_frame_comes_shortened_and_says_so(tmp_path: Path) -> None:
    async with full_world(tmp_path, person=True) as world:
        page = await page_of(world)
        view = await page.open(world.conversation_id)
        message = await speak(world, "k", stream=True)
        await emit(world, message["id"], first(1, "a" * 700_000))
        await emit(world, message["id"], more(2, "b" * 700_000))
        await until(lambda: view.messages[message["id"]]["revision"] == 2)
        late = await page.open(world.conversation_id)
        shown = late.messages[message["id"]]
        assert shown["cut"] is True
        assert shown["revision"] == 2
        await emit(world, message["id"], more(3, "c"))
        await end(world, message["id"], 4)
        await until(lambda: late.messages[message["id"]]["status"] == "completed")
        assert late.messages[message["id"]]["cut"] is True
        assert late.gaps == []
        answer = await page.ask("messages.get", message_id=message["id"])
        assert answer["message"]["cut"] is True


@pytest.mark.requirement("D28")
async def test_calls_are_shown_from_acceptance_to_their_end(tmp_path: Path) -> None:
    async with full_world(tmp_path, person=True) as world:
        page = await page_of(world)
        view = await page.open(world.conversation_id)
        await world.invoke("pomodoro.start", {"minutes": 5}, "call-1")
        await until(lambda: view.calls.get("call-1", {}).get("state") == "operating")
        call = view.calls["call-1"]
        assert call["agent"] == Actor.parse(AGENT).to_wire()
        assert (call["app_scope"], call["app_title"]) == ("pomodoro", "Pomodoro")
        assert [one["stage"] for one in call["receipts"]] == ["starting", "started"]
        assert call["params"] == {"minutes": 5}
        assert call["ends_at"] is not None
        await world.server.advance(60)
        await world.invoke("pomodoro.interrupt", {}, "stop-1")
        await until(lambda: view.calls["call-1"]["state"] == "succeeded")
        await until(lambda: view.calls.get("stop-1", {}).get("state") == "succeeded")
        assert view.calls["call-1"]["result"]["outcome"] == "interrupted"
        late = await page.open(world.conversation_id)
        assert late.calls == view.calls
        listed = await page.ask("messages.list", conversation_id=world.conversation_id)
        assert [one["call_id"] for one in listed["calls"]] == ["call-1", "stop-1"]


async def test_messages_of_process_conversations_are_told_and_their_places_known(tmp_path: Path) -> None:
    async with full_world(tmp_path, person=True) as world:
        page = await page_of(world)
        view = await page.open(world.conversation_id)
        found = await world.agent.get("/v1/conversations", params={"parent_id": world.conversation_id})
        (process,) = [one["id"] for one in found.json()["items"]]
        answer = await world.agent.post(
            f"/v1/conversations/{process}/messages", json={"key": "w", "text": "working"}
        )
        assert answer.status_code == 201, answer.text
        await until(lambda: view.texts(process) == ["working"])
        late = await page.open(world.conversation_id)
        assert late.processes == [{"conversation_id": process, "actor": Actor.parse(AGENT).to_wire()}]
        listed = await page.ask("messages.list", conversation_id=process)
        assert [one["conversation_id"] for one in listed["messages"]] == [process]
