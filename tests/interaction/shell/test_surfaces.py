"""Surfaces: their handshake, their state, what they may ask, what ends them. Names with an id are attacks."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.interaction.shell.shell_world import (
    ShellPage,
    ShellWorld,
    SurfaceFrame,
    shell_world,
    with_surface,
)

from lineloop.kit import json
from lineloop.testing.device_world import CONVERSATION
from lineloop.testing.waiting import until


@asynccontextmanager
async def an_app(tmp_path: Path, **fields: Any) -> AsyncGenerator[tuple[ShellWorld, ShellPage, str]]:
    """A world, its page, and an instance that the page shows. `fields` are added to the app's manifest."""
    brought = with_surface(tmp_path / "brought")
    path = brought / "pomodoro" / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), **fields}))
    async with shell_world(tmp_path, apps=brought) as world:
        page = await world.page()
        await page.ask("apps.launch", app_scope="pomodoro", conversation_id=CONVERSATION)
        shown = await page.shown()
        yield world, page, shown["instance_id"]


async def test_a_surface_gets_its_context_and_state_after_hello(tmp_path: Path) -> None:
    async with an_app(tmp_path) as (world, page, instance_id):
        surface = await SurfaceFrame.open(page, instance_id, theme="dark")
        answer = await surface.ask("hello", sdk="test", nonce=surface.nonce)
        assert "surface.state.v1" in answer["features"]
        init = await surface.event("init")
        assert init["instance_id"] == instance_id
        assert (init["app_scope"], init["conversation_id"]) == ("pomodoro", CONVERSATION)
        assert init["state"]["instance_state"] == "foreground"
        assert (init["state"]["language"], init["state"]["theme"]) == ("en", "dark")
        assert init["state"]["operation"] is None
        await surface.event("lifecycle.start")
        await surface.event("lifecycle.foreground")
        assert await world.device.rows("SELECT COUNT(*) FROM sub_sessions") == [(1,)]


async def test_the_state_of_a_running_operation_is_told_on_every_change(tmp_path: Path) -> None:
    async with an_app(tmp_path) as (world, page, instance_id):
        surface = await SurfaceFrame.connected(page, instance_id)
        await surface.ask("state.subscribe", subscription="s")
        await world.device.invoke("pomodoro.start", {"minutes": 5, "label": "tea"}, "call-1")
        told = await surface.event("state.changed", lambda p: p["state"]["operation"])
        operation = told["state"]["operation"]
        assert (operation["name"], operation["state"], operation["outcome"]) == (
            "pomodoro.start",
            "active",
            None,
        )
        assert operation["params"] == {"minutes": 5, "label": "tea"}
        assert operation["remaining_ms"] == 300_000
        await world.clock.advance(60)
        state = await surface.ask("state.get")
        assert (state["operation"]["elapsed_ms"], state["operation"]["remaining_ms"]) == (60_000, 240_000)
        await world.clock.advance(240)
        ended = await surface.event("state.changed", lambda p: p["state"]["operation"]["outcome"])
        assert ended["state"]["operation"]["outcome"] == "completed"
        assert ended["state"]["operation"]["remaining_ms"] == 0


async def test_a_reloaded_surface_gets_its_snapshot_back_until_its_instance_ends(tmp_path: Path) -> None:
    async with an_app(tmp_path) as (world, page, instance_id):
        surface = await SurfaceFrame.connected(page, instance_id)
        await surface.ask("lifecycle.snapshot", data={"scroll": 7})
        assert await surface.refused("lifecycle.snapshot", data="x" * 65_536) == "limit_exceeded"
        again = await SurfaceFrame.connected(page, instance_id)
        assert await page.gone(surface.launch) == "replaced"
        assert (await again.event("lifecycle.restore"))["snapshot"] == {"scroll": 7}
        await page.ask("intent", **_show_chat())
        await again.event("lifecycle.background")
        closing = {"kind": "close_app", "conversation_id": CONVERSATION, "instance_id": instance_id}
        await page.ask("intent", **closing)
        await again.event("lifecycle.closing")
        await world.clock.advance(0.3)
        await page.gone(again.launch)
        await until(lambda: _none_kept(world))


async def test_session_data_and_declared_actions_and_events_go_through(tmp_path: Path) -> None:
    actions = [{"name": "tick", "schema": {"type": "object", "required": ["item"]}}]
    events = [{"name": "cheered", "schema": {"type": "object", "required": ["times"]}}]
    async with an_app(tmp_path, ui_actions=actions, events=events) as (world, page, instance_id):
        surface = await SurfaceFrame.connected(page, instance_id)
        assert await surface.ask("session.get") == {"data": None, "revision": 0}
        assert await surface.ask("session.replace", data={"a": 1}, expected_revision=0) == {"revision": 1}
        first = await surface.ask("ui.action", id="a1", action="tick", params={"item": 1})
        assert first == {"id": "a1", "repeated": False}
        assert (await surface.ask("ui.action", id="a1", action="tick", params={"item": 1}))["repeated"]
        code = await surface.refused("ui.action", id="a1", action="tick", params={"item": 2})
        assert code == "key_conflict"
        assert await surface.refused("ui.action", id="a2", action="tick", params={}) == "invalid_arguments"
        assert await surface.refused("ui.action", id="a3", action="other", params={}) == "not_found"
        await surface.tell("surface.event", name="cheered", data={"times": 3})
        await surface.tell("surface.event", name="unheard", data={})
        sql = "SELECT source, detail FROM audit WHERE event = 'surface_event'"
        await until(lambda: _some(world, sql))
        assert await world.device.rows(sql) == [("ui_action", '{"name":"cheered","data":{"times":3}}')]


