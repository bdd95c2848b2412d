"""What agents are told they may call, and when."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.interaction.device.apps import PROBE

from lineloop.device.decide.inventory import PolicyRule
from lineloop.testing.device_world import AGENT, CONVERSATION, DeviceWorld, device_world
from lineloop.testing.scripted_containers import Script
from lineloop.testing.waiting import until


def published(world: DeviceWorld) -> list[str]:
    return [
        message["content"]["blocks"][0]["envelope"]["payload"]["revision"]
        for message in world.server.messages
        if message["purpose"] == "inventory"
    ]


async def change(world: DeviceWorld, what: str) -> None:
    operation = await getattr(world.runtime.registry, what)("probe")
    assert (await world.runtime.registry.wait(operation.operation_id)).state == "succeeded"


@pytest.mark.requirement("D9")
async def test_the_revision_changes_with_the_apps_and_comes_back_with_them(tmp_path: Path) -> None:
    script = Script()
    async with device_world(tmp_path, apps=PROBE, script=script) as world:
        first = await world.inventory()
        assert {tool["method"] for tool in first["tools"]} >= {"probe.echo", "probe.add"}
        await change(world, "disable")
        await until(lambda: len(published(world)) == 2)
        without = await world.inventory()
        assert without["tools"] == []
        await world.invoke("probe.echo", {"text": "hi"}, "call-1")
        assert (await world.ended("call-1"))["code"] == "app_disabled"
        await change(world, "enable")
        await until(lambda: len(published(world)) == 3)
        assert published(world) == [first["revision"], without["revision"], first["revision"]]
        assert await world.rows("SELECT COUNT(*) FROM inventory_contents") == [(2,)]


@pytest.mark.requirement("D9")
async def test_disabling_ends_live_calls_in_the_same_commit(tmp_path: Path) -> None:
    script = Script()
    script.gate.clear()
    async with device_world(tmp_path, apps=PROBE, script=script) as world:
        await world.invoke("probe.echo", {"text": "hi"}, "call-1")
        await world.stages("call-1", "starting")
        await change(world, "disable")
        assert (await world.ended("call-1"))["code"] == "app_disabled"
        script.gate.set()
        await world.settle()
        assert script.ran.total() == 0


@pytest.mark.requirement("D9")
async def test_disabling_interrupts_what_runs(tmp_path: Path) -> None:
    async with device_world(tmp_path) as world:
        await world.invoke("pomodoro.start", {"minutes": 5}, "call-1")
        await world.stages("call-1", "started")
        operation = await world.runtime.registry.disable("pomodoro")
        await world.runtime.registry.wait(operation.operation_id)
        ended = (await world.ended("call-1"))["result"]
        assert (ended["outcome"], ended["reason"]) == ("interrupted", "app_disabled")
        await until(lambda: world.simulated.closed)


@pytest.mark.requirement("D10")
async def test_agents_and_conversations_with_another_policy_see_another_inventory(tmp_path: Path) -> None:
    async with device_world(tmp_path, apps=PROBE, script=Script()) as world:
        await world.runtime.set_policy(
            [
                PolicyRule(agent="operator/guest", method="probe.add"),
                PolicyRule(conversation_id="cnv_two", method="probe.echo"),
            ]
        )
        mine = {t["method"] for t in (await world.inventory())["tools"]}
        guests = {t["method"] for t in (await world.inventory("operator/guest"))["tools"]}
        second = {t["method"] for t in (await world.inventory(AGENT, "cnv_two"))["tools"]}
        assert mine - guests == {"probe.add"}
        assert mine - second == {"probe.echo"}
        await world.invoke("probe.add", {"amount": 1}, "call-1", agent="operator/guest")
        assert (await world.ended("call-1", "operator/guest"))["code"] == "tool_not_visible"
        await world.invoke("probe.echo", {"text": "hi"}, "call-2", conversation_id="cnv_two")
        assert (await world.ended("call-2"))["code"] == "tool_not_visible"


async def test_an_agent_that_asks_is_always_answered(tmp_path: Path) -> None:
    async with device_world(tmp_path) as world:
        revision = (await world.inventory())["revision"]
        asked = world.ask_inventory()
        await until(lambda: len(published(world)) == 2)
        assert published(world) == [revision, revision]
        assert world.server.messages[-1]["reply_to_id"] == asked["id"]


async def test_who_knows_the_inventory_is_not_told_again(tmp_path: Path) -> None:
    async with device_world(tmp_path) as world:
        await world.inventory()
        world.activate()
        await world.restart()
        await world.settle()
        assert len(published(world)) == 1


async def test_the_inventory_holds_agent_tools_only(tmp_path: Path) -> None:
    async with device_world(tmp_path) as world:
        inventory = await world.inventory()
        assert {tool["app_scope"] for tool in inventory["tools"]} == {"pomodoro"}
        assert not any(
            word in tool["method"] for tool in inventory["tools"] for word in ("open", "prepare", "preset")
        )


@pytest.mark.requirement("P24")
async def test_who_left_is_told_no_inventory_until_it_comes_back(tmp_path: Path) -> None:
    async with device_world(tmp_path, apps=PROBE, script=Script()) as world:
        first = (await world.inventory())["revision"]
        kind, _, key = AGENT.rpartition("/")
        line = {"conversation_id": CONVERSATION, "kind": kind, "key": key}
        world.server.push({"departed": [line]})
        await world.settle()
        await world.runtime.set_policy([PolicyRule(method="probe.add")])
        await world.settle()
        assert published(world) == [first]
        world.server.push({"participants": [line]})
        await until(lambda: len(published(world)) == 2)
        assert published(world)[1] != first
