"""One app in front at a time: what was there before keeps its calls, and comes back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.interaction.device.apps import changed_probe, tool

from lineloop.device.apps import Packaged
from lineloop.device.containers.port import Completed, Invocation, Open, Outcome
from lineloop.device.decide.intents import IntentKind
from lineloop.testing.device_world import CONVERSATION, DeviceWorld, device_world
from lineloop.testing.scripted_containers import Script
from lineloop.testing.simulated_host import Manner
from lineloop.testing.waiting import until

POMODORO = Packaged.of_this_installation().shipped / "pomodoro"


def both(folder: Path) -> Path:
    """The probe, whose echo needs the foreground and stays open, and Pomodoro."""

    def change(manifest: dict[str, Any]) -> None:
        tool(manifest, "probe.echo").update(
            activation_requirement="foreground_required", call_model="interactive", timeout_ms=3_600_000
        )

    changed_probe(folder, change)
    (folder / "pomodoro").symlink_to(POMODORO, target_is_directory=True)
    return folder


def staying_open() -> Script:
    script = Script()

    async def echo(call: Invocation) -> Outcome:
        return Open() if call.params["text"] == "open" else Completed({"text": call.params["text"]})

    script.on("probe.echo", echo)
    return script


async def states(world: DeviceWorld) -> dict[str, str]:
    """Live and ended instances by app, the newest of each."""
    rows = await world.rows("SELECT app_scope, state FROM instances ORDER BY started_at, instance_id")
    return dict(rows)  # type: ignore[arg-type]


async def in_front(world: DeviceWorld) -> str | None:
    """The app that the person should see now; None = chat."""
    rows = await world.rows(
        "SELECT i.app_scope FROM focus AS f JOIN instances AS i ON i.instance_id = f.instance_id"
        " ORDER BY f.number DESC LIMIT 1"
    )
    return rows[0][0] if rows else None


async def a_open_below_b(world: DeviceWorld) -> None:
    """The probe with an open call, and Pomodoro focusing over it."""
    await world.invoke("probe.echo", {"text": "open"}, "a")
    await world.stages("a", "activation_ready")
    await until(lambda: world.script is not None and world.script.ran["a"] == 1)
    assert await in_front(world) == "probe"
    await world.invoke("pomodoro.start", {"minutes": 5}, "b")
    await world.stages("b", "started")


@pytest.mark.requirement("D51")
async def test_an_app_over_another_puts_that_into_the_background_with_its_calls(tmp_path: Path) -> None:
    async with device_world(tmp_path, apps=both(tmp_path / "apps"), script=staying_open()) as world:
        await a_open_below_b(world)
        assert await states(world) == {"probe": "background", "pomodoro": "foreground"}
        assert await in_front(world) == "pomodoro"
        assert world.story("a") == ["starting", "activation_ready"]
        assert await world.rows("SELECT state FROM calls WHERE call_id = 'a'") == [("dispatched",)]


@pytest.mark.requirement("D51")
@pytest.mark.parametrize("how", ["completed", "closed", "restarted"])
async def test_when_the_upper_app_ends_the_lower_one_is_shown_again(tmp_path: Path, how: str) -> None:
    async with device_world(tmp_path, apps=both(tmp_path / "apps"), script=staying_open()) as world:
        await a_open_below_b(world)
        if how == "restarted":
            await world.restart()
            assert await in_front(world) == "pomodoro"
        if how == "closed":
            ((instance,),) = await world.rows(
                "SELECT instance_id FROM instances WHERE app_scope = 'pomodoro'"
            )
            await world.simulated.person(IntentKind.CLOSE_APP, CONVERSATION, instance)
        else:
            await world.clock.advance(300)
        await world.stages("b", "result:interrupted" if how == "closed" else "result:completed")
        await world.settle()
        await until(lambda: world.simulated.showings[-1].app_scope == "probe")
        assert await in_front(world) == "probe"
        assert (await states(world))["probe"] == "foreground"
        assert [one for one in world.story("a") if one.startswith(("result", "error"))] == []


@pytest.mark.requirement("D51", "D24")
@pytest.mark.parametrize("why", ["never_confirmed", "cancelled", "start_failed"])
async def test_an_app_that_does_not_come_up_leaves_the_one_before_in_front(tmp_path: Path, why: str) -> None:
    script = staying_open()
    async with device_world(tmp_path, apps=both(tmp_path / "apps"), script=script) as world:
        await world.invoke("pomodoro.start", {"minutes": 180}, "first")
        await world.stages("first", "started")
        if why == "start_failed":
            script.fail = "app_start_failed"
        world.simulated.manner = Manner.WHEN_TOLD
        await world.invoke("probe.echo", {"text": "hi"}, "second")
        if why == "start_failed":
            await world.stages("second", "error:app_activation_failed")
        else:
            await world.stages("second", "activation_ready")
            assert await in_front(world) == "probe"
        if why == "never_confirmed":
            await world.clock.advance(3_600)
            await world.stages("second", "error:foreground_required")
        if why == "cancelled":
            world.cancel("second", "probe")
            await world.stages("second", "error:cancelled")
        await world.settle()
        assert await in_front(world) == "pomodoro"
        assert (await states(world))["pomodoro"] == "foreground"
        assert world.story("first") == ["starting", "started"]
        assert script.ran["second"] == 0


@pytest.mark.requirement("D51")
async def test_what_another_call_still_waits_for_stays_in_front(tmp_path: Path) -> None:
    async with device_world(tmp_path, apps=both(tmp_path / "apps"), script=staying_open()) as world:
        world.simulated.manner = Manner.WHEN_TOLD
        for name in ("one", "two"):
            await world.invoke("probe.echo", {"text": "hi"}, name)
            await until(lambda name=name: len(world.story(name)) >= 1)
        await world.stages("one", "activation_ready")
        world.cancel("one", "probe")
        await world.stages("one", "error:cancelled")
        assert await in_front(world) == "probe"
        await world.simulated.confirm()
        await world.stages("two", "result:ok")
        assert await in_front(world) == "probe"
