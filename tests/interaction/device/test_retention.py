"""What is old goes, and nothing that is alive; a used call id stays used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lineloop.device.reconcile.retention import DAY_MS, RetentionSweep
from lineloop.device.settings import Retention
from lineloop.device.store.session_data import load_usage
from lineloop.kit.database import Tx
from lineloop.testing.device_world import DeviceWorld, device_world

DAY_SECONDS = 24 * 3600.0
EVERYTHING = Retention(calls=1, inbox=1, outbox=1, audit=1, sessions=1)


async def sweep(world: DeviceWorld, kept: Retention = EVERYTHING) -> int:
    return await RetentionSweep(world.runtime.foundation, kept).sweep()


async def counts(world: DeviceWorld, *tables: str) -> dict[str, int]:
    return {table: (await world.rows(f"SELECT COUNT(*) FROM {table}"))[0][0] for table in tables}


async def an_old_focus(world: DeviceWorld, days: float = 2) -> None:
    """A focus that ended days ago, with everything said to the server."""
    await world.invoke("pomodoro.start", {"minutes": 5, "label": "secret plans"}, "old")
    await world.stages("old", "started")
    await world.clock.advance(300)
    await world.ended("old")
    await world.clock.advance(1)
    world.clock.jump(days * DAY_SECONDS)


@pytest.mark.requirement("D101")
async def test_an_old_call_is_emptied_and_its_id_never_runs_again(tmp_path: Path) -> None:
    async with device_world(tmp_path) as world:
        await an_old_focus(world)
        (record,) = await world.rows("SELECT content FROM records")
        assert await sweep(world) > 0
        (row,) = await world.rows("SELECT state, outcome, params FROM calls")
        assert row[:2] == ("succeeded", None)
        assert "secret plans" not in row[2]
        assert await counts(world, "receipts", "operations") == {"receipts": 0, "operations": 0}
        assert await world.rows("SELECT content FROM records") == [record]
        await world.invoke("pomodoro.start", {"minutes": 5, "label": "secret plans"}, "old", key="again")
        await world.stages("old", "error:call_expired")
        await world.invoke("pomodoro.start", {"minutes": 6}, "old", key="other")
        await world.stages("old", "error:call_conflict")
        assert await world.rows("SELECT COUNT(*) FROM calls") == [(1,)]
        (told,) = [one for one in await world.runtime.audit(call_id="old") if "receipts" in one]
        assert (told["state"], told["params"], told["receipts"]) == ("succeeded", {}, [])


@pytest.mark.requirement("D101")
async def test_nothing_alive_and_nothing_unsent_goes(tmp_path: Path) -> None:
    async with device_world(tmp_path) as world:
        await world.invoke("pomodoro.start", {"minutes": 180}, "live")
        await world.stages("live", "started")
        world.server.cut(reachable=False)
        await world.runtime.host_reports.session_opened("hst_simulated")
        before = await counts(world, "receipts", "operations", "calls")
        world.clock.jump(400 * DAY_SECONDS)
        await sweep(world)
        assert await counts(world, "receipts", "operations", "calls") == before
        ((params, deadline),) = await world.rows(
            "SELECT c.params, o.ends_at FROM calls AS c JOIN operations AS o ON o.call_ref = c.id"
        )
        assert "180" in params
        assert deadline > 0


@pytest.mark.requirement("D101")
async def test_an_ended_call_whose_answer_the_server_does_not_have_waits(tmp_path: Path) -> None:
    async with device_world(tmp_path) as world:
        await world.invoke("pomodoro.start", {"minutes": 5}, "old")
        await world.stages("old", "started")
        world.server.cut(reachable=False)
        await world.clock.advance(300)
        world.clock.jump(9 * DAY_SECONDS)
        await sweep(world)
        assert await world.rows("SELECT outcome IS NULL FROM calls") == [(0,)]
        world.server.reachable = True
        await world.clock.advance(20)
        await world.stages("old", "result:completed")
        await world.clock.advance(1)
        world.clock.jump(2 * DAY_SECONDS)
        await sweep(world)
        assert await world.rows("SELECT outcome IS NULL FROM calls") == [(1,)]


@pytest.mark.requirement("D101")
async def test_each_name_removes_its_own_and_nothing_else(tmp_path: Path) -> None:
    async with device_world(tmp_path) as world:
        await an_old_focus(world)
        await sweep(world, Retention(outbox=1))
        assert await world.rows("SELECT COUNT(*) FROM outbox WHERE key LIKE 'inventory/%'") == [(0,)]
        assert (await counts(world, "receipts"))["receipts"] > 0
        audited = (await counts(world, "audit"))["audit"]
        assert audited > 0
        await sweep(world, Retention(inbox=1, sessions=1))
        assert (await counts(world, "audit"))["audit"] == audited
        await sweep(world, Retention(audit=1))
        assert await counts(world, "audit", "calls") == {"audit": 0, "calls": 1}
        assert await sweep(world, Retention()) == 0


@pytest.mark.requirement("D101")
async def test_the_data_of_a_closed_sub_session_goes_and_gives_its_bytes_back(tmp_path: Path) -> None:
    async with device_world(tmp_path) as world:
        old = world.clock.now_ms() - 2 * DAY_MS

        def put(tx: Tx) -> None:
            for session, state, closed in (("ses_open", "open", None), ("ses_old", "closed", old)):
                tx.run(
                    "INSERT INTO sub_sessions (app_session_id, runtime_id, conversation_id, app_scope, state,"
                    " created_at, closed_at) VALUES (?, 'laptop', 'cnv', 'todo', ?, ?, ?)",
                    (session, state, old, closed),
                )
                tx.run(
                    "INSERT INTO session_data (runtime_id, app_scope, app_session_id, revision, data,"
                    " size_bytes, updated_at) VALUES ('laptop', 'todo', ?, 1, '{}', 2, ?)",
                    (session, old),
                )
            tx.run("INSERT INTO session_data_usage VALUES ('laptop', 'todo', 4)")

        await world.runtime.foundation.write(put)
        assert await sweep(world) >= 1
        assert await world.rows("SELECT app_session_id FROM session_data") == [("ses_open",)]
        assert await world.runtime.foundation.read(lambda tx: load_usage(tx, "laptop", "todo")) == 2


@pytest.mark.requirement("D101")
async def test_a_running_device_sweeps_by_itself_when_it_is_told_to(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"retention": Retention(calls=1)}
    async with device_world(tmp_path, **settings) as world:
        await an_old_focus(world)
        await world.clock.advance(600)
        assert await world.rows("SELECT outcome IS NULL FROM calls") == [(1,)]
        faults = world.faults.reached
        assert faults["device.retention.before_commit"] == faults["device.retention.after_commit"] > 0