async def _none_kept(world: ShellWorld) -> bool:
    return await world.device.rows("SELECT data FROM surface_snapshots") == []


async def _some(world: ShellWorld, sql: str) -> bool:
    return bool(await world.device.rows(sql))


@pytest.mark.requirement("B01")
async def test_b01_claimed_ids_in_a_frame_are_refused(tmp_path: Path) -> None:
    async with an_app(tmp_path) as (_, page, instance_id):
        surface = await SurfaceFrame.connected(page, instance_id)
        assert await surface.refused("session.get", app_session_id="ses_other") == "bridge_invalid"
        claimed = json.dumps({"v": 1, "id": "x", "type": "session.get", "payload": {}, "app_scope": "other"})
        await surface.send(claimed)
        await until(lambda: any(f.get("reply_to") == "x" and "error" in f for f in surface.frames))


@pytest.mark.requirement("B04")
async def test_b04_nothing_is_taken_before_the_hello_with_the_launch_s_own_nonce(tmp_path: Path) -> None:
    async with an_app(tmp_path) as (_, page, instance_id):
        surface = await SurfaceFrame.open(page, instance_id)
        assert await surface.refused("session.get") == "bridge_invalid"
        assert await surface.refused("hello", sdk="test", nonce="guessed") == "forbidden"
        assert await page.gone(surface.launch) == "protocol"


@pytest.mark.requirement("B05")
async def test_b05_a_second_hello_ends_the_surface(tmp_path: Path) -> None:
    async with an_app(tmp_path) as (_, page, instance_id):
        surface = await SurfaceFrame.connected(page, instance_id)
        code = await surface.refused("hello", sdk="test", nonce=surface.nonce)
        assert code == "already_connected"
        assert await page.gone(surface.launch) == "protocol"


@pytest.mark.requirement("B08")
async def test_b08_a_surface_cannot_say_what_only_the_runtime_or_a_core_app_says(tmp_path: Path) -> None:
    async with an_app(tmp_path) as (_, page, instance_id):
        surface = await SurfaceFrame.connected(page, instance_id)
        for kind in ("tool.invoke", "state.changed", "lifecycle.closing", "init"):
            assert await surface.refused(kind) == "bridge_invalid"
        assert await surface.refused("registry.disable", app_scope="pomodoro") == "forbidden"
        assert await surface.refused("action.dispatch", id="1", action="say", params={}) == "forbidden"


@pytest.mark.requirement("B09", "B10")
@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        "[]",
        "null",
        '{"v":1,"id":"x","type":"session.get","payload":{"n":NaN}}',
        '{"v":1,"id":"x","type":"session.get","payload":{},"payload":{}}',
        '{"v":1,"id":"x","type":"__proto__","payload":{}}',
        '{"v":1,"id":"x","type":"session.get","payload":{"__proto__":{}}}',
        '{"v":1,"id":"x","type":"session.get","payload":{"s":"\\ud800"}}',
        '{"v":2,"id":"x","type":"session.get","payload":{}}',
    ],
)
async def test_b09_b10_frames_that_are_no_frames_are_refused_and_harm_nobody(
    tmp_path: Path, text: str
) -> None:
    async with an_app(tmp_path) as (_, page, instance_id):
        surface = await SurfaceFrame.connected(page, instance_id)
        await surface.send(text)
        assert await surface.ask("session.get") == {"data": None, "revision": 0}
        for _ in range(60):
            await surface.send(text)
        assert await page.gone(surface.launch) == "protocol"
        assert await page.ask("intent", **_show_chat()) == {}


def _show_chat() -> dict[str, Any]:
    return {"kind": "show_chat", "conversation_id": CONVERSATION}


@pytest.mark.requirement("B11")
async def test_b11_a_deep_or_large_frame_is_refused_before_it_costs_anything(tmp_path: Path) -> None:
    async with an_app(tmp_path) as (_, page, instance_id):
        surface = await SurfaceFrame.connected(page, instance_id)
        deep = "[" * 5_000 + "]" * 5_000
        assert await surface.refused("ui.action", id="a", action="x", params={"x": "y" * 300_000}) == (
            "bridge_invalid"
        )
        await surface.send(f'{{"v":1,"id":"deep","type":"lifecycle.snapshot","payload":{{"data":{deep}}}}}')
        await until(lambda: any(f.get("reply_to") == "deep" and "error" in f for f in surface.frames))
        assert await surface.ask("session.get") == {"data": None, "revision": 0}


