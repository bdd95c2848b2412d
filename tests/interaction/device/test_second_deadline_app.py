"""Another app with a deadline, in its own words: the built-in executions know no app."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lineloop.device.apps import Packaged
from lineloop.device.decide.intents import IntentKind
from lineloop.testing.device_world import CONVERSATION, device_world

POMODORO = Packaged.of_this_installation().shipped / "pomodoro" / "manifest.json"


def tea(folder: Path, on_leave: str) -> Path:
    """Pomodoro's manifest under other names, without its surface, and with another word for leaving."""
    manifest: dict[str, Any] = json.loads(POMODORO.read_text().replace("pomodoro", "tea"))
    for name in ("surface", "icon", "logic"):
        manifest.pop(name, None)
    for tool in manifest["tools"]:
        if tool["execution"]["name"] == "deadline.start":
            tool["execution"]["on_leave"] = on_leave
    (folder / "tea").mkdir(parents=True)
    (folder / "tea" / "manifest.json").write_text(json.dumps(manifest))
    (folder / "pomodoro").symlink_to(POMODORO.parent, target_is_directory=True)
    return folder


@pytest.mark.requirement("D30", "D31")
async def test_another_app_runs_its_deadline_beside_the_first_one(tmp_path: Path) -> None:
    async with device_world(tmp_path, apps=tea(tmp_path / "apps", "continue")) as world:
        await world.invoke("tea.start", {"minutes": 3}, "tea")
        await world.stages("tea", "started")
        await world.invoke("pomodoro.start", {"minutes": 5}, "focus")
        await world.stages("focus", "started")
        assert await world.rows("SELECT COUNT(*) FROM operations WHERE state = 'active'") == [(2,)]
        await world.restart(while_down=lambda: world.clock.jump(60))
        await world.clock.advance(120)
        assert await world.stages("tea", "result:completed") == ["starting", "started", "result:completed"]
        assert world.story("focus") == ["starting", "started"]
        await world.clock.advance(120)
        await world.stages("focus", "result:completed")
        assert await world.rows("SELECT app_scope FROM records ORDER BY created_at") == [
            ("tea",),
            ("pomodoro",),
        ]


@pytest.mark.requirement("D33")
@pytest.mark.parametrize(("on_leave", "end"), [("continue", "completed"), ("interrupt", "interrupted")])
async def test_what_leaving_does_is_the_apps_own_word(tmp_path: Path, on_leave: str, end: str) -> None:
    async with device_world(tmp_path, apps=tea(tmp_path / "apps", on_leave)) as world:
        await world.invoke("tea.start", {"minutes": 3}, "tea")
        await world.stages("tea", "started")
        await world.clock.advance(60)
        await world.simulated.person(IntentKind.SHOW_CHAT, CONVERSATION)
        await world.settle()
        await world.clock.advance(120)
        await world.stages("tea", f"result:{end}")
        ((state, elapsed),) = await world.rows("SELECT state, elapsed_ms FROM operations")
        assert (state, elapsed) == (end, 180_000 if end == "completed" else 60_000)


@pytest.mark.requirement("D32")
async def test_interrupt_finds_the_operation_of_its_own_app(tmp_path: Path) -> None:
    async with device_world(tmp_path, apps=tea(tmp_path / "apps", "continue")) as world:
        await world.invoke("tea.start", {"minutes": 3}, "tea")
        await world.stages("tea", "started")
        await world.invoke("pomodoro.interrupt", {}, "wrong")
        await world.stages("wrong", "result:nothing_to_interrupt")
        assert world.story("tea") == ["starting", "started"]
        await world.invoke("tea.interrupt", {}, "right")
        await world.stages("right", "result:interrupted")
        await world.stages("tea", "result:interrupted")
