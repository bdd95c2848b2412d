"""What pages are told and what they do to apps: showing, leaving, opening, closing, coming back."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.interaction.shell.shell_world import ShellWorld, SurfaceFrame, shell_world, with_surface

from lineloop.kit.faults import Faults
from lineloop.protocol.fault_sites import FaultSite
from lineloop.testing.device_world import CONVERSATION
from lineloop.testing.waiting import until


async def ask_for_a_timer(world: ShellWorld, call_id: str = "call-1", **changes: str) -> None:
    await world.device.invoke("pomodoro.start", {"minutes": 5, "label": "tea"}, call_id, **changes)


async def states(world: ShellWorld) -> list[str]:
    return [row[0] for row in await world.device.rows("SELECT state FROM instances ORDER BY started_at")]


@pytest.mark.requirement("D27", "D29")
async def test_a_timer_runs_only_once_a_visible_page_has_shown_it(tmp_path: Path) -> None:
    async with shell_world(tmp_path) as world:
        page = await world.page()
        await ask_for_a_timer(world)
        asked = await page.foreground()
        assert (asked["state"], asked["confirmed"]) == ("starting", False)
        assert world.device.story("call-1") == ["starting"]
        await page.shows(asked)
        assert await world.device.stages("call-1", "started") == ["starting", "started"]
        shown = await page.shown()
        assert (shown["state"], shown["confirmed"]) == ("foreground", True)


async def test_a_reloaded_page_sees_the_same_and_interrupts_nothing(tmp_path: Path) -> None:
    async with shell_world(tmp_path) as world:
        page = await world.page(tab="one")
        await ask_for_a_timer(world)
        shown = await page.shown()
        await page.leave()
        again = await world.page(key=page.key, tab="one")
        assert await again.foreground() == shown
        assert world.device.story("call-1") == ["starting", "started"]
        sql = "SELECT event FROM audit WHERE event LIKE 'host\\_%' ESCAPE '\\' ORDER BY number"

        async def noted() -> bool:
            return {("host_disconnected",), ("host_reloaded",)} <= set(await world.device.rows(sql))

        await until(noted)


async def test_two_pages_see_one_truth_and_the_focused_one_speaks_for_the_display(tmp_path: Path) -> None:
    async with shell_world(tmp_path) as world:
        first = await world.page(tab="one")
        second = await world.page(key=first.key, tab="two")
        await second.until_part("workspace", lambda w: w["lease"])
        await first.until_part("workspace", lambda w: not w["lease"])
        await ask_for_a_timer(world)
        asked = await first.foreground()
        await first.shows(asked)
        await world.device.settle()
        assert world.device.story("call-1") == ["starting"]
        shown = await second.shown()
        await until(lambda: first.workspace["conversations"] == second.workspace["conversations"])
        await first.look()
        await first.until_part("workspace", lambda w: w["lease"])
        assert (await first.foreground())["instance_id"] == shown["instance_id"]
        assert world.device.story("call-1") == ["starting", "started"]


async def test_a_hidden_page_shows_nothing_and_changes_nothing(tmp_path: Path) -> None:
    async with shell_world(tmp_path) as world:
        page = await world.page()
        await page.look(visible=False, focused=False)
        await page.until_part("workspace", lambda w: not w["lease"])
        await ask_for_a_timer(world)
        await page.shows()
        await world.device.settle()
        assert world.device.story("call-1") == ["starting"]
        await page.look()
        await page.until_part("workspace", lambda w: w["lease"])
        await page.shown()
        await page.look(visible=False, focused=False)
        await page.until_part("workspace", lambda w: not w["lease"])
        assert await states(world) == ["foreground"]
        assert world.device.story("call-1") == ["starting", "started"]


async def test_the_lease_goes_to_another_visible_page_when_its_holder_is_gone(tmp_path: Path) -> None:
    async with shell_world(tmp_path) as world:
        first = await world.page(tab="one")
        second = await world.page(key=first.key, tab="two")
        await second.until_part("workspace", lambda w: w["lease"])
        await second.leave()
        await first.until_part("workspace", lambda w: w["lease"])
        await ask_for_a_timer(world)
        await first.shown()


@pytest.mark.requirement("D33")
async def test_full_chat_leaves_the_timer_and_interrupts_it(tmp_path: Path) -> None:
    async with shell_world(tmp_path) as world:
        page = await world.page()
        await ask_for_a_timer(world)
        await page.shown()
        await page.ask("intent", kind="show_chat", conversation_id=CONVERSATION)
        await page.until_part("workspace", lambda w: w["foreground"] is None)
        assert (await world.device.stages("call-1", "result:interrupted"))[-1] == "result:interrupted"


async def test_the_person_opens_an_app_from_the_rail_without_any_call(tmp_path: Path) -> None:
    async with shell_world(tmp_path, apps=with_surface(tmp_path / "brought")) as world:
        page = await world.page()
        opened = await page.ask("apps.launch", app_scope="pomodoro", conversation_id=CONVERSATION)
        asked = await page.foreground()
        assert asked["instance_id"] == opened["instance_id"]
        assert asked["surface"] is True
        await page.shown()
        again = await page.ask("apps.launch", app_scope="pomodoro", conversation_id=CONVERSATION)
        assert again == opened
        assert await world.device.rows("SELECT id FROM calls") == []
        rows = await world.device.rows("SELECT source FROM audit WHERE event = 'app_opened'")
        assert rows == [("host_intent",), ("host_intent",)]
        await ask_for_a_timer(world)
        assert await world.device.stages("call-1", "started") == ["accepted", "started"]


async def test_what_cannot_be_opened_is_refused_with_a_code(tmp_path: Path) -> None:
    async with shell_world(tmp_path) as world:
        page = await world.page()
        where = {"conversation_id": CONVERSATION}
        assert await page.refused("apps.launch", app_scope="nothing", **where) == "app_not_installed"
        assert await page.refused("apps.launch", app_scope="settings", **where) == "forbidden"
        disabled = await world.device.runtime.registry.disable("pomodoro")
        await world.device.runtime.registry.wait(disabled.operation_id)
        assert await page.refused("apps.launch", app_scope="pomodoro", **where) == "app_disabled"
        await page.look(visible=False, focused=False)
        await page.until_part("workspace", lambda w: not w["lease"])
        assert await page.refused("apps.launch", app_scope="pomodoro", **where) == "lease_lost"
        assert await page.refused("intent", kind="show_app", **where) == "invalid_request"


async def test_two_conversations_take_turns_in_front_and_the_earlier_one_comes_back(tmp_path: Path) -> None:
    async with shell_world(tmp_path) as world:
        page = await world.page()
        await ask_for_a_timer(world)
        first = await page.shown()
        await ask_for_a_timer(world, "call-2", conversation_id="cnv_two")
        await page.until_part("workspace", lambda w: w["foreground"]["conversation_id"] == "cnv_two")
        second = await page.shown()
        assert await states(world) == ["background", "foreground"]
        await page.ask(
            "intent", kind="close_app", conversation_id="cnv_two", instance_id=second["instance_id"]
        )
        await page.until_part(
            "workspace", lambda w: w["foreground"] and w["foreground"]["conversation_id"] == CONVERSATION
        )
        await page.shows()
        await page.shown()
        assert (await states(world))[0] == "foreground"
        assert world.device.story("call-1") == ["starting", "started"]
        assert first["instance_id"] == page.workspace["foreground"]["instance_id"]


async def test_a_dead_device_comes_back_to_what_its_page_showed(tmp_path: Path) -> None:
    async with shell_world(tmp_path) as world:
        page = await world.page(tab="one")
        await ask_for_a_timer(world)
        shown = await page.shown()
        await world.restart()
        again = await world.page(key=page.key, tab="one")
        back = await again.foreground()
        assert (back["instance_id"], back["confirmed"]) == (shown["instance_id"], True)
        await world.clock.advance(300)
        assert (await world.device.ended("call-1"))["result"]["outcome"] == "completed"


async def test_a_showing_that_a_dead_device_asked_for_is_asked_for_again(tmp_path: Path) -> None:
    async with shell_world(tmp_path) as world:
        page = await world.page()
        await ask_for_a_timer(world)
        await page.foreground()
        await world.restart()
        again = await world.page(key=page.key)
        await again.shown()
        assert await world.device.stages("call-1", "started") == ["starting", "started"]


async def test_a_terminal_stands_in_while_no_page_is_visible(tmp_path: Path) -> None:
    async with shell_world(tmp_path, stand_in=True) as world:
        await ask_for_a_timer(world)
        assert await world.device.stages("call-1", "started") == ["starting", "started"]
        page = await world.page()
        await page.until_part("workspace", lambda w: w["lease"])
        await ask_for_a_timer(world, "call-2", conversation_id="cnv_two")
        await page.until_part("workspace", lambda w: w["foreground"]["conversation_id"] == "cnv_two")
        await world.device.settle()
        assert world.device.story("call-2") == ["starting"]
        await page.look(visible=False, focused=False)
        assert await world.device.stages("call-2", "started") == ["starting", "started"]


async def test_a_surface_says_how_long_its_closing_takes_but_not_for_ever(tmp_path: Path) -> None:
    async with shell_world(tmp_path, apps=with_surface(tmp_path / "brought")) as world:
        page = await world.page()
        await ask_for_a_timer(world)
        shown = await page.shown()
        surface = await SurfaceFrame.connected(page, shown["instance_id"])
        await page.ask("intent", kind="show_chat", conversation_id=CONVERSATION)
        await surface.event("lifecycle.closing")
        await surface.ask("lifecycle.defer_close", wait_ms=60_000)
        closing = (await page.until_part("workspace", lambda w: w["closing"]))["closing"]
        assert closing[0]["instance_id"] == shown["instance_id"]
        await page.until_part("workspace", lambda w: w["closing"][0]["wait_ms"] == 5_000)
        assert await states(world) == ["stopping"]
        await world.clock.advance(4.9)
        assert await states(world) == ["stopping"]
        await world.clock.advance(0.2)
        assert await page.gone(surface.launch) == "closed"
        await page.until_part("workspace", lambda w: w["closing"] == [])
        await until(lambda: _all_stopped(world))


async def _all_stopped(world: ShellWorld) -> bool:
    return await states(world) == ["stopped"]


async def test_a_confirmation_that_could_not_be_stored_is_asked_for_again(tmp_path: Path) -> None:
    plan = "device.foreground.before_commit:raise:1"
    async with shell_world(tmp_path, faults=Faults(FaultSite, plan)) as world:
        page = await world.page()
        await ask_for_a_timer(world)
        asked = await page.foreground()
        page.parts.clear()
        await page.shows(asked)
        await page.until_part("workspace", lambda w: w["foreground"])
        assert world.device.story("call-1") == ["starting"]
        await page.shown()
        assert await world.device.stages("call-1", "started") == ["starting", "started"]


async def test_an_intent_that_could_not_be_stored_is_told_and_harms_nothing(tmp_path: Path) -> None:
    plan = "device.intent.before_commit:raise:1"
    async with shell_world(tmp_path, faults=Faults(FaultSite, plan)) as world:
        page = await world.page()
        assert await page.refused("apps.launch", app_scope="pomodoro", conversation_id=CONVERSATION)
        await page.ask("apps.launch", app_scope="pomodoro", conversation_id=CONVERSATION)
        await page.shown()