@pytest.mark.requirement("B12")
async def test_b12_a_flood_ends_the_surface_and_nothing_else(tmp_path: Path) -> None:
    async with an_app(tmp_path) as (world, page, instance_id):
        surface = await SurfaceFrame.connected(page, instance_id)
        for _ in range(450):
            await surface.tell("diagnostics.log", level="info", message="again")
        assert await page.gone(surface.launch) == "flood"
        sql = "SELECT app_scope, detail FROM audit WHERE event = 'surface_stopped'"
        await until(lambda: _some(world, sql))
        ((scope, detail),) = await world.device.rows(sql)
        assert (scope, json.loads(detail)) == ("pomodoro", {"instance_id": instance_id, "reason": "flood"})
        assert await page.ask("intent", **_show_chat()) == {}


@pytest.mark.requirement("B07")
async def test_b07_an_action_or_a_write_that_comes_again_has_its_effect_once(tmp_path: Path) -> None:
    actions = [{"name": "tick", "schema": {"type": "object"}}]
    async with an_app(tmp_path, ui_actions=actions) as (world, page, instance_id):
        surface = await SurfaceFrame.connected(page, instance_id)
        write = {"v": 1, "id": "same", "type": "session.replace"}
        payload = {"data": {"a": 1}, "expected_revision": 0}
        for _ in range(3):
            await surface.send(json.dumps({**write, "payload": payload}))
            await surface.ask("ui.action", id="once", action="tick", params={})
        assert (await surface.ask("session.get"))["revision"] == 1
        assert await world.device.rows("SELECT COUNT(*) FROM ui_actions") == [(1,)]


@pytest.mark.requirement("B15")
async def test_b15_two_clients_that_answer_each_update_are_ended_by_their_rate(tmp_path: Path) -> None:
    async with an_app(tmp_path) as (world, page, instance_id):
        other = await world.page(key=page.key, tab="two")
        surfaces = [
            await SurfaceFrame.connected(page, instance_id),
            await SurfaceFrame.connected(other, instance_id),
        ]
        for surface in surfaces:
            await surface.ask("session.subscribe", subscription="s")
        gone: list[str] = []
        for turn in range(2_000):
            surface = surfaces[turn % 2]
            write = {"data": {"turn": turn}, "expected_revision": turn}
            if (ended := _reason_of(surface)) is not None:
                gone.append(ended)
                break
            frame = {"v": 1, "id": f"w{turn}", "type": "session.replace", "payload": write}
            await surface.send(json.dumps(frame))
        assert gone == ["flood"] or await page.gone(surfaces[0].launch) == "flood"
        assert await other.ask("intent", **_show_chat()) == {}


def _reason_of(surface: SurfaceFrame) -> str | None:
    for event in surface.page.events:
        if event["type"] == "surface.gone" and event["payload"]["launch"] == surface.launch:
            return event["payload"]["reason"]
    return None


@pytest.mark.requirement("B13")
async def test_b13_a_surface_that_says_nothing_is_closed_all_the_same(tmp_path: Path) -> None:
    async with an_app(tmp_path) as (world, page, instance_id):
        surface = await SurfaceFrame.connected(page, instance_id)
        closing = {"kind": "close_app", "conversation_id": CONVERSATION, "instance_id": instance_id}
        await page.ask("intent", **closing)
        await surface.event("lifecycle.closing")
        await world.clock.advance(0.3)
        assert await page.gone(surface.launch) == "closed"
        assert await page.refused("surface.open", instance_id=instance_id) == "not_found"


@pytest.mark.requirement("B16")
async def test_b16_errors_tell_codes_and_few_words(tmp_path: Path) -> None:
    async with an_app(tmp_path) as (_, page, instance_id):
        surface = await SurfaceFrame.connected(page, instance_id)
        await surface.refused("session.replace", data={"a": 1}, expected_revision=9)
        await surface.refused("ui.action", id="a", action="none", params={})
        said = json.dumps([f["error"] for f in surface.frames if "error" in f])
        assert str(tmp_path) not in said
        assert "Traceback" not in said


async def test_a_page_has_no_say_about_another_page_s_surface(tmp_path: Path) -> None:
    async with an_app(tmp_path) as (world, page, instance_id):
        surface = await SurfaceFrame.connected(page, instance_id)
        other = await world.page(key=page.key, tab="two")
        await other.tell("surface.close", launch=surface.launch, reason="crashed")
        await other.tell("frame", launch=surface.launch, text="{}")
        assert await other.ask("intent", **_show_chat()) == {}
        await surface.event("lifecycle.background")


async def test_surfaces_end_with_their_page(tmp_path: Path) -> None:
    async with an_app(tmp_path) as (world, page, instance_id):
        await SurfaceFrame.connected(page, instance_id)
        await page.leave()
        await until(lambda: len(world.host.launches) == 0)
        assert world.host.surfaces == {}
