"""The toolkit against a real server: what it keeps, what it leaves alone, what membership means for it."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest

from lineloop.client import Call
from lineloop.client.sse import MessageEvent, PatchEvent
from lineloop.protocol.actors import Actor
from lineloop.protocol.errors import Forbidden, LoopError, NotFound
from lineloop.server.wakeup.bus import Bus
from lineloop.testing.operator_world import operator_world

AGENT, OTHER = Actor("operator", "agent"), Actor("operator", "other")


def kept(*kinds: type) -> int:
    gc.collect()
    return sum(type(one) in kinds for one in gc.get_objects())


@pytest.mark.requirement("L141")
async def test_runs_that_were_watched_leave_no_events_no_calls_and_no_tasks_behind(tmp_path: Path) -> None:
    async with operator_world(tmp_path) as world:
        await world.say("hello", to="agent")
        agent = await world.loop(str(AGENT))
        before = kept(Call, MessageEvent, PatchEvent)
        tasks = len(asyncio.all_tasks())
        for number in range(5):
            call: Call | None = await agent.harness.prompt(
                world.conversation_id, "hi", idempotency_key=f"k{number}", effect_key="a", target="demo"
            )
            assert call is not None
            watching = asyncio.ensure_future(call.result())
            while not watching.done():
                await world.clock.advance(0.5)
            assert watching.result().content
            del watching
            call = None
        await world.settled()
        assert kept(Call, MessageEvent, PatchEvent) == before
        assert len(asyncio.all_tasks()) <= tasks


@pytest.mark.requirement("L10")
async def test_what_was_said_is_answered_though_no_stream_can_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise OSError("no stream today")

    async with operator_world(tmp_path) as world:
        with monkeypatch.context() as patched:
            patched.setattr(Bus, "listen_root", broken)
            conversation = world.person.conversation(world.conversation_id)
            said = await conversation.speak("hello", key="k", target=AGENT)
            assert (said.value["blocks"][0]["content"], said.status) == ("hello", "completed")
            again = await conversation.speak("hello", key="k", target=AGENT)
            assert again.id == said.id
        stream = conversation.stream()
        async for event in stream:
            if isinstance(event, MessageEvent):
                assert event.message.id == said.id
                break
        await stream.aclose()


@pytest.mark.requirement("P20", "P21")
async def test_an_operator_that_is_taken_out_is_told_by_every_verb_and_its_stream_ends(
    tmp_path: Path,
) -> None:
    async with operator_world(tmp_path) as world:
        owner = world.person.conversation(world.conversation_id)
        assert (await owner.invite(AGENT)).actor == AGENT
        page = await owner.participants()
        assert [(one.actor, one.is_owner) for one in page.items][-1] == (Actor("user", "local"), True)
        agent = (await world.loop(str(AGENT))).conversation(world.conversation_id)
        handle = await agent.speak(key="s", stream=True)
        with pytest.raises(Forbidden):
            await agent.invite(OTHER)
        stream = agent.stream()
        await anext(stream)
        await owner.remove(AGENT)
        await owner.remove(AGENT)
        with pytest.raises(LoopError) as ended:
            watching = asyncio.ensure_future(_to_the_end(stream))
            while not watching.done():
                await world.clock.advance(1)
            await watching
        assert ended.value.code == "conversation_not_found"
        for verb in (agent.read, agent.poll, agent.info, lambda: agent.speak("hi", key="k")):
            with pytest.raises(NotFound) as refused:
                await verb()
            assert refused.value.code == "conversation_not_found"
        with pytest.raises(LoopError) as refused_write:
            await handle.write("late")
        assert refused_write.value.code in ("sequence_conflict", "message_ended")
        with pytest.raises(NotFound):
            await owner.remove(OTHER)


async def _to_the_end(stream: Any) -> None:
    async for _ in stream:
        pass
