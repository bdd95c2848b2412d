"""Every fault site of a device, failing once and crashing once: the same end, nothing lost, nothing twice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest
from tests.interaction.device.apps import changed_probe, tool

from lineloop.device.containers.port import Completed, Invocation, Outcome
from lineloop.device.decide.intents import IntentKind
from lineloop.kit.faults import Faults
from lineloop.protocol.fault_sites import FaultSite
from lineloop.testing.device_world import CONVERSATION, DeviceWorld, device_world
from lineloop.testing.scripted_containers import Script
from lineloop.testing.waiting import until

STARTED = ["starting", "started"]
T = TypeVar("T")


async def patiently(world: DeviceWorld, reached: Callable[[], object]) -> None:
    """Waits for a value, letting virtual time pass for whoever tries again."""
    for _ in range(400):
        await world.settle()
        if reached():
            return
        await world.clock.advance(0.5)
        await asyncio.sleep(0.005)  # A process that starts anew needs real time.
    raise AssertionError("never reached")


async def told_again(report: Callable[[], Awaitable[T]]) -> T:
    """A report of the shell that could not be stored is made again, also to the next process."""
    for _ in range(400):
        try:
            return await report()
        except Exception:
            await asyncio.sleep(0.005)
    raise AssertionError("never stored")


async def learn_inventory(world: DeviceWorld) -> None:
    """The agent hears of its tools, however often telling it fails."""
    world.activate()
    await patiently(world, lambda: any(m["purpose"] == "inventory" for m in world.server.messages))


async def focus(world: DeviceWorld) -> None:
    """A person's focus, interrupted by the agent."""
    await world.invoke("pomodoro.start", {"minutes": 30}, "call-1")
    await patiently(world, lambda: "started" in world.story("call-1"))
    await world.invoke("pomodoro.interrupt", {}, "stop-1")
    await patiently(world, lambda: world.story("stop-1")[-1:] == ["result:interrupted"])
    await patiently(world, lambda: "result:interrupted" in world.story("call-1"))
    assert world.story("call-1") == [*STARTED, "result:interrupted"]
    assert world.story("stop-1") == ["accepted", "result:interrupted"]
    assert await told_again(lambda: world.rows("SELECT state FROM operations")) == [("interrupted",)]
    assert await told_again(lambda: world.rows("SELECT COUNT(*) FROM records")) == [(1,)]
    await patiently(world, lambda: world.simulated.closed)


async def completion(world: DeviceWorld) -> None:
    """A focus that reaches its end."""
    await world.invoke("pomodoro.start", {"minutes": 1}, "call-1")
    await patiently(world, lambda: "started" in world.story("call-1"))
    await world.clock.advance(60)
    await patiently(world, lambda: "result:completed" in world.story("call-1"))
    assert world.story("call-1") == [*STARTED, "result:completed"]
    assert await told_again(lambda: world.rows("SELECT state FROM operations")) == [("completed",)]
    assert [m["purpose"] for m in world.server.messages].count("speech") == 1


async def leaving(world: DeviceWorld) -> None:
    """A focus that the person leaves."""
    await world.invoke("pomodoro.start", {"minutes": 30}, "call-1")
    await patiently(world, lambda: "started" in world.story("call-1"))
    await told_again(lambda: world.simulated.person(IntentKind.SHOW_CHAT, CONVERSATION))
    await patiently(world, lambda: "result:interrupted" in world.story("call-1"))
    assert world.story("call-1") == [*STARTED, "result:interrupted"]


async def query(world: DeviceWorld) -> None:
    """A call for a handler."""
    await world.invoke("probe.echo", {"text": "hi"}, "call-1")
    await patiently(world, lambda: "result:ok" in world.story("call-1"))
    assert world.story("call-1") == ["starting", "activation_ready", "result:ok"]


async def consent(world: DeviceWorld) -> None:
    """A risky call that the person allows."""
    await world.invoke("probe.add", {"amount": 1}, "call-1")
    await patiently(world, lambda: world.simulated.sheets)
    await told_again(lambda: world.simulated.answer_consent(allowed=True))
    await patiently(world, lambda: "result:ok" in world.story("call-1"))
    assert world.story("call-1") == ["accepted", "starting", "activation_ready", "result:ok"]


