"""Runs through the toolkit, on a real engine with the demo harness: submitted once, observed, waited for."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from lineloop import Operator, Result, Turn
from lineloop.client.sse import MessageEvent, View
from lineloop.protocol.actors import Actor
from lineloop.protocol.errors import Conflict, LoopError
from lineloop.protocol.runs import RunPhase
from lineloop.testing import until
from lineloop.testing.operator_world import OperatorWorld, operator_world

AGENT = Actor("operator", "agent")


async def workspace(world: OperatorWorld) -> str:
    """The process conversation that the first message to the agent makes."""
    await world.say("hello", to="agent")
    page = await world.person.conversations(parent_id=world.conversation_id, actor=AGENT)
    return page.items[0].id


@pytest.mark.requirement("L135")
async def test_the_same_prompt_is_the_same_run_and_another_text_a_conflict(tmp_path: Path) -> None:
    async with operator_world(tmp_path) as world:
        place = await workspace(world)
        agent = await world.loop("operator/agent")

        async def prompt(text: str) -> str:
            call = await agent.harness.prompt(
                place, text, idempotency_key="k", effect_key="answer", target="demo"
            )
            return call.id

        first = await prompt("hello")
        assert await prompt("hello") == first
        with pytest.raises(Conflict):
            await prompt("something else")


@pytest.mark.requirement("L136")
async def test_a_cancelled_wait_and_a_closed_loop_leave_the_run_alone(tmp_path: Path) -> None:
    async with operator_world(tmp_path) as world:
        place = await workspace(world)
        agent = await world.loop("operator/agent")
        call = await agent.harness.prompt(
            place, "/slow", idempotency_key="k", effect_key="answer", target="demo"
        )
        waiting = asyncio.get_running_loop().create_task(call.wait())
        await until(lambda: not waiting.done())
        await world.settled()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await agent.close()
        other = await world.loop("operator/agent")
        result = asyncio.get_running_loop().create_task(other.harness.call(call.id).result())
        for _ in range(200):
            if result.done():
                break
            await world.clock.advance(1.0)
        assert (await result).format == "text"


async def test_a_run_is_streamed_to_its_end_and_the_view_equals_what_is_stored(tmp_path: Path) -> None:
    async with operator_world(tmp_path) as world:
        place = await workspace(world)
        agent = await world.loop("operator/agent")
        call = await agent.harness.prompt(
            place, "hello", idempotency_key="k", effect_key="answer", target="demo"
        )
        view = View()

        async def follow() -> None:
            async for event in call.stream():
                view.apply(event)
                if isinstance(event, MessageEvent) and event.message.status.ended:
                    return

        following = asyncio.get_running_loop().create_task(follow())
        for _ in range(200):
            if following.done():
                break
            await world.clock.advance(0.5)
        await following
        run = await call.get()
        assert run.phase is RunPhase.SUCCEEDED
        stored = await agent.message(run.message_id)
        assert view.messages[stored.id].content == stored.content


@pytest.mark.requirement("L137")
async def test_a_cancelled_run_ends_cancelled_and_has_no_result(tmp_path: Path) -> None:
    async with operator_world(tmp_path) as world:
        place = await workspace(world)
        agent = await world.loop("operator/agent")
        call = await agent.harness.prompt(
            place, "/slow", idempotency_key="k", effect_key="answer", target="demo"
        )
        await call.cancel()
        result = asyncio.get_running_loop().create_task(call.result())
        for _ in range(200):
            if result.done():
                break
            await world.clock.advance(1.0)
        with pytest.raises(LoopError) as caught:
            await result
        assert caught.value.code == "run_cancelled"
        assert (await call.get()).phase is RunPhase.CANCELLED


async def test_the_end_of_a_run_in_the_workspace_wakes_the_conversation_it_belongs_to(
    tmp_path: Path,
) -> None:
    operator = Operator("agent", display_name="Agent")

    @operator.reconcile
    async def reconcile(turn: Turn) -> Result | None:
        inbox = await turn.poll()
        for message in inbox:
            call = await turn.prompt(
                message.text,
                idempotency_key=f"{message.id}/run",
                effect_key="answer",
                target="demo",
                recipient=turn.actor,
            )
            run = await call.get()
            if not run.ended:
                return None
            await turn.speak(run.phase.value, key=f"{message.id}/answer", reply_to=message.id)
        await turn.commit(inbox.position)
        return None

    async with operator_world(tmp_path, operator) as world:
        await world.say("hello")
        for _ in range(40):
            await world.clock.advance(0.25)
        assert [message.text for message in await world.answers(1)] == ["succeeded"]
        page = await world.person.conversations(parent_id=world.conversation_id, actor=AGENT)
        inbox = (await world.loop("operator/agent")).conversation(page.items[0].id)

        async def drained() -> bool:
            return not (await inbox.poll()).messages

        await until(drained)  # the output in the workspace is not delivered again for ever
