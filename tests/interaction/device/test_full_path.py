"""A real server and a real device together: the whole path, and what it costs in commits."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.interaction.device.apps import PROBE

from lineloop.device.apps import Packaged
from lineloop.device.reconcile import ahead
from lineloop.testing.full_world import full_world


@pytest.mark.requirement("D28", "D32")
async def test_a_focus_goes_through_server_and_device(tmp_path: Path) -> None:
    async with full_world(tmp_path) as world:
        await world.invoke("pomodoro.start", {"minutes": 5}, "call-1")
        assert await world.stages("call-1", "started") == ["starting", "started"]
        await world.server.advance(60)
        await world.invoke("pomodoro.interrupt", {}, "stop-1")
        assert await world.stages("stop-1", "result:interrupted") == ["accepted", "result:interrupted"]
        told = await world.stages("call-1", "result:interrupted")
        assert told == ["starting", "started", "result:interrupted"]


async def test_a_quick_query_costs_one_commit_here_and_two_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, "QUICK_SECONDS", 20.0)  # also on a machine that has much to do
    packaged = Packaged(Packaged.of_this_installation().core, PROBE)
    async with full_world(tmp_path, packaged=packaged) as world:
        await world.invoke("probe.echo", {"text": "warm"}, "warm")
        await world.stages("warm", "result:ok")
        await world.server.advance(2)
        device, server = world.runtime.foundation.database, world.server.server.db
        before = (device.commits, server.commits)
        await world.invoke("probe.echo", {"text": "hi"}, "call-1")
        assert await world.stages("call-1", "result:ok") == ["accepted", "result:ok"]
        await world.server.clock.settle()
        assert (device.commits - before[0], server.commits - before[1]) == (1, 2)