async def action(world: DeviceWorld) -> None:
    """A UI action over an app's port."""
    await query(world)
    (instance,) = (await told_again(lambda: world.rows("SELECT instance_id FROM instances")))[0]
    await told_again(lambda: world.runtime.ui_actions.dispatch(instance, "a1", "tick", {"item": 1}))
    stored = await told_again(lambda: world.rows("SELECT action_id FROM ui_actions"))
    assert stored == [("a1",)]


Scenario = Callable[[DeviceWorld], Awaitable[None]]

SCENARIOS: dict[Scenario, tuple[str, ...]] = {
    focus: (
        "device.receive",
        "device.accept",
        "device.activation",
        "device.foreground",
        "device.operation_start",
        "device.result",
        "device.inventory",
        "device.host.before_show",
        "device.host.after_show",
        "device.outbox.before_send",
        "device.outbox.after_send",
    ),
    completion: ("device.deadline",),
    leaving: ("device.intent",),
    query: ("device.handler_report", "device.handler.before_invoke", "device.handler.after_invoke"),
    consent: ("device.consent",),
    action: ("device.action",),
}


def _sites() -> list[tuple[str, Scenario]]:
    found: list[tuple[str, Scenario]] = []
    for scenario, names in SCENARIOS.items():
        for name in names:
            whole = [f"{name}.before_commit", f"{name}.after_commit"]
            found += [(site, scenario) for site in ([name] if name in set(FaultSite) else whole)]
    return found


SITES = _sites()


def test_every_site_of_the_core_is_in_a_scenario() -> None:
    others = (
        "device.apps.",
        "device.session_data.",
        "device.inbox.",
        "device.person.",
        "device.container.",
        "device.retention.",
    )
    mine = {site for site in FaultSite if site.startswith("device.") and not site.startswith(others)}
    assert mine == {site for site, _ in SITES}


def script() -> Script:
    made = Script()

    async def echo(call: Invocation) -> Outcome:
        return Completed({"text": call.params["text"]})

    async def add(call: Invocation) -> Outcome:
        return Completed({"total": 1, "revision": 1, "together": 1})

    made.on("probe.echo", echo)
    made.on("probe.add", add)
    return made


def apps(folder: Path) -> Path:
    def change(manifest: dict[str, object]) -> None:
        tool(manifest, "probe.add").update(risk="high", timeout_ms=600_000)
        tool(manifest, "probe.echo").update(timeout_ms=600_000)
        manifest["ui_actions"] = [{"name": "tick", "schema": {"type": "object"}}]

    changed_probe(folder, change)
    shipped = Path(__file__).parents[3] / "apps" / "pomodoro"
    (folder / "pomodoro").symlink_to(shipped, target_is_directory=True)
    return folder


@pytest.mark.requirement("D30", "D34", "D36", "D3", "D7")
@pytest.mark.parametrize(("site", "scenario"), SITES, ids=[site for site, _ in SITES])
async def test_a_failure_at_a_site_changes_nothing_about_the_end(
    tmp_path: Path, site: str, scenario: Scenario
) -> None:
    faults = Faults(FaultSite, f"{site}:raise")
    async with device_world(
        tmp_path, apps=apps(tmp_path / "brought"), script=script(), faults=faults
    ) as world:
        await learn_inventory(world)
        await scenario(world)
        assert faults.reached[site] >= 1


@pytest.mark.requirement("D30", "D34", "D36", "D3", "D7", "D53")
@pytest.mark.parametrize(("site", "scenario"), SITES, ids=[site for site, _ in SITES])
async def test_a_crash_at_a_site_changes_nothing_about_the_end(
    tmp_path: Path, site: str, scenario: Scenario
) -> None:
    faults = Faults(FaultSite, f"{site}:raise")
    async with device_world(
        tmp_path, apps=apps(tmp_path / "brought"), script=script(), faults=faults
    ) as world:
        crashed = False

        async def crash_once_reached() -> None:
            nonlocal crashed
            await until(lambda: faults.reached[site] >= 1, seconds=20)
            crashed = True
            await world.restart()

        crash = asyncio.create_task(crash_once_reached())
        await learn_inventory(world)
        await scenario(world)
        await crash
        assert crashed
