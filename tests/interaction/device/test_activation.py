"""How apps get ready, and what becomes of the calls that wait for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.interaction.device.apps import PROBE, changed_probe, with_tool

from lineloop.device.containers.port import Completed, Invocation, Outcome
from lineloop.device.decide.intents import IntentKind
from lineloop.testing.device_world import CONVERSATION, DeviceWorld, device_world
from lineloop.testing.scripted_containers import Script
from lineloop.testing.simulated_host import Manner, SimulatedHost
from lineloop.testing.waiting import until


def counting() -> Script:
    script = Script()

    async def add(call: Invocation) -> Outcome:
        return Completed({"total": call.params["amount"], "revision": 1, "together": 1})

    async def echo(call: Invocation) -> Outcome:
        return Completed({"text": call.params["text"]})

    script.on("probe.add", add)
    script.on("probe.echo", echo)
    return script


async def add(world: DeviceWorld, number: int) -> None:
    await world.invoke("probe.add", {"amount": number}, f"add-{number}")


@pytest.mark.requirement("D23")
@pytest.mark.parametrize("restarted", [False, True])
async def test_calls_that_arrive_while_starting_run_in_arrival_order(tmp_path: Path, restarted: bool) -> None:
    script = counting()
    script.gate.clear()
    async with device_world(tmp_path, apps=PROBE, script=script) as world:
        for number in range(3):
            await add(world, number)
        await world.stages("add-2", "starting")
        if restarted:
            await world.restart()
        assert await world.rows("SELECT COUNT(*) FROM activations") == [(1,)]
        assert script.ran.total() == 0
        script.gate.set()
        story = ["starting", "activation_ready", "result:ok"]
        for number in range(3):
            assert await world.stages(f"add-{number}", "result:ok") == story
        sql = (
            "SELECT call_id FROM receipts JOIN calls ON id = call_ref"
            " JOIN outbox ON key = call_ref || '/' || receipts.sequence WHERE stage = 'activation_ready'"
        )
        assert await world.rows(f"{sql} ORDER BY position") == [(f"add-{n}",) for n in range(3)]
        assert script.ran == {"add-0": 1, "add-1": 1, "add-2": 1}


@pytest.mark.requirement("D24")
@pytest.mark.parametrize("reason", ["app_start_failed", "no_container", "sdk_incompatible"])
async def test_a_start_that_fails_answers_every_waiting_call(tmp_path: Path, reason: str) -> None:
    script = counting()
    script.gate.clear()
    script.fail = reason
    async with device_world(tmp_path, apps=PROBE, script=script) as world:
        for number in range(3):
            await add(world, number)
        await world.stages("add-2", "starting")
        script.gate.set()
        for number in range(3):
            failed = await world.ended(f"add-{number}")
            assert (failed["code"], failed["reason"]) == ("app_activation_failed", reason)
            story = ["starting", "activation_failed", "error:app_activation_failed"]
            assert world.story(f"add-{number}") == story
        assert script.ran.total() == 0
        script.fail = None
        await add(world, 9)
        await world.stages("add-9", "result:ok")


@pytest.mark.requirement("D24")
async def test_a_start_that_never_gets_ready_fails_with_its_deadline(tmp_path: Path) -> None:
    script = counting()
    script.gate.clear()
    apps = changed_probe(tmp_path / "brought", with_tool("probe.add", timeout_ms=60_000))
    async with device_world(tmp_path, apps=apps, script=script) as world:
        await add(world, 1)
        await world.stages("add-1", "starting")
        await world.clock.advance(15)
        failed = await world.ended("add-1")
        assert (failed["code"], failed["reason"]) == ("app_activation_failed", "deadline")
        script.gate.set()
        await world.settle()
        assert await world.rows("SELECT state FROM activations") == [("failed",)]


@pytest.mark.requirement("D24")
async def test_the_real_container_says_why_it_could_not_start(tmp_path: Path) -> None:
    apps = changed_probe(tmp_path / "brought", lambda _: None)
    (apps / "probe" / "logic.js").write_text("throw new Error('broken');")
    async with device_world(tmp_path, apps=apps) as world:
        await add(world, 1)
        failed = await world.ended("add-1")
        assert (failed["code"], failed["reason"]) == ("app_activation_failed", "app_start_failed")


@pytest.mark.requirement("D25")
async def test_closing_an_app_that_starts_cancels_what_waits_for_it(tmp_path: Path) -> None:
    script = counting()
    script.gate.clear()
    async with device_world(tmp_path, apps=PROBE, script=script) as world:
        for number in range(2):
            await add(world, number)
        await world.stages("add-1", "starting")
        (instance,) = (await world.rows("SELECT instance_id FROM instances"))[0]
        await world.simulated.person(IntentKind.CLOSE_APP, CONVERSATION, instance)
        for number in range(2):
            assert (await world.ended(f"add-{number}"))["code"] == "cancelled_by_user"
            assert "activation_cancelled" in world.story(f"add-{number}")
        script.gate.set()
        await world.settle()
        assert script.ran.total() == 0


@pytest.mark.requirement("D26")
async def test_a_call_that_needs_no_activation_never_waits_and_never_starts_anything(tmp_path: Path) -> None:
    script = counting()
    script.gate.clear()
    change = with_tool("probe.echo", activation_requirement="activation_not_required")
    apps = changed_probe(tmp_path / "brought", change)
    async with device_world(tmp_path, apps=apps, script=script) as world:
        await world.invoke("probe.echo", {"text": "hi"}, "closed")
        assert (await world.ended("closed"))["code"] == "app_not_running"
        assert await world.rows("SELECT * FROM instances") == []
        await add(world, 1)
        await world.stages("add-1", "starting")
        await world.invoke("probe.echo", {"text": "hi"}, "while starting")
        assert (await world.ended("while starting"))["code"] == "app_not_running"
        script.gate.set()
        await world.stages("add-1", "result:ok")
        await world.invoke("probe.echo", {"text": "hi"}, "running")
        assert await world.stages("running", "result:ok") == ["accepted", "result:ok"]


async def test_a_tool_that_may_not_start_its_app_says_that_it_does_not_run(tmp_path: Path) -> None:
    apps = changed_probe(tmp_path / "brought", with_tool("probe.add", auto_launch=False))
    async with device_world(tmp_path, apps=apps, script=counting()) as world:
        await add(world, 1)
        assert await world.stages("add-1", "error:app_not_running") == ["accepted", "error:app_not_running"]
        assert await world.rows("SELECT * FROM instances") == []


@pytest.mark.requirement("D27")
async def test_ready_is_not_enough_for_a_tool_that_needs_the_foreground(tmp_path: Path) -> None:
    change = with_tool("probe.echo", activation_requirement="foreground_required")
    apps = changed_probe(tmp_path / "brought", change)
    host = SimulatedHost(Manner.WHEN_TOLD)
    async with device_world(tmp_path, apps=apps, script=counting(), host=host) as world:
        await world.invoke("probe.echo", {"text": "hi"}, "call-1")
        assert await world.stages("call-1", "activation_ready") == ["starting", "activation_ready"]
        await world.settle()
        assert world.story("call-1") == ["starting", "activation_ready"]
        assert await world.simulated.confirm()
        await world.stages("call-1", "result:ok")
        await world.invoke("probe.echo", {"text": "hi"}, "call-2")
        await world.stages("call-2", "result:ok")
        assert len(world.simulated.showings) == 1


@pytest.mark.requirement("D27")
async def test_a_foreground_that_is_not_confirmed_in_time_is_its_own_error(tmp_path: Path) -> None:
    change = with_tool("probe.echo", activation_requirement="foreground_required")
    apps = changed_probe(tmp_path / "brought", change)
    script, host = counting(), SimulatedHost(Manner.WHEN_TOLD)
    async with device_world(tmp_path, apps=apps, script=script, host=host) as world:
        await world.invoke("probe.echo", {"text": "hi"}, "call-1")
        await world.stages("call-1", "activation_ready")
        await world.clock.advance(10)
        assert (await world.ended("call-1"))["code"] == "foreground_required"
        assert script.ran.total() == 0


@pytest.mark.requirement("D33")
async def test_a_failed_launch_gives_the_foreground_back(tmp_path: Path) -> None:
    change = with_tool("probe.echo", activation_requirement="foreground_required")
    apps = changed_probe(tmp_path / "brought", change)
    (apps / "other").mkdir()
    manifest = (apps / "probe" / "manifest.json").read_text().replace('"probe', '"other')
    (apps / "other" / "manifest.json").write_text(manifest)
    (apps / "other" / "logic.js").write_text("")
    script = counting()
    async with device_world(tmp_path, apps=apps, script=script) as world:
        await world.invoke("probe.echo", {"text": "hi"}, "call-1")
        await world.stages("call-1", "result:ok")
        script.fail = "app_start_failed"
        await world.invoke("other.echo", {"text": "hi"}, "call-2")
        assert (await world.ended("call-2"))["code"] == "app_activation_failed"
        probe = world.simulated.showings[0].instance_id
        await until(lambda: world.simulated.showings[-1].instance_id == probe)
        await world.settle()
        sql = "SELECT state FROM instances WHERE app_scope = 'probe'"
        assert await world.rows(sql) == [("foreground",)]
        assert await world.rows("SELECT instance_id FROM focus") == [(probe,)]
