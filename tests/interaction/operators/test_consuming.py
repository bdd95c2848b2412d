"""Consuming through the client against a real server: positions, replays, refusals."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lineloop.client import Loop
from lineloop.kit.faults import Faults
from lineloop.protocol.actors import Actor
from lineloop.protocol.errors import Conflict, NotFound
from lineloop.protocol.fault_sites import FaultSite
from lineloop.protocol.resources import participant
from lineloop.testing import until
from lineloop.testing.operator_world import transport_to
from lineloop.testing.server_world import ServerWorld, server_world

ECHO = Actor("operator", "echo")


@dataclass
class World:
    server: ServerWorld
    person: Loop
    conversation_id: str

    async def loop(self, actor: Actor = ECHO, faults: Faults | None = None) -> Loop:
        token = await self.server.token(str(actor))
        return Loop(transport_to(self.server, token), clock=self.server.clock, faults=faults)

    async def say(self, text: str, key: str | None = None) -> str:
        handle = await self.person.conversation(self.conversation_id).speak(
            text, key=key or text, target=ECHO
        )
        return handle.id


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[World, None]:
    async with server_world(tmp_path) as server:
        person = Loop(transport_to(server, server.admin_token), clock=server.clock)
        yield World(server, person, await server.conversation())
        await person.close()


@pytest.mark.requirement("L49", "L52")
async def test_poll_reads_what_is_stored_and_an_empty_poll_stays_at_the_committed_position(
    world: World,
) -> None:
    async with await world.loop() as loop:
        await world.say("one")
        inbox = loop.conversation(world.conversation_id)
        polled = await inbox.poll()
        assert [message.text for message in polled.messages] == ["one"]
        await inbox.commit(polled.position)
        empty = await inbox.poll()
        assert (empty.messages, empty.position, empty.committed) == ([], polled.position, polled.position)


@pytest.mark.requirement("L50")
async def test_a_lost_answer_or_a_restart_replays_from_what_was_committed(world: World) -> None:
    async with await world.loop() as loop:
        await world.say("one")
        await world.say("two")
        inbox = loop.conversation(world.conversation_id)
        first = await inbox.poll(limit=1)
        await inbox.commit(first.position)
        seen = await inbox.poll()
        again = await inbox.poll(after=first.position)
        assert again.messages == seen.messages
    await world.server.restart()
    async with await world.loop() as loop:
        replayed = await loop.conversation(world.conversation_id).poll()
        assert [message.text for message in replayed.messages] == ["two"]


@pytest.mark.requirement("L51")
async def test_a_commit_beyond_what_was_polled_is_refused(world: World) -> None:
    async with await world.loop() as loop:
        await world.say("one")
        inbox = loop.conversation(world.conversation_id)
        with pytest.raises(Conflict) as caught:
            await inbox.commit(1_000)
        assert caught.value.code == "position_conflict"


async def test_somebody_who_takes_no_part_finds_nothing_to_poll(world: World) -> None:
    async with await world.loop(Actor("operator", "stranger")) as loop:
        with pytest.raises(NotFound) as caught:
            await loop.conversation(world.conversation_id).poll()
        assert caught.value.code == "conversation_not_found"


async def test_a_pushed_message_counts_as_polled(world: World) -> None:
    async with await world.loop() as loop:
        heard: list[tuple[str, int | None]] = []
        link = loop.link()
        link.on_deliver(lambda messages: heard.extend((message.text, message.offset) for message in messages))
        await link.start()
        await world.say("one")
        await until(lambda: heard)
        text, offset = heard[0]
        assert text == "one"
        assert offset is not None
        await loop.conversation(world.conversation_id, actor=ECHO).commit(offset)
        assert (await loop.conversation(world.conversation_id).poll()).messages == []


@pytest.mark.requirement("L16", "L17", "L24")
async def test_speaking_again_returns_the_first_message_and_rebuilds_its_handle(world: World) -> None:
    async with await world.loop() as loop:
        await world.say("one")
        conversation = loop.conversation(world.conversation_id)
        first = await conversation.speak(key="answer", stream=True)
        await first.write("Hello")
        await first.write(", world")
        restored = await conversation.speak(key="answer", stream=True)
        assert restored.id == first.id
        assert restored.revision == first.revision
        assert restored.value == first.value
        await restored.end()
        final = await conversation.speak("something else", key="answer", status="failed")
        assert (final.message.text, final.status) == ("Hello, world", "completed")
        with pytest.raises(Conflict) as caught:
            await conversation.speak("x", key="answer", target=Actor("user", "local"))
        assert caught.value.code == "key_conflict"


async def test_a_stream_over_the_link_ends_up_the_same_as_over_http(world: World) -> None:
    async with await world.loop() as loop:
        await world.say("one")
        conversation = loop.conversation(world.conversation_id)
        over_http = await conversation.speak(key="a", stream=True)
        await loop.link().start()
        over_link = await conversation.speak(key="b", stream=True)
        for handle in (over_http, over_link):
            for part in ("a", "b", "c"):
                await handle.write(part)
            await handle.end()
        stored = [await loop.message(handle.id) for handle in (over_http, over_link)]
        assert [message.text for message in stored] == ["abc", "abc"]
        assert [message.revision for message in stored] == [4, 4]
        assert stored[0].content == over_http.value == stored[1].content == over_link.value


async def test_an_acknowledgement_lost_on_the_link_stores_the_message_once(world: World) -> None:
    faults = Faults(FaultSite, "client.link.send.after:lost_ack:2")
    async with await world.loop(faults=faults) as loop:
        await world.say("one")
        await loop.link().start()
        conversation = loop.conversation(world.conversation_id)
        await conversation.speak("first", key="first")
        second = asyncio.get_running_loop().create_task(conversation.speak("second", key="second"))
        while not second.done():
            await world.server.advance(0.2)
        page = await conversation.read()
        assert [message.text for message in page.items] == ["one", "first", "second"]


async def test_the_link_comes_back_after_the_server_restarts(world: World) -> None:
    async with await world.loop() as loop:
        await world.say("one")
        heard: list[str] = []
        link = loop.link()
        link.on_deliver(lambda messages: heard.extend(message.text for message in messages))
        await link.start()
        await until(lambda: heard == ["one"])
        await world.server.restart()
        await world.server.advance(1.0)
        await until(lambda: link.connected)
        await until(lambda: heard == ["one", "one"])  # not committed, so it is delivered again
        await world.say("two")
        await until(lambda: heard[-1] == "two")


@pytest.mark.requirement("L60")
async def test_the_participant_is_read_from_the_resource_without_asking_anybody(world: World) -> None:
    await world.say("one")
    resource = await world.person.conversation(world.conversation_id).resource()
    mine = participant(resource, ECHO)
    assert mine is not None
    assert mine.conversation_id
    assert mine.has_backlog
    assert participant(resource, Actor("operator", "stranger")) is None
