"""What a device does when its disk, its server or its credential lets it down: it keeps what it has."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.interaction.device.apps import changed_probe, with_tool

from lineloop.device.containers.port import Completed, Invocation, Outcome
from lineloop.kit.database import Tx
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import LoopError
from lineloop.testing.device_world import CONVERSATION, DeviceWorld, device_world
from lineloop.testing.scripted_containers import Script
from lineloop.testing.waiting import until


def echoing() -> Script:
    script = Script()

    async def echo(call: Invocation) -> Outcome:
        return Completed({"text": call.params["text"]})

    script.on("probe.echo", echo)
    return script


async def fill_disk(world: DeviceWorld) -> None:
    """From now on the database's file does not grow."""

    def job(tx: Tx) -> None:
        tx.all(f"PRAGMA max_page_count = {tx.all('PRAGMA page_count')[0][0]}")

    await world.runtime.foundation.write(lambda tx: tx.run("CREATE TABLE IF NOT EXISTS filler (x)"))
    await world.runtime.foundation.write(job)
    # What is left on half-full pages is used up, too.
    for size in (4000, 1000, 200, 20):
        for _ in range(200):
            try:
                await world.runtime.foundation.write(
                    lambda tx, size=size: tx.run("INSERT INTO filler VALUES (zeroblob(?))", (size,))
                )
            except LoopError:
                break


async def make_room(world: DeviceWorld) -> None:
    await world.runtime.foundation.write(lambda tx: tx.all("PRAGMA max_page_count = 1000000"))


# Nothing of a job that meets this is stored.
REFUSING = """
CREATE TRIGGER refusing BEFORE UPDATE ON operations BEGIN SELECT RAISE(ABORT, 'no room'); END
"""


@pytest.mark.requirement("D102")
async def test_with_a_full_disk_a_call_waits_at_the_server_and_runs_once_when_there_is_room(
    tmp_path: Path,
) -> None:
    script = echoing()
    apps = changed_probe(tmp_path / "brought", with_tool("probe.echo", call_model="command"))
    async with device_world(tmp_path, apps=apps, script=script) as world:
        await world.invoke("probe.echo", {"text": "warm"}, "call-0")
        await world.ended("call-0")
        await fill_disk(world)
        text = "x" * 50_000
        await world.invoke("probe.echo", {"text": text}, "call-1")
        await world.clock.advance(3)
        assert world.story("call-1") == []
        assert script.ran["call-1"] == 0
        assert world.runtime.ready
        await make_room(world)
        await world.clock.advance(6)
        assert (await world.ended("call-1"))["result"] == {"text": text}
        assert world.story("call-1") == ["accepted", "result:ok"]
        assert script.ran["call-1"] == 1


@pytest.mark.requirement("D102")
async def test_a_deadline_that_storage_refuses_is_kept_for_later(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with device_world(tmp_path) as world:
        await world.invoke("pomodoro.start", {"minutes": 1}, "call-1")
        await world.stages("call-1", "started")
        ((ends_at,),) = await world.rows("SELECT ends_at FROM operations")
        await world.clock.advance(1)
        await world.runtime.foundation.write(lambda tx: tx.run(REFUSING))
        await world.clock.advance(90)
        assert world.story("call-1") == ["starting", "started"]
        assert await world.rows("SELECT state FROM operations") == [("active",)]
        assert await world.rows("SELECT COUNT(*) FROM records") == [(0,)]
        # One that tries again and again, however often the sweep comes by.
        waiting = [line for line in capsys.readouterr().out.splitlines() if "deadline of operation" in line]
        assert 0 < len(waiting) < 40
        await world.runtime.foundation.write(lambda tx: tx.run("DROP TRIGGER refusing"))
        await world.clock.advance(6)
        await world.stages("call-1", "result:completed")
        assert await world.rows("SELECT state, ends_at, elapsed_ms FROM operations") == [
            ("completed", ends_at, 60_000)
        ]
        assert await world.rows("SELECT COUNT(*) FROM records") == [(1,)]


REFUSALS = [
    LoopError("this side speaks link protocol 2", code=ErrorCode.PROTOCOL_VERSION_UNSUPPORTED),
    LoopError("unknown token", code=ErrorCode.UNAUTHORIZED),
]


@pytest.mark.requirement("D103", "D6")
@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: str(refusal.code))
async def test_a_device_that_is_refused_says_why_and_loses_nothing_that_was_on_its_way(
    tmp_path: Path, refusal: LoopError
) -> None:
    async with device_world(tmp_path) as world:
        assert world.runtime.connection.now()["reason"] is None
        await world.inventory()
        world.server.lose_answers = True
        await world.invoke("pomodoro.start", {"minutes": 5}, "call-1")
        await world.stages("call-1", "starting")
        world.server.refusal = refusal
        world.server.cut(reachable=True)
        await world.clock.advance(60)
        now = world.runtime.connection.now()
        assert (now["state"], now["reason"]) == ("offline", refusal.code)
        assert now["waiting"] > 0
        assert await world.rows("SELECT COUNT(*) FROM outbox WHERE refusal IS NOT NULL") == [(0,)]
        await world.clock.advance(300)
        assert await world.rows("SELECT state FROM operations") == [("completed",)]
        world.server.refusal = None
        world.server.lose_answers = False
        await world.clock.advance(60)
        assert world.story("call-1") == ["starting", "started", "result:completed"]
        await until(lambda: world.runtime.connection.now()["waiting"] == 0)
        now = world.runtime.connection.now()
        assert (now["state"], now["reason"]) == ("online", None)
        assert [m["purpose"] for m in world.server.messages].count("speech") == 1


@pytest.mark.requirement("D103")
async def test_a_server_that_answers_in_a_version_nobody_asked_for_is_not_believed(tmp_path: Path) -> None:
    async with device_world(tmp_path) as world:
        world.server.protocol = 7
        world.server.cut(reachable=True)
        await world.clock.advance(60)
        assert world.runtime.connection.now()["reason"] == "protocol_version_unsupported"
        world.server.protocol = 1
        await world.clock.advance(60)
        await world.invoke("pomodoro.start", {"minutes": 5}, "call-1", conversation_id=CONVERSATION)
        await world.stages("call-1", "started")
