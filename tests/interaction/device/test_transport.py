"""What goes wrong between device and server, and that nothing is lost or done twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.interaction.device.apps import PROBE

from lineloop.device.containers.port import Completed, Invocation, Outcome
from lineloop.device.decide.plan import Plan
from lineloop.device.reconcile import ahead
from lineloop.kit.database import Tx
from lineloop.protocol.machines import RuntimeState
from lineloop.testing.device_world import AGENT, CONVERSATION, DeviceWorld, device_world
from lineloop.testing.scripted_containers import Script
from lineloop.testing.waiting import until

ECHO_OK = ["starting", "activation_ready", "result:ok"]


def echoing() -> Script:
    script = Script()

    async def echo(call: Invocation) -> Outcome:
        return Completed({"text": call.params["text"]})

    script.on("probe.echo", echo)
    return script


async def echo(world: DeviceWorld, call_id: str) -> None:
    await world.invoke("probe.echo", {"text": "hi"}, call_id)


@pytest.mark.requirement("D6")
async def test_without_a_server_accepted_calls_go_on_and_all_is_said_once_later(
    tmp_path: Path,
) -> None:
    async with device_world(tmp_path) as world:
        await world.invoke("pomodoro.start", {"minutes": 5}, "call-1")
        await world.stages("call-1", "started")
        world.server.cut(reachable=False)
        await world.clock.advance(10)
        assert world.runtime.state is RuntimeState.OFFLINE_DEGRADED
        await world.clock.advance(290)
        assert world.story("call-1") == ["starting", "started"]
        assert world.runtime.outbox_waiting == 2
        assert await world.rows("SELECT state FROM operations") == [("completed",)]
        world.server.reachable = True
        await world.clock.advance(30)
        assert await world.stages("call-1", "result:completed") == ["starting", "started", "result:completed"]
        assert world.runtime.state is RuntimeState.ONLINE
        assert world.runtime.outbox_waiting == 0
        ordinals = [m["ordinal"] for m in world.server.messages if m["actor"]["kind"] == "runtime"]
        assert ordinals == sorted(ordinals)


@pytest.mark.requirement("D6")
async def test_a_device_that_starts_without_a_server_finishes_what_it_had(tmp_path: Path) -> None:
    async with device_world(tmp_path) as world:
        await world.invoke("pomodoro.start", {"minutes": 5}, "call-1")
        await world.stages("call-1", "started")
        world.server.reachable = False
        await world.restart()
        await world.clock.advance(300)
        assert await world.rows("SELECT state FROM operations") == [("completed",)]
        world.server.reachable = True
        await world.clock.advance(30)
        await world.stages("call-1", "result:completed")


@pytest.mark.requirement("D7")
@pytest.mark.parametrize("restarted", [False, True])
async def test_a_lost_acknowledgement_makes_no_second_message(tmp_path: Path, restarted: bool) -> None:
    async with device_world(tmp_path, apps=PROBE, script=echoing()) as world:
        await world.inventory()
        world.server.lose_answers = True
        await echo(world, "call-1")
        await until(lambda: world.story("call-1") != [])
        world.server.lose_answers = False
        if restarted:
            await world.restart()
        else:
            world.server.cut(reachable=True)
            await world.clock.advance(5)
        assert await world.stages("call-1", "result:ok") == ECHO_OK


@pytest.mark.requirement("D3")
@pytest.mark.parametrize("restarted", [False, True])
async def test_a_message_that_is_delivered_again_is_not_taken_again(tmp_path: Path, restarted: bool) -> None:
    script = echoing()
    async with device_world(tmp_path, apps=PROBE, script=script) as world:
        await echo(world, "call-1")
        await world.stages("call-1", "result:ok")
        world.server.committed.clear()
        if restarted:
            await world.restart()
        else:
            world.server.push({"deliver": [m for m in world.server.messages if m["key"] == "call-1"]})
            world.server.cut(reachable=True)
            await world.clock.advance(5)
        await echo(world, "call-2")
        await world.stages("call-2", "result:ok")
        assert world.story("call-1") == ECHO_OK
        assert script.ran.total() == 2


@pytest.mark.requirement("D3")
async def test_the_same_envelope_under_another_key_is_acknowledged_and_not_processed_twice(
    tmp_path: Path,
) -> None:
    async with device_world(tmp_path) as world:
        await world.inventory()
        asked = world.ask_inventory("one")
        await until(lambda: any(m["reply_to_id"] == asked["id"] for m in world.server.messages))
        head = world.head("env-one", AGENT, CONVERSATION)
        count = len(world.server.messages)
        envelope: dict[str, Any] = {**asked["content"]["blocks"][0]["envelope"], "id": head.id}
        again = world.say(envelope, "two")
        await world.clock.advance(2)
        assert len(world.server.messages) == count + 1
        assert world.server.committed[CONVERSATION] == again["offset"]


@pytest.mark.requirement("D1")
@pytest.mark.parametrize("missing", ["app_scope", "conversation_id"])
async def test_an_envelope_without_its_scope_is_refused_counted_and_audited(
    tmp_path: Path, missing: str
) -> None:
    async with device_world(tmp_path) as world:
        envelope = sound_envelope(await world.inventory())
        del envelope["scope"][missing]
        world.say(envelope, "bad")
        assert (await world.ended("call-1"))["code"] == "scope_missing"
        assert world.runtime.room.refused["scope_missing"] == 1
        lines = await world.runtime.audit(call_id="call-1")
        assert [line["event"] for line in lines] == ["envelope_refused"]
        for table in ("calls", "app_inbox", "instances"):
            assert await world.rows(f"SELECT * FROM {table}") == []


@pytest.mark.requirement("D2")
@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("v", 2, "envelope_version_unsupported"),
        ("type", "lineup.tool.dance", "envelope_type_unknown"),
        ("payload", {"x": "x" * 300_000}, "envelope_too_large"),
        ("payload", [], "envelope_invalid"),
        ("timestamp", "yesterday", "envelope_invalid"),
    ],
)
async def test_each_fault_of_an_envelope_has_its_code_and_the_link_survives(
    tmp_path: Path, field: str, value: Any, code: str
) -> None:
    async with device_world(tmp_path) as world:
        envelope = sound_envelope(await world.inventory())
        envelope[field] = value
        world.say(envelope, "bad")
        assert (await world.ended("call-1"))["code"] == code
        await world.invoke("pomodoro.interrupt", {}, "call-2")
        await world.ended("call-2")


async def test_an_envelope_that_is_too_deep_has_its_own_code(tmp_path: Path) -> None:
    async with device_world(tmp_path) as world:
        envelope = sound_envelope(await world.inventory())
        deep: dict[str, Any] = {}
        for _ in range(80):
            deep = {"deeper": deep}
        envelope["payload"]["params"] = deep
        world.say(envelope, "bad")
        assert (await world.ended("call-1"))["code"] == "envelope_too_deep"


async def test_a_quick_call_travels_in_one_frame_with_its_receipt_and_position(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, "QUICK_SECONDS", 20.0)
    async with device_world(tmp_path, apps=PROBE, script=echoing(), receipt_hold_seconds=0.005) as world:
        await echo(world, "call-1")
        await world.stages("call-1", "result:ok")
        await world.clock.advance(1)
        before, commits = len(world.server.frames), world.runtime.foundation.database.commits
        await echo(world, "call-2")
        await world.stages("call-2", "result:ok")
        frames = world.server.frames[before:]
        assert [sorted(set(frame) - {"id"}) for frame in frames] == [["commit", "speak"]]
        assert [len(frame["speak"]) for frame in frames] == [2]
        # The query was answered before it was stored, so that accepted and answered is one commit.
        assert world.runtime.foundation.database.commits - commits == 1


async def test_a_slow_handlers_receipt_goes_out_alone_after_a_moment(tmp_path: Path) -> None:
    async with device_world(tmp_path, apps=PROBE, script=Script(), receipt_hold_seconds=0.005) as world:
        script = world.script
        assert script is not None
        await world.invoke("probe.echo", {"text": "warm"}, "warm up")
        await world.ended("warm up")

        async def never(call: Invocation) -> Outcome:
            await world.clock.sleep(5)
            return Completed({"text": "late"})

        script.on("probe.echo", never)
        await echo(world, "call-1")
        await world.settle()
        assert world.story("call-1") == []
        await world.clock.advance(0.01)
        assert world.story("call-1") == ["accepted"]
        await world.clock.advance(5)
        assert await world.stages("call-1", "result:ok") == ["accepted", "result:ok"]


async def test_messages_that_are_not_for_the_device_only_move_its_cursor(tmp_path: Path) -> None:
    async with device_world(tmp_path) as world:
        await world.inventory()
        message = world.server.messages[-1]
        other = {**message, "id": "msg_x", "target": None, "offset": 50, "purpose": "speech"}
        world.server.push({"deliver": [other]})
        await world.clock.advance(2)
        assert world.server.committed[CONVERSATION] == 50
        assert await world.rows("SELECT position FROM cursors") == [(50,)]


async def test_what_travels_with_a_commit_that_fails_travels_with_the_next(tmp_path: Path) -> None:
    def refuse(tx: Tx, plan: Plan) -> None:
        raise ValueError("not this one")

    async with device_world(tmp_path) as world:
        room = world.runtime.room
        room.pending.cursors["cnv_other"] = 7
        with pytest.raises(ValueError, match="not this one"):
            await room.submit("runtime", refuse)
        assert await world.rows("SELECT position FROM cursors") == []
        await room.submit("runtime", lambda tx, plan: None)
        assert await world.rows("SELECT conversation_id, position FROM cursors") == [("cnv_other", 7)]
        assert not room.pending


def sound_envelope(inventory: dict[str, Any]) -> dict[str, Any]:
    """A well-formed invoke, to be spoiled."""
    return {
        "v": 1,
        "id": "env-1",
        "type": "lineup.tool.invoke",
        "timestamp": "2026-01-01T00:00:00Z",
        "sender": {"kind": "agent", "id": AGENT},
        "target": {"kind": "runtime", "app_scope": "pomodoro"},
        "scope": {"app_scope": "pomodoro", "conversation_id": CONVERSATION},
        "correlation": {"call_id": "call-1", "inventory_revision": inventory["revision"]},
        "payload": {
            "app_scope": "pomodoro",
            "method": "pomodoro.start",
            "contract_version": "1",
            "params": {"minutes": 5},
        },
    }
