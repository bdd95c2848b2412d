"""Pomodoro's whole path through a device: the example of design 03 §3.5, word by word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lineloop.device.decide.intents import IntentKind
from lineloop.testing.device_world import CONVERSATION, DeviceWorld, device_world
from lineloop.testing.simulated_host import Manner, SimulatedHost
from lineloop.testing.waiting import until

pytestmark = pytest.mark.slow

STARTED = ["starting", "started"]
MINUTES_5 = 300


async def start(world: DeviceWorld, call_id: str = "call-1", **changes: Any) -> None:
    await world.invoke("pomodoro.start", {"minutes": 5, "label": "tea"}, call_id, **changes)


async def running(world: DeviceWorld) -> dict[str, Any]:
    await start(world)
    await world.stages("call-1", "started")
    return world.answers("call-1")[-1]["payload"]


def records(world: DeviceWorld) -> list[dict[str, Any]]:
    """What the device has said to the person."""
    return [m for m in world.server.messages if m["purpose"] == "speech"]


async def instance_of(world: DeviceWorld) -> str:
    return (await world.rows("SELECT instance_id FROM instances ORDER BY started_at DESC LIMIT 1"))[0][0]


@pytest.mark.requirement("D28", "D29")
async def test_before_the_host_confirms_there_is_only_a_starting_receipt(tmp_path: Path) -> None:
    async with device_world(tmp_path, host=SimulatedHost(Manner.WHEN_TOLD)) as world:
        await start(world)
        await world.stages("call-1", "starting")
        await world.settle()
        assert world.story("call-1") == ["starting"]
        assert await world.rows("SELECT * FROM operations") == []
        assert records(world) == []


@pytest.mark.requirement("D28", "D30")
async def test_the_confirmation_brings_operation_end_and_started_together(tmp_path: Path) -> None:
    async with device_world(tmp_path, host=SimulatedHost(Manner.WHEN_TOLD)) as world:
        await start(world)
        await world.stages("call-1", "starting")
        assert await world.simulated.confirm()
        assert await world.stages("call-1", "started") == STARTED
        told = world.answers("call-1")[-1]["payload"]
        assert told["duration_ms"] == MINUTES_5 * 1000
        assert await world.rows("SELECT state, ends_at - started_at FROM operations") == [("active", 300_000)]


@pytest.mark.requirement("D31", "D28", "D36")
async def test_after_its_minutes_it_completes_once_and_leaves_one_record(tmp_path: Path) -> None:
    async with device_world(tmp_path) as world:
        started = await running(world)
        await world.clock.advance(MINUTES_5)
        assert await world.stages("call-1", "result:completed") == [*STARTED, "result:completed"]
        result = (await world.ended("call-1"))["result"]
        assert result["ended_at"] == started["ends_at"]
        assert result["elapsed_ms"] == 300_000
        assert len(records(world)) == 1
        assert records(world)[0]["target"] == {"kind": "user", "key": "local"}
        await world.clock.advance(MINUTES_5)
        await world.restart()
        await world.clock.advance(MINUTES_5)
        assert len(records(world)) == 1
        assert world.story("call-1") == [*STARTED, "result:completed"]


@pytest.mark.requirement("D31", "D53")
@pytest.mark.parametrize("down_seconds", [10, 299, 300, 5000])
async def test_a_process_that_was_down_goes_on_with_the_same_end(tmp_path: Path, down_seconds: int) -> None:
    async with device_world(tmp_path) as world:
        started = await running(world)

        def pass_time() -> None:
            world.clock.jump(down_seconds)

        await world.restart(while_down=pass_time)
        if down_seconds < MINUTES_5:
            assert world.story("call-1") == STARTED
            await world.clock.advance(MINUTES_5 - down_seconds)
        assert await world.stages("call-1", "result:completed") == [*STARTED, "result:completed"]
        ends = await world.rows("SELECT ends_at FROM operations")
        assert world.answers("call-1")[1]["payload"]["ends_at"] == started["ends_at"]
        assert len(ends) == 1


@pytest.mark.requirement("D31")
@pytest.mark.parametrize("jump_seconds", [-3600, 3600])
async def test_a_clock_that_is_set_does_not_move_the_end_while_the_process_lives(
    tmp_path: Path, jump_seconds: int
) -> None:
    async with device_world(tmp_path) as world:
        await running(world)
        world.clock.jump(jump_seconds)
        await world.clock.advance(MINUTES_5 - 1)
        assert world.story("call-1") == STARTED
        await world.clock.advance(1)
        await world.stages("call-1", "result:completed")


@pytest.mark.requirement("D31")
async def test_a_clock_set_back_while_down_never_makes_it_longer_than_it_was(tmp_path: Path) -> None:
    async with device_world(tmp_path) as world:
        await running(world)
        await world.restart(while_down=lambda: world.clock.jump(-7200))
        await world.clock.advance(MINUTES_5)
        assert await world.stages("call-1", "result:completed") == [*STARTED, "result:completed"]


@pytest.mark.requirement("D32")
async def test_interrupt_while_starting_cancels_the_start(tmp_path: Path) -> None:
    async with device_world(tmp_path, host=SimulatedHost(Manner.WHEN_TOLD)) as world:
        await start(world)
        await world.stages("call-1", "starting")
        await world.invoke("pomodoro.interrupt", {}, "stop-1")
        assert (await world.ended("stop-1"))["result"] == {"outcome": "cancelled"}
        ended = (await world.ended("call-1"))["result"]
        assert (ended["outcome"], ended["reason"]) == ("not_started", "cancelled_by_agent")
        assert not await world.simulated.confirm()
        assert await world.rows("SELECT * FROM operations") == []
        assert records(world) == []
        await until(lambda: len(world.simulated.closed) == 1)


@pytest.mark.requirement("D32", "D34")
async def test_interrupt_while_focusing_ends_it_with_the_time_that_passed(tmp_path: Path) -> None:
    async with device_world(tmp_path) as world:
        await running(world)
        await world.clock.advance(61)
        await world.invoke("pomodoro.interrupt", {}, "stop-1")
        assert (await world.ended("stop-1"))["result"] == {"outcome": "interrupted", "elapsed_ms": 61_000}
        assert await world.stages("call-1", "result:interrupted") == [*STARTED, "result:interrupted"]
        assert (await world.ended("call-1"))["result"]["elapsed_ms"] == 61_000
        await world.clock.advance(MINUTES_5)
        assert world.story("call-1") == [*STARTED, "result:interrupted"]
        assert await world.rows("SELECT state FROM operations") == [("interrupted",)]
        assert len(records(world)) == 1


@pytest.mark.requirement("D32", "D26")
async def test_interrupt_with_nothing_running_opens_no_app(tmp_path: Path) -> None:
    async with device_world(tmp_path) as world:
        await world.invoke("pomodoro.interrupt", {}, "stop-1")
        assert (await world.ended("stop-1"))["result"] == {"outcome": "nothing_to_interrupt"}
        assert await world.rows("SELECT * FROM instances") == []
        assert world.simulated.showings == []


@pytest.mark.requirement("D32")
async def test_interrupt_in_another_conversation_finds_nothing(tmp_path: Path) -> None:
    async with device_world(tmp_path) as world:
        await running(world)
        await world.invoke("pomodoro.interrupt", {}, "stop-1", conversation_id="cnv_two")
        assert (await world.ended("stop-1"))["result"] == {"outcome": "nothing_to_interrupt"}
        assert world.story("call-1") == STARTED


@pytest.mark.requirement("D33")
@pytest.mark.parametrize(
    "kind", [IntentKind.SHOW_CHAT, IntentKind.SHOW_APP, IntentKind.CLOSE_APP, IntentKind.OPEN_CONVERSATION]
)
async def test_leaving_interrupts_and_is_recorded_as_a_host_intent(tmp_path: Path, kind: IntentKind) -> None:
    async with device_world(tmp_path) as world:
        await running(world)
        about = await instance_of(world) if kind is IntentKind.CLOSE_APP else None
        place = "cnv_two" if kind is IntentKind.OPEN_CONVERSATION else CONVERSATION
        await world.simulated.person(kind, place, about)
        ended = (await world.ended("call-1"))["result"]
        assert (ended["outcome"], ended["reason"]) == ("interrupted", "left")
        lines = await world.runtime.audit(app_scope="pomodoro", conversation_id=CONVERSATION)
        left = [line for line in lines if line.get("event") in ("app_left", "app_closed")]
        assert [line["source"] for line in left] == ["host_intent"]
        assert await world.rows("SELECT COUNT(*) FROM calls") == [(1,)]


@pytest.mark.requirement("D33")
@pytest.mark.parametrize(
    "kind",
    [
        IntentKind.HIDDEN,
        IntentKind.DIMMED,
        IntentKind.LOCKED,
        IntentKind.RELOADED,
        IntentKind.DISCONNECTED,
    ],
)
async def test_conditions_of_the_display_change_nothing(tmp_path: Path, kind: IntentKind) -> None:
    async with device_world(tmp_path) as world:
        started = await running(world)
        await world.clock.advance(100)
        await world.simulated.person(kind, CONVERSATION)
        assert world.story("call-1") == STARTED
        view = await world.runtime.surface(await instance_of(world))
        assert view is not None
        assert view["operation"]["ends_at"] == started["ends_at"]
        assert view["operation"]["state"] == "active"
        await world.clock.advance(200)
        await world.stages("call-1", "result:completed")


@pytest.mark.requirement("D33", "D29")
async def test_leaving_while_starting_means_it_never_began(tmp_path: Path) -> None:
    async with device_world(tmp_path, host=SimulatedHost(Manner.WHEN_TOLD)) as world:
        await start(world)
        await world.stages("call-1", "starting")
        await world.simulated.person(IntentKind.SHOW_CHAT, CONVERSATION)
        ended = (await world.ended("call-1"))["result"]
        assert (ended["outcome"], ended["reason"]) == ("not_started", "left")
        assert await world.rows("SELECT * FROM operations") == []
        assert records(world) == []


@pytest.mark.requirement("D29")
async def test_a_foreground_that_never_comes_means_it_never_began(tmp_path: Path) -> None:
    async with device_world(tmp_path, host=SimulatedHost(Manner.WHEN_TOLD)) as world:
        await start(world)
        await world.stages("call-1", "starting")
        await world.clock.advance(60)
        ended = (await world.ended("call-1"))["result"]
        assert (ended["outcome"], ended["reason"]) == ("not_started", "foreground_not_confirmed")
        assert await world.rows("SELECT state FROM activations") in ([("failed",)], [("cancelled",)])
        assert records(world) == []


@pytest.mark.requirement("D27")
@pytest.mark.parametrize("manner", [Manner.OTHER_INSTANCE, Manner.TWICE])
async def test_only_a_confirmation_of_this_showing_counts_and_only_once(
    tmp_path: Path, manner: Manner
) -> None:
    async with device_world(tmp_path, host=SimulatedHost(manner)) as world:
        await start(world)
        await world.stages("call-1", "starting")
        await world.settle()
        if manner is Manner.TWICE:
            assert await world.stages("call-1", "started") == STARTED
        else:
            assert world.story("call-1") == ["starting"]
            assert not await world.simulated.confirm(generation=7)
            assert await world.simulated.confirm()
            await world.stages("call-1", "started")


@pytest.mark.requirement("D27")
async def test_a_host_session_without_the_lease_cannot_confirm(tmp_path: Path) -> None:
    async with device_world(tmp_path, host=SimulatedHost(Manner.WHEN_TOLD)) as world:
        await start(world)
        await world.stages("call-1", "starting")
        await world.simulated.told.session_opened("hst_another_tab")
        assert not await world.simulated.confirm()
        world.simulated.session_id = "hst_another_tab"
        assert await world.simulated.confirm()


@pytest.mark.requirement("D35")
@pytest.mark.parametrize("manner", [Manner.WHEN_TOLD, Manner.AT_ONCE])
async def test_a_second_start_does_not_begin_and_the_first_goes_on(tmp_path: Path, manner: Manner) -> None:
    async with device_world(tmp_path, host=SimulatedHost(manner)) as world:
        await start(world)
        await world.stages("call-1", "starting" if manner is Manner.WHEN_TOLD else "started")
        await start(world, "call-2")
        ended = (await world.ended("call-2"))["result"]
        assert (ended["outcome"], ended["reason"]) == ("not_started", "already_active")
        if manner is Manner.WHEN_TOLD:
            assert await world.simulated.confirm()
        assert await world.stages("call-1", "started") == STARTED


@pytest.mark.requirement("D34")
@pytest.mark.parametrize("first", ["deadline", "interrupt"])
async def test_when_completion_races_interruption_one_wins_everywhere(tmp_path: Path, first: str) -> None:
    async with device_world(tmp_path) as world:
        await running(world)
        await world.clock.advance(MINUTES_5 - 1)
        if first == "interrupt":
            await world.invoke("pomodoro.interrupt", {}, "stop-1")
            await world.clock.advance(1)
        else:
            await world.clock.advance(1)
            await world.invoke("pomodoro.interrupt", {}, "stop-1")
        won = "interrupted" if first == "interrupt" else "completed"
        stopped = "interrupted" if first == "interrupt" else "nothing_to_interrupt"
        assert (await world.ended("call-1"))["result"]["outcome"] == won
        assert (await world.ended("stop-1"))["result"]["outcome"] == stopped
        await world.settle()
        assert await world.rows("SELECT state FROM operations") == [(won,)]
        assert [m["content"]["blocks"][1]["outcome"] for m in records(world)] == [won]
        view = await world.runtime.surface(await instance_of(world))
        assert view is not None
        assert view["operation"]["state"] == won
        story = (await world.runtime.audit(call_id="call-1"))[0]
        assert story["result"]["outcome"] == won


@pytest.mark.requirement("D32")
async def test_the_agents_cancel_interrupts_a_running_operation(tmp_path: Path) -> None:
    async with device_world(tmp_path) as world:
        await running(world)
        world.cancel("call-1", "pomodoro")
        assert (await world.ended("call-1"))["result"]["outcome"] == "interrupted"


async def test_after_an_end_the_next_start_gets_its_own_sub_session(tmp_path: Path) -> None:
    async with device_world(tmp_path) as world:
        await running(world)
        await world.invoke("pomodoro.interrupt", {}, "stop-1")
        await world.ended("call-1")
        await start(world, "call-2")
        await world.stages("call-2", "started")
        assert await world.rows("SELECT COUNT(DISTINCT app_session_id) FROM instances") == [(2,)]
        assert await world.rows("SELECT COUNT(*) FROM sub_sessions WHERE state = 'open'") == [(1,)]


async def test_answers_to_agents_never_name_instances_sessions_or_operations(tmp_path: Path) -> None:
    async with device_world(tmp_path) as world:
        await running(world)
        await world.invoke("pomodoro.interrupt", {}, "stop-1")
        await world.ended("call-1")
        said = str([world.answers("call-1"), world.answers("stop-1")])
        assert not any(prefix in said for prefix in ("ins_", "ses_", "opn_", "act_"))
