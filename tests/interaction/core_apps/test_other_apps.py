"""The sessions of the app-registry and settings apps."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.interaction.core_apps.page import Page, Refused

from lineloop.protocol.errors import LoopError
from lineloop.testing.full_world import FullWorld, full_world
from lineloop.testing.waiting import until


async def page_of(world: FullWorld, app_scope: str) -> Page:
    return await Page(world.runtime.core_sessions, app_scope).hello()


async def test_apps_are_listed_switched_off_and_on_and_every_step_is_told(tmp_path: Path) -> None:
    async with full_world(tmp_path) as world:
        page = await page_of(world, "app-registry")
        await page.watch()
        apps = {one["app_scope"]: one for one in (await page.ask("registry.list"))["apps"]}
        assert apps["chat"]["isolation"] == ["shell"]
        assert apps["pomodoro"]["enabled"] is True
        assert apps["pomodoro"]["tools"]
        begun = await page.ask("registry.disable", app_scope="pomodoro")

        def enabled() -> bool:
            (app,) = [one for one in page.state["apps"] if one["app_scope"] == "pomodoro"]
            return app["enabled"]

        await until(lambda: not enabled())
        done = await page.ask("registry.operation", operation_id=begun["operation_id"])
        assert (done["state"], done["error"]) == ("succeeded", None)
        await page.ask("registry.enable", app_scope="pomodoro")
        await until(enabled)
        with pytest.raises(Refused) as refused:
            await page.ask("registry.disable", app_scope="chat")
        assert refused.value.code == "app_protected"


async def test_settings_say_what_this_is_and_read_the_audit(tmp_path: Path) -> None:
    async with full_world(tmp_path) as world:
        page = await page_of(world, "settings")
        await page.watch()
        assert page.state["device"] == {"key": "laptop"}
        assert page.state["model"] is None
        # The tests' device was told no place; a real one says where its data lies.
        assert page.state["place"] == {"data_folder": None, "server": None}
        assert str(tmp_path) not in str(page.state)
        world.runtime.core_sessions.model = lambda: {"target": "demo", "label": "Demo", "chosen": False}
        world.runtime.core_sessions.model_changed()
        await until(lambda: page.state["model"] is not None)
        await world.invoke("pomodoro.start", {"minutes": 5}, "call-1")
        await world.stages("call-1", "started")
        audit = await page.ask("audit.list", call_id="call-1")
        assert [one["call_id"] for one in audit["stories"]] == ["call-1"]
        assert audit["more"] is False


async def test_only_core_apps_have_core_sessions(tmp_path: Path) -> None:
    async with full_world(tmp_path) as world:
        with pytest.raises(LoopError) as refused:
            world.runtime.core_sessions.open("pomodoro", lambda _: None)
        assert refused.value.code == "app_not_installed"
        page = await page_of(world, "settings")
        with pytest.raises(Refused):
            await asyncio.wait_for(page.ask("messages.list", conversation_id="c"), 5)
