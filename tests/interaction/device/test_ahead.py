"""Queries that their app answers before they are stored: fewer commits, the same story."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.interaction.device.apps import PROBE

from lineloop.device.containers.port import Completed, Invocation, Open, Outcome
from lineloop.kit.database import QueueFull
from lineloop.kit.faults import Faults
from lineloop.protocol.fault_sites import FaultSite
from lineloop.testing.device_world import AGENT, DeviceWorld, device_world
from lineloop.testing.scripted_containers import Script
from lineloop.testing.waiting import until


class Held:
    """An echo whose answer waits until the test opens the door."""

    def __init__(self) -> None:
        self.door = asyncio.Event()
        self.door.set()

    async def echo(self, call: Invocation) -> Outcome:
        await self.door.wait()
        return Completed({"text": call.params["text"]})


@asynccontextmanager
async def warm(tmp_path: Path, held: Held, faults: Faults | None = None) -> AsyncGenerator[DeviceWorld]:
    """A world whose app runs in the conversation."""
    script = Script()
    script.on("probe.echo", held.echo)
    async with device_world(tmp_path, apps=PROBE, script=script, faults=faults) as world:
        await world.invoke("probe.echo", {"text": "warm"}, "warm")
        await world.stages("warm", "result:ok")
        yield world


def ran(world: DeviceWorld, call_id: str) -> int:
    assert world.script is not None
    return world.script.ran[call_id]


@pytest.mark.requirement("D20")
async def test_a_query_that_is_slow_is_stored_while_it_runs_and_runs_once(tmp_path: Path) -> None:
    held = Held()
    async with warm(tmp_path, held) as world:
        held.door.clear()
        await world.invoke("probe.echo", {"text": "hi"}, "slow")
        await until(lambda: ran(world, "slow") == 1)
        await until(lambda: world.runtime.idle)
        assert await world.rows("SELECT state FROM calls WHERE call_id = 'slow'") == [("dispatched",)]
        held.door.set()
        assert (await world.stages("slow", "result:ok"))[-1] == "result:ok"
        assert ran(world, "slow") == 1


@pytest.mark.requirement("D20")
async def test_progress_of_a_query_is_told_before_its_result(tmp_path: Path) -> None:
    held = Held()
    async with warm(tmp_path, held) as world:
        script = world.script
        assert script is not None

        async def told(call: Invocation) -> Outcome:
            assert script.containers is not None
            (container,) = script.containers.all.values()
            script.containers.events.progress(container.session, call.call_id, 1, 0.5)
            return Completed({"text": "done"})

        script.on("probe.echo", told)
        await world.invoke("probe.echo", {"text": "hi"}, "call-1")
        assert await world.stages("call-1", "result:ok") == ["accepted", "progress", "result:ok"]
        assert ran(world, "call-1") == 1


@pytest.mark.requirement("D13")
async def test_a_repeated_query_is_not_asked_ahead_again(tmp_path: Path) -> None:
    async with warm(tmp_path, Held()) as world:
        await world.invoke("probe.echo", {"text": "hi"}, "call-1")
        story = await world.stages("call-1", "result:ok")
        await world.invoke("probe.echo", {"text": "hi"}, "call-1", key="again")
        await world.invoke("probe.echo", {"text": "other"}, "call-1", key="other")
        await until(lambda: any(m["key"].startswith("rejected/") for m in world.server.messages))
        assert [word for word in world.story("call-1") if word != "error:call_conflict"] == story
        assert ran(world, "call-1") == 1


@pytest.mark.requirement("D11")
async def test_what_is_refused_is_not_asked(tmp_path: Path) -> None:
    async with warm(tmp_path, Held()) as world:
        await world.invoke("probe.echo", {"text": "hi"}, "call-1", revision="inv_0000000000000000")
        await world.invoke("probe.echo", {"text": 5}, "call-2")
        assert (await world.ended("call-1"))["code"] == "inventory_stale"
        assert (await world.ended("call-2"))["code"] == "invalid_arguments"
        assert (ran(world, "call-1"), ran(world, "call-2")) == (0, 0)


@pytest.mark.requirement("D21")
async def test_a_query_behind_a_command_is_not_asked_before_it(tmp_path: Path) -> None:
    async with warm(tmp_path, Held()) as world:
        assert world.script is not None
        world.script.order.clear()
        await world.invoke("probe.add", {"amount": 1}, "add")
        await world.invoke("probe.echo", {"text": "hi"}, "ask")
        await world.ended("ask")
        assert world.script.order == ["probe.add", "probe.echo"]


@pytest.mark.requirement("D22")
async def test_a_cancel_behind_a_slow_query_reaches_it(tmp_path: Path) -> None:
    held = Held()
    async with warm(tmp_path, held) as world:
        held.door.clear()
        await world.invoke("probe.echo", {"text": "hi"}, "slow")
        world.cancel("slow", "probe")
        assert (await world.ended("slow"))["code"] == "cancelled"
        assert ran(world, "slow") == 1


@pytest.mark.requirement("D53")
@pytest.mark.parametrize("when", ["before", "after"])
async def test_an_answer_that_is_lost_is_asked_for_again_and_told_once(tmp_path: Path, when: str) -> None:
    mode = {"before": "raise", "after": "lost_ack"}[when]
    faults = Faults(FaultSite, f"device.handler.{when}_invoke:{mode}:2")
    async with warm(tmp_path, Held(), faults) as world:
        await world.invoke("probe.echo", {"text": "hi"}, "call-1")
        assert await world.stages("call-1", "result:ok") == ["accepted", "result:ok"]
        assert ran(world, "call-1") == {"before": 1, "after": 2}[when]


async def test_what_comes_behind_a_held_query_does_not_move_the_cursor_over_it(tmp_path: Path) -> None:
    held = Held()
    async with warm(tmp_path, held) as world:
        held.door.clear()
        await world.invoke("probe.echo", {"text": "hi"}, "slow")
        message = world.server.messages[-1]
        other = {**message, "id": "msg_x", "target": None, "offset": 500, "purpose": "speech"}
        world.server.push({"deliver": [other]})
        held.door.set()
        assert (await world.stages("slow", "result:ok"))[-1] == "result:ok"
        await world.clock.advance(2)
        assert await world.rows("SELECT position FROM cursors") == [(500,)]


@pytest.mark.requirement("D20")
async def test_two_agents_that_give_their_queries_one_name_are_both_answered(tmp_path: Path) -> None:
    held = Held()
    async with warm(tmp_path, held) as world:
        other = "operator/other"
        world.activate(other)
        await world.inventory(other)
        revision = (await world.inventory())["revision"]
        held.door.clear()
        for agent in (AGENT, other):
            await world.invoke(
                "probe.echo", {"text": agent}, "call-1", agent=agent, key=agent, revision=revision
            )
        await until(lambda: world.script is not None and world.script.ran.total() == 3)
        held.door.set()
        for agent in (AGENT, other):
            assert (await world.stages("call-1", "result:ok", agent))[-1] == "result:ok"
            results = [one for one in world.answers("call-1", agent) if one["type"] == "lineup.tool.result"]
            assert [one["payload"]["result"]["text"] for one in results] == [agent]


@pytest.mark.requirement("D20")
async def test_a_handler_that_cannot_be_asked_ahead_is_asked_when_its_call_is_stored(tmp_path: Path) -> None:
    held = Held()
    async with warm(tmp_path, held) as world:
        script = world.script
        assert script is not None
        assert script.containers is not None
        (container,) = script.containers.all.values()
        invoke, times = container.invoke, 0

        async def once_broken(call: Invocation) -> Outcome:
            nonlocal times
            times += 1
            if times == 1:
                raise ValueError("not now")
            return await invoke(call)

        container.invoke = once_broken
        await world.invoke("probe.echo", {"text": "hi"}, "call-1")
        assert (await world.stages("call-1", "result:ok"))[-1] == "result:ok"


@pytest.mark.requirement("D20")
async def test_a_query_that_is_left_open_and_ended_at_once_has_its_end(tmp_path: Path) -> None:
    async with warm(tmp_path, Held()) as world:
        script = world.script
        assert script is not None

        async def left_open(call: Invocation) -> Outcome:
            assert script.containers is not None
            (container,) = script.containers.all.values()
            asyncio.get_running_loop().call_soon(
                script.containers.events.closed, container.session, call.call_id, Completed({"text": "late"})
            )
            return Open()

        script.on("probe.echo", left_open)
        await world.invoke("probe.echo", {"text": "hi"}, "call-1")
        assert await world.stages("call-1", "result:ok") == ["accepted", "result:ok"]


@pytest.mark.requirement("D3")
async def test_a_message_that_cannot_even_be_queued_is_taken_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with warm(tmp_path, Held()) as world:
        database = world.runtime.foundation.database
        submit, times = database.submit, 0

        def full_once(*arguments: Any) -> Any:
            nonlocal times
            times += 1
            if times == 1:
                raise QueueFull("too many jobs are waiting")
            return submit(*arguments)

        monkeypatch.setattr(database, "submit", full_once)
        await world.invoke("probe.echo", {"text": "hi"}, "call-1")
        await world.invoke("probe.echo", {"text": "ho"}, "call-2")
        await until(lambda: times > 0)
        await world.clock.advance(1)
        for call_id in ("call-1", "call-2"):
            assert (await world.stages(call_id, "result:ok"))[-1] == "result:ok"
