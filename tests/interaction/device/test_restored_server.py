"""A server that was put back to a backup: nothing is lost on its device, and nothing done twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.interaction.device.apps import PROBE

from lineloop.device.containers.port import Completed, Invocation, Outcome
from lineloop.testing.device_world import DeviceWorld, device_world
from lineloop.testing.scripted_containers import Script

ECHOED = ["starting", "activation_ready", "result:ok"]
TIMED = ["starting", "started", "result:completed"]


def counting(ran: list[str]) -> Script:
    script = Script()

    async def echo(call: Invocation) -> Outcome:
        ran.append(call.params["text"])
        return Completed({"text": call.params["text"]})

    script.on("probe.echo", echo)
    return script


async def echo(world: DeviceWorld, call_id: str) -> None:
    await world.invoke("probe.echo", {"text": call_id}, call_id)


@pytest.mark.requirement("T2")
@pytest.mark.parametrize("down", [False, True], ids=["while it runs", "while it is down"])
async def test_what_is_asked_of_a_restored_server_is_done_and_what_it_lost_is_said_again(
    tmp_path: Path, *, down: bool
) -> None:
    ran: list[str] = []
    async with device_world(tmp_path, apps=PROBE, script=counting(ran)) as world:
        await echo(world, "before")
        assert await world.stages("before", "result:ok") == ECHOED
        await world.clock.advance(1)
        backup = world.server.backup()
        for number in range(5):
            await echo(world, f"lost-{number}")
            await world.stages(f"lost-{number}", "result:ok")
        await world.clock.advance(1)
        assert world.runtime.outbox_waiting == 0

        if down:
            await world.restart(while_down=lambda: world.server.restore(backup))
        else:
            world.server.restore(backup)
        await world.clock.advance(30)
        assert world.story("before") == ECHOED

        await echo(world, "after")
        assert (await world.stages("after", "result:ok")).count("result:ok") == 1
        assert await world.inventory()
        assert world.runtime.outbox_waiting == 0
        assert ran == ["before", *(f"lost-{number}" for number in range(5)), "after"]


@pytest.mark.requirement("T2")
async def test_what_was_delivered_and_not_committed_is_not_done_again(tmp_path: Path) -> None:
    ran: list[str] = []
    async with device_world(tmp_path, apps=PROBE, script=counting(ran)) as world:
        await echo(world, "one")
        messages, _ = world.server.backup()
        assert await world.stages("one", "result:ok") == ECHOED
        world.server.restore((messages, {}))
        await world.clock.advance(30)
        assert await world.stages("one", "result:ok") == ECHOED
        assert ran == ["one"]


@pytest.mark.requirement("T2")
async def test_a_result_that_a_server_had_and_lost_is_said_to_it_again_once(tmp_path: Path) -> None:
    async with device_world(tmp_path) as world:
        await world.invoke("pomodoro.start", {"minutes": 5}, "timer")
        await world.stages("timer", "started")
        backup = world.server.backup()
        await world.clock.advance(300)
        assert await world.stages("timer", "result:completed") == TIMED
        for _ in range(2):
            world.server.restore(backup)
            await world.clock.advance(30)
            assert await world.stages("timer", "result:completed") == TIMED
        noted = await world.rows("SELECT event FROM audit WHERE event = 'server_began_anew'")
        assert len(noted) == 2
