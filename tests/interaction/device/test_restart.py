"""What a fresh process finds and goes on with, after the old one was killed at any moment."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from tests.interaction.device.apps import PROBE, changed_probe, with_tool

from lineloop.device.containers.port import Completed, Invocation, Outcome
from lineloop.device.decide.state import Call
from lineloop.device.store import calls
from lineloop.kit.database import Tx
from lineloop.protocol.tools import ToolKey
from lineloop.testing.device_world import AGENT, CONVERSATION, DeviceWorld, device_world
from lineloop.testing.scripted_containers import Script
from lineloop.testing.waiting import until

pytestmark = pytest.mark.slow


def hanging(released: asyncio.Event) -> Script:
    script = Script()

    async def handler(call: Invocation) -> Outcome:
        await released.wait()
        return Completed({"text": "done"})

    script.on("probe.echo", handler)
    return script


@pytest.mark.requirement("D53")
async def test_a_call_that_was_with_its_app_is_handed_out_again_with_its_id(tmp_path: Path) -> None:
    released = asyncio.Event()
    script = hanging(released)
    async with device_world(tmp_path, apps=PROBE, script=script) as world:
        await world.invoke("probe.echo", {"text": "hi"}, "call-1")
        await until(lambda: script.ran["call-1"] == 1)
        await world.restart()
        await until(lambda: script.ran["call-1"] == 2)
        released.set()
        story = ["starting", "activation_ready", "result:ok"]
        assert await world.stages("call-1", "result:ok") == story


@pytest.mark.requirement("D53")
async def test_a_call_that_must_not_run_twice_ends_with_its_outcome_unknown(tmp_path: Path) -> None:
    released = asyncio.Event()
    script = hanging(released)
    apps = changed_probe(tmp_path / "brought", with_tool("probe.echo", idempotency="none"))
    async with device_world(tmp_path, apps=apps, script=script) as world:
        await world.invoke("probe.echo", {"text": "hi"}, "call-1")
        await until(lambda: script.ran["call-1"] == 1)
        await world.restart()
        failed = await world.ended("call-1")
        assert (failed["code"], failed["reason"]) == ("handler_failed", "outcome_unknown")
        assert script.ran["call-1"] == 1


@pytest.mark.requirement("D53")
async def test_cursor_inventory_and_running_work_survive(tmp_path: Path) -> None:
    async with device_world(tmp_path) as world:
        await world.invoke("pomodoro.start", {"minutes": 5}, "call-1")
        await world.stages("call-1", "started")
        cursors = await world.rows("SELECT * FROM cursors")
        revision = (await world.inventory())["revision"]
        said = len(world.server.messages)
        await world.restart()
        assert [row[:3] for row in await world.rows("SELECT * FROM cursors")] == [r[:3] for r in cursors]
        assert len(world.server.messages) == said
        assert (await world.inventory())["revision"] == revision
        assert {app.app_scope for app in world.runtime.registry.apps.values()} >= {"chat", "pomodoro"}
        await world.invoke("pomodoro.interrupt", {}, "stop-1")
        assert (await world.ended("call-1"))["result"]["outcome"] == "interrupted"


@pytest.mark.requirement("D53")
async def test_a_call_whose_time_passed_while_down_expires_at_once(tmp_path: Path) -> None:
    script = Script()
    script.gate.clear()
    async with device_world(tmp_path, apps=PROBE, script=script) as world:
        await world.invoke("probe.echo", {"text": "hi"}, "call-1")
        await world.stages("call-1", "starting")
        await world.restart(while_down=lambda: world.clock.jump(3600))
        await world.clock.advance(0)
        ended = await world.ended("call-1")
        assert ended["code"] in ("operation_expired", "app_activation_failed")


@pytest.mark.requirement("D28", "D53")
async def test_what_was_not_said_before_a_restart_is_said_before_all_that_follows(tmp_path: Path) -> None:
    script = Script()
    script.gate.clear()
    async with device_world(tmp_path, apps=PROBE, script=script) as world:
        await world.inventory()
        registry = world.runtime.registry
        world.server.lose_answers = True
        await world.invoke("probe.echo", {"text": "hi"}, "call-1")
        await world.stages("call-1", "starting")
        await world.invoke("probe.echo", {"text": "hi"}, "call-2")
        await world.settle()
        # The removal is stored and not carried out: the next process takes it up while it starts.
        registry._turn = asyncio.Lock()  # pyright: ignore[reportPrivateUsage]
        await registry._turn.acquire()  # pyright: ignore[reportPrivateUsage]
        await registry.remove("probe")
        world.server.lose_answers = False
        await world.restart()
        for name in ("call-1", "call-2"):
            assert await world.stages(name, "error:app_not_installed") == [
                "starting",
                "activation_cancelled",
                "error:app_not_installed",
            ]


@pytest.mark.requirement("D53")
async def test_ten_thousand_waiting_calls_are_restored_within_a_second_and_all_answered(
    tmp_path: Path,
) -> None:
    script = Script()
    script.gate.clear()
    apps = changed_probe(tmp_path / "brought", with_tool("probe.echo", timeout_ms=3_600_000))
    async with device_world(tmp_path, apps=apps, script=script) as world:
        await world.invoke("probe.echo", {"text": "first"}, "call-0")
        await world.stages("call-0", "starting")
        await fill_queue(world, 10_000)
        began = time.monotonic()
        await world.drop()
        dropped = time.monotonic()
        await world._start()  # pyright: ignore[reportPrivateUsage]
        took = time.monotonic() - dropped
        assert took < 1.0, f"restored in {took:.2f} s after {dropped - began:.2f} s of closing"
        assert await world.rows("SELECT COUNT(*) FROM calls WHERE state = 'waiting_activation'") == [
            (10_001,)
        ]
        assert world.runtime.ready


async def fill_queue(world: DeviceWorld, count: int) -> None:
    """Copies the one waiting call many times, as if as many had arrived."""
    runtime_id = world.runtime.room.runtime_id

    def job(tx: Tx) -> None:
        first = calls.by_call_id(tx, runtime_id, AGENT, CONVERSATION, "call-0")
        assert first is not None
        for number in range(1, count + 1):
            call: Call = Call(
                f"call_{number}",
                AGENT,
                CONVERSATION,
                f"call-{number}",
                ToolKey("probe", "probe.echo", "1"),
                first.params,
                first.inventory_revision,
                first.message_id,
                first.envelope_id,
                first.state,
                first.call_model,
                first.app_session_id,
                first.activation_id,
                None,
                1,
                0,
                first.deadline_at,
                first.timeout_ms,
                None,
                None,
                first.accepted_at,
                None,
                None,
            )
            calls.insert(tx, runtime_id, call)

    await world.runtime.foundation.write(job)


@pytest.mark.requirement("D24", "D53")
async def test_more_waiting_calls_than_one_decision_ends_are_all_answered(tmp_path: Path) -> None:
    script = Script()
    script.gate.clear()
    script.fail = "app_start_failed"
    async with device_world(tmp_path, apps=PROBE, script=script) as world:
        await world.invoke("probe.echo", {"text": "first"}, "call-0")
        await world.stages("call-0", "starting")
        await fill_queue(world, 300)
        script.gate.set()
        await world.stages("call-300", "error:app_activation_failed")
        sql = "SELECT COUNT(*), error_code FROM calls GROUP BY error_code"
        assert await world.rows(sql) == [(301, "app_activation_failed")]


@pytest.mark.requirement("D23")
async def test_more_waiting_calls_than_one_decision_moves_run_in_arrival_order(tmp_path: Path) -> None:
    script = Script()
    ran: list[str] = []

    async def echo(call: Invocation) -> Outcome:
        ran.append(call.call_id)
        return Completed({"text": "x"})

    script.on("probe.echo", echo)
    script.gate.clear()
    async with device_world(tmp_path, apps=PROBE, script=script) as world:
        await world.invoke("probe.echo", {"text": "first"}, "call-0")
        await world.stages("call-0", "starting")
        await fill_queue(world, 200)
        script.gate.set()
        await world.stages("call-200", "result:ok")
        assert ran == [f"call-{number}" for number in range(201)]
