"""A link whose items are committed on several connections: they end in any order."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from lineloop.kit.faults import Faults
from lineloop.protocol.fault_sites import FaultSite
from lineloop.testing.server_world import server_world


@pytest.mark.requirement("P9")
async def test_a_frame_is_answered_at_once_also_when_its_last_item_was_done_first(
    tmp_path: Path, postgres_url: str
) -> None:
    faults = Faults(FaultSite, "server.speak.before_commit:hang")
    async with server_world(tmp_path, database=postgres_url, faults=faults) as world:
        place = await world.conversation()
        session = await world.link("user/local")
        spoken = {"conversation_id": place, "key": "held", "text": "hello"}
        refused = {"conversation_id": "con_nowhere", "position": 1}
        await session.send({"id": 1, "speak": [spoken], "commit": [refused]})
        # Takes its turn behind the commit: what has no known place has a connection of its own.
        await world.conversation("another")
        assert not world.server.db.idle
        faults.release()
        async with asyncio.timeout(20):
            while "results" not in (frame := await session.receive()):
                pass
        assert [sorted(result) for result in frame["results"]] == [["message", "ok"], ["error"]]
