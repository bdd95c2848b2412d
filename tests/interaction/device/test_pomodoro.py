"""Pomodoro's whole path through a device: the example of design 03 §3.5, word by word."""

from __future__ import annotations

from pathlib import Path

from lineloop.testing.device_world import device_world


async def test_start_is_told_starting_then_started_and_completed_after_its_minutes(tmp_path: Path) -> None:
    async with device_world(tmp_path) as world:
        await world.invoke("pomodoro.start", {"minutes": 5, "label": "tea"}, "call-1")
        assert await world.stages("call-1", "started") == ["starting", "started"]
        await world.clock.advance(300)
        assert await world.stages("call-1", "result:completed") == ["starting", "started", "result:completed"]
