"""The person opens apps in their own conversations only: a device with its person, and a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from tests.interaction.core_apps.page import Page
from tests.interaction.shell.shell_world import STATIC, ShellPage, ShellWorld, free_port

from lineloop.device.host.web.host import WebHost
from lineloop.kit.ids import Ids
from lineloop.testing.clock import FakeClock
from lineloop.testing.full_world import FullWorld, full_world
from lineloop.testing.waiting import until


@asynccontextmanager
async def opened(folder: Path) -> AsyncGenerator[tuple[FullWorld, ShellPage]]:
    """A visible page of a device that has its person's credential."""
    clock = FakeClock()
    host = WebHost(Ids(clock), clock, STATIC, shell_port=free_port(), content_port=free_port())
    async with full_world(folder, host=host, person=True) as world, AsyncExitStack() as stack:
        shell = ShellWorld(cast("Any", world), host, stack)
        await shell.serve()
        try:
            yield world, await shell.page()
        finally:
            for page in shell.pages:
                await page.leave()
            await host.stop()


async def instances(world: FullWorld) -> int:
    return await world.runtime.foundation.read(lambda tx: len(tx.all("SELECT instance_id FROM instances")))


async def test_an_app_opens_in_no_conversation_that_does_not_exist(tmp_path: Path) -> None:
    async with opened(tmp_path) as (world, page):
        where = {"app_scope": "pomodoro", "conversation_id": "cnv_nothing"}
        for name in ("cnv_nothing", "*", "../../x", " "):
            where = {"app_scope": "pomodoro", "conversation_id": name}
            assert await page.refused("apps.launch", **where) == "conversation_not_found"
        assert await instances(world) == 0
        assert page.workspace["foreground"] is None
        await world.server_goes()
        asked = asyncio.ensure_future(page.refused("apps.launch", **where))

        async def answered() -> bool:
            await world.server.advance(1)
            return asked.done()

        await until(answered)
        assert await asked == "conversation_not_found"
        known = await page.ask("apps.launch", app_scope="pomodoro", conversation_id=world.conversation_id)
        assert known["instance_id"]


async def test_an_app_opens_in_a_conversation_that_was_just_made_here_or_elsewhere(tmp_path: Path) -> None:
    async with opened(tmp_path) as (world, page):
        chat = await Page(world.runtime.core_sessions).hello()
        here = await chat.act("create_conversation")
        elsewhere = await world.server.conversation("made elsewhere")
        for name in (here["id"], elsewhere):
            await page.ask("apps.launch", app_scope="pomodoro", conversation_id=name)
        assert await instances(world) == 2


@pytest.mark.requirement("D49", "D50")
async def test_a_page_begins_with_its_link_and_hears_why_something_cannot_be_shown(tmp_path: Path) -> None:
    async with opened(tmp_path) as (world, page):
        begun = await page.ask("start")
        assert (begun["entry"], begun["reason"]) == ("chat", None)
        linked = await page.ask("start", app_scope="nothing", conversation_id=world.conversation_id)
        assert (linked["entry"], linked["reason"]) == ("chat", "app_not_installed")
        told = await page.until_part("workspace", lambda part: part["notice"])
        assert told["notice"] == {"app_scope": "nothing", "code": "app_not_installed", "reason": None}
        linked = await page.ask("start", app_scope="pomodoro", conversation_id=world.conversation_id)
        assert linked["entry"] == "target"
        told = await page.until_part("workspace", lambda part: part["foreground"])
        assert told["foreground"]["instance_id"] == linked["instance_id"]
        await page.until_part("workspace", lambda part: not part["notice"])
        where = {"app_scope": "pomodoro", "conversation_id": "cnv_nothing"}
        assert await page.refused("start", **where) == "conversation_not_found"


@pytest.mark.requirement("L304")
async def test_a_conversation_is_fetched_as_a_file_once_and_by_no_page_of_elsewhere(tmp_path: Path) -> None:
    async with opened(tmp_path) as (world, page), httpx.AsyncClient() as browser:
        asked = {"conversation_id": world.conversation_id}
        assert page.connection.request is not None
        origin = page.connection.request.headers["Origin"]

        async def path(export_format: str) -> str:
            return origin + (await page.ask("export.open", **asked, format=export_format))["path"]

        address = await path("markdown")
        got = await browser.get(address, headers={"Sec-Fetch-Site": "same-origin"})
        assert (got.status_code, got.headers["content-type"]) == (200, "text/markdown; charset=utf-8")
        assert got.text.startswith("# test")
        assert got.headers["content-disposition"].startswith("attachment; filename=")
        assert (await browser.get(address)).status_code == 404
        whole = (await browser.get(await path("json"))).json()
        assert whole["conversation"]["id"] == world.conversation_id
        elsewhere = await browser.get(await path("json"), headers={"Sec-Fetch-Site": "cross-site"})
        assert elsewhere.status_code == 404
        assert await page.refused("export.open", **asked, format="pdf") == "bridge_invalid"
        nowhere = await page.ask("export.open", conversation_id="con_nothing", format="json")
        assert (await browser.get(origin + nowhere["path"])).status_code == 503
