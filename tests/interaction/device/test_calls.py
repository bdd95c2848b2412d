"""Tool calls through a device: what is refused, what is accepted, how each ends."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.interaction.device.apps import PROBE, changed_probe, with_tool

from lineloop.device.containers.port import Completed, Failed, Invocation, Open, Outcome
from lineloop.protocol.error_codes import ErrorCode
from lineloop.testing.device_world import AGENT, DeviceWorld, device_world
from lineloop.testing.scripted_containers import Script
from lineloop.testing.waiting import until

ECHO_OK = ["starting", "activation_ready", "result:ok"]


def echoing() -> Script:
    script = Script()

    async def echo(call: Invocation) -> Outcome:
        return Completed({"text": call.params["text"]})

    script.on("probe.echo", echo)
    return script


class Gate:
    """A handler that waits until the test lets it go on."""

    def __init__(self, result: Any) -> None:
        self.result = result
        self.open = asyncio.Event()

    async def __call__(self, call: Invocation) -> Outcome:
        await self.open.wait()
        return Completed(self.result)


async def echo(world: DeviceWorld, call_id: str, **changes: Any) -> None:
    await world.invoke("probe.echo", {"text": changes.pop("text", "hi")}, call_id, **changes)


@pytest.mark.requirement("D22", "D28")
async def test_the_first_call_starts_the_app_and_runs_in_the_real_logic_container(tmp_path: Path) -> None:
    async with device_world(tmp_path, apps=PROBE) as world:
        await echo(world, "call-1")
        assert await world.stages("call-1", "result:ok") == ECHO_OK
        assert (await world.ended("call-1"))["result"] == {"text": "hi"}
        await echo(world, "call-2", text="again")
        assert await world.stages("call-2", "result:ok") == ["accepted", "result:ok"]
        assert world.simulated.showings == []


@pytest.mark.requirement("D11")
async def test_a_call_with_yesterdays_inventory_is_stale_and_leaves_its_id_free(tmp_path: Path) -> None:
    script = echoing()
    async with device_world(tmp_path, apps=PROBE, script=script) as world:
        revision = (await world.inventory())["revision"]
        await echo(world, "call-1", key="old", revision="inv_0000000000000000")
        refused = await world.ended("call-1")
        assert (refused["code"], refused["rejected"]) == ("inventory_stale", True)
        assert refused["inventory_revision"] == revision
        assert script.ran.total() == 0
        assert await world.rows("SELECT * FROM calls") == []
        await echo(world, "call-1", key="new")
        assert await world.stages("call-1", "result:ok") == ["error:inventory_stale", *ECHO_OK]


@pytest.mark.requirement("D12")
async def test_invalid_arguments_name_every_place_and_start_nothing(tmp_path: Path) -> None:
    async with device_world(tmp_path) as world:
        await world.invoke("pomodoro.start", {"minutes": 0, "label": 7, "color": "red"}, "call-1")
        refused = await world.ended("call-1")
        assert (refused["code"], refused["rejected"]) == ("invalid_arguments", True)
        assert {error["pointer"] for error in refused["errors"]} == {"/minutes", "/label", "/color"}
        await world.invoke("pomodoro.start", {}, "call-2")
        assert [e["pointer"] for e in (await world.ended("call-2"))["errors"]] == ["/minutes"]
        assert await world.rows("SELECT * FROM instances") == []


@pytest.mark.requirement("D15")
@pytest.mark.parametrize("name", ["instance_id", "operation_id", "app_session_id"])
async def test_parameters_that_name_inner_things_are_refused(tmp_path: Path, name: str) -> None:
    async with device_world(tmp_path) as world:
        await world.invoke("pomodoro.start", {"minutes": 5, name: "x"}, "call-1")
        assert (await world.ended("call-1"))["code"] == "scope_forbidden"


@pytest.mark.requirement("D15")
async def test_an_envelope_that_names_another_conversation_or_an_instance_is_refused(tmp_path: Path) -> None:
    async with device_world(tmp_path) as world:
        revision = (await world.inventory())["revision"]
        base = world.say  # The envelope is written by hand below: no builder makes such a thing.
        for key, part, name, value, code in (
            ("a", "scope", "conversation_id", "cnv_other", "scope_mismatch"),
            ("b", "scope", "instance_id", "ins_1", "scope_forbidden"),
            ("c", "target", "instance_id", "ins_1", "scope_forbidden"),
            ("d", "sender", "id", "operator/somebody", "scope_mismatch"),
            ("e", "target", "app_scope", "whiteboard", "scope_mismatch"),
        ):
            envelope: dict[str, Any] = {
                "v": 1,
                "id": f"env-{key}",
                "type": "lineup.tool.invoke",
                "timestamp": "2026-01-01T00:00:00Z",
                "sender": {"kind": "agent", "id": AGENT},
                "target": {"kind": "runtime", "app_scope": "pomodoro"},
                "scope": {"app_scope": "pomodoro", "conversation_id": "cnv_one"},
                "correlation": {"call_id": key, "inventory_revision": revision},
                "payload": {
                    "app_scope": "pomodoro",
                    "method": "pomodoro.start",
                    "contract_version": "1",
                    "params": {"minutes": 5},
                },
            }
            envelope[part][name] = value
            base(envelope, key)
            assert (await world.ended(key))["code"] == code
        assert await world.rows("SELECT * FROM calls") == []


async def test_unknown_apps_tools_and_versions_have_their_own_codes(tmp_path: Path) -> None:
    async with device_world(tmp_path) as world:
        await world.invoke("nosuchapp.start", {}, "a")
        await world.invoke("pomodoro.fly", {}, "b")
        await world.invoke("pomodoro.start", {"minutes": 5}, "c", version="9")
        assert [(await world.ended(call_id))["code"] for call_id in "abc"] == [
            "app_not_installed",
            "tool_not_visible",
            "app_version_mismatch",
        ]


@pytest.mark.requirement("D13")
async def test_a_repeat_is_answered_from_the_record_at_every_stage(tmp_path: Path) -> None:
    script = Script()
    gate = Gate({"text": "done"})
    script.on("probe.echo", gate)
    script.gate.clear()
    async with device_world(tmp_path, apps=PROBE, script=script) as world:
        await echo(world, "call-1")
        await world.stages("call-1", "starting")
        await echo(world, "call-1", key="while starting", revision="inv_0000000000000000")
        script.gate.set()
        await until(lambda: script.ran.total() == 1)
        await echo(world, "call-1", key="while running", revision="inv_0000000000000000")
        gate.open.set()
        await world.stages("call-1", "result:ok")
        await echo(world, "call-1", key="after the end", revision="inv_0000000000000000")
        operation = await world.runtime.registry.disable("probe")
        await world.runtime.registry.wait(operation.operation_id)
        await echo(world, "call-1", key="disabled", revision="inv_0000000000000000")
        await world.settle()
        assert world.story("call-1") == ECHO_OK
        assert script.ran.total() == 1
        mine = await world.rows("SELECT COUNT(*) FROM outbox WHERE key LIKE 'call_%'")
        assert mine == [(3,)]


@pytest.mark.requirement("D14")
async def test_the_same_id_with_other_parameters_conflicts_and_harms_nothing(tmp_path: Path) -> None:
    script = Script()
    gate = Gate({"text": "done"})
    script.on("probe.echo", gate)
    async with device_world(tmp_path, apps=PROBE, script=script) as world:
        await echo(world, "call-1")
        await until(lambda: script.ran.total() == 1)
        await echo(world, "call-1", text="something else", key="other")
        conflict = await world.ended("call-1")
        assert (conflict["code"], conflict["rejected"]) == ("call_conflict", True)
        gate.open.set()
        await world.stages("call-1", "result:ok")
        assert script.ran.total() == 1


@pytest.mark.requirement("D14")
async def test_the_order_of_fields_does_not_make_another_request(tmp_path: Path) -> None:
    async with device_world(tmp_path) as world:
        await world.invoke("pomodoro.start", {"minutes": 5, "label": "tea"}, "call-1")
        await world.stages("call-1", "started")
        await world.invoke("pomodoro.start", {"label": "tea", "minutes": 5}, "call-1", key="again")
        await world.settle()
        assert world.story("call-1") == ["starting", "started"]


async def test_two_agents_may_use_the_same_call_id(tmp_path: Path) -> None:
    async with device_world(tmp_path, apps=PROBE, script=echoing()) as world:
        await echo(world, "call-1", text="one")
        await echo(world, "call-1", text="two", agent="operator/other")
        assert (await world.ended("call-1"))["result"] == {"text": "one"}
        assert (await world.ended("call-1", "operator/other"))["result"] == {"text": "two"}


@pytest.mark.requirement("D16", "D59")
async def test_a_result_that_breaks_the_schema_never_reaches_the_agent(tmp_path: Path) -> None:
    script = Script()

    async def wrong(call: Invocation) -> Outcome:
        return Completed({"secret": "of the app"})

    script.on("probe.echo", wrong)
    async with device_world(tmp_path, apps=PROBE, script=script) as world:
        await echo(world, "call-1")
        failed = await world.ended("call-1")
        assert (failed["code"], failed["reason"]) == ("handler_failed", "output_invalid")
        assert "of the app" not in str(world.server.messages)
        story = await world.runtime.audit(call_id="call-1")
        assert "of the app" in str(story[0]["events"])


@pytest.mark.requirement("D17")
@pytest.mark.parametrize(("end", "reason"), [("throw", "threw"), ("fail", "app")])
async def test_a_handler_that_fails_ends_its_call_once(tmp_path: Path, end: str, reason: str) -> None:
    script = echoing()

    async def bad(call: Invocation) -> Outcome:
        if end == "throw":
            raise RuntimeError("on purpose")
        return Failed(ErrorCode.HANDLER_FAILED, "no", "app")

    script.on("probe.misbehave", bad)
    async with device_world(tmp_path, apps=PROBE, script=script) as world:
        await world.invoke("probe.misbehave", {"how": "throw"}, "call-1")
        failed = await world.ended("call-1")
        assert (failed["code"], failed["reason"]) == ("handler_failed", reason)
        await echo(world, "call-2")
        await world.stages("call-2", "result:ok")


@pytest.mark.requirement("D17", "D18")
async def test_a_handler_that_takes_too_long_expires_and_its_late_result_counts_for_nothing(
    tmp_path: Path,
) -> None:
    script = Script()
    release = asyncio.Event()

    class Deaf(Gate):
        pass

    gate = Deaf({"text": "late"})
    script.on("probe.echo", gate)
    async with device_world(tmp_path, apps=PROBE, script=script) as world:
        await echo(world, "call-1")
        await until(lambda: script.ran.total() == 1)
        containers = script.containers
        assert containers is not None

        async def ignore_cancel(call_id: str) -> None:
            release.set()

        container = next(iter(containers.all.values()))
        container.cancel = ignore_cancel
        await world.clock.advance(10)
        assert (await world.ended("call-1"))["code"] == "operation_expired"
        await until(release.is_set)
        gate.open.set()
        await world.settle()
        assert world.story("call-1") == ["starting", "activation_ready", "error:operation_expired"]
        story = await world.runtime.audit(call_id="call-1")
        assert "late_result" in [event["event"] for event in story[0]["events"]]


@pytest.mark.requirement("D17")
async def test_a_session_that_crashes_fails_its_calls_once_and_can_start_again(tmp_path: Path) -> None:
    script = echoing()
    gate = Gate({"total": 1, "revision": 1, "together": 1})
    script.on("probe.add", gate)
    async with device_world(tmp_path, apps=PROBE, script=script) as world:
        await world.invoke("probe.add", {"amount": 1}, "call-1")
        await until(lambda: script.ran.total() == 1)
        assert script.containers is not None
        next(iter(script.containers.all.values())).crash()
        failed = await world.ended("call-1")
        assert (failed["code"], failed["reason"]) == ("handler_failed", "crashed")
        await echo(world, "call-2")
        assert await world.stages("call-2", "result:ok") == ECHO_OK
        assert world.story("call-1")[-1:] == ["error:handler_failed"]
        assert await world.rows("SELECT state FROM instances ORDER BY started_at") == [
            ("failed",),
            ("background",),
        ]


@pytest.mark.requirement("D20")
async def test_queries_run_together_and_commands_in_arrival_order(tmp_path: Path) -> None:
    script = Script()
    slow, first = Gate({"text": "hi"}), Gate({"total": 1, "revision": 1, "together": 1})
    script.on("probe.echo", slow)
    script.on("probe.add", first)
    async with device_world(tmp_path, apps=PROBE, script=script) as world:
        for number in range(3):
            await echo(world, f"query-{number}")
        await until(lambda: script.order.count("probe.echo") == 3)
        for number in range(3):
            await world.invoke("probe.add", {"amount": number}, f"command-{number}")
        await world.settle()
        assert script.order.count("probe.add") == 1
        first.open.set()
        await world.stages("command-2", "result:ok")
        assert script.order.count("probe.add") == 3
        ended = await world.rows(
            "SELECT call_id FROM calls WHERE call_model = 'command' ORDER BY ended_at, dispatched_at, arrival"
        )
        assert [row[0] for row in ended] == ["command-0", "command-1", "command-2"]


@pytest.mark.requirement("D21")
async def test_cancel_ends_a_waiting_call_and_asks_a_running_one(tmp_path: Path) -> None:
    script = Script()
    gate = Gate({"total": 1, "revision": 1, "together": 1})
    script.on("probe.add", gate)
    async with device_world(tmp_path, apps=PROBE, script=script) as world:
        await world.invoke("probe.add", {"amount": 1}, "running")
        await until(lambda: script.ran.total() == 1)
        await world.invoke("probe.add", {"amount": 2}, "waiting")
        await world.stages("waiting", "accepted")
        world.cancel("waiting", "probe", key="cancel-1")
        assert (await world.ended("waiting"))["code"] == "cancelled"
        world.cancel("running", "probe", key="cancel-2")
        assert (await world.ended("running"))["code"] == "cancelled"
        assert script.cancelled == ["running"]
        assert script.ran.total() == 1


@pytest.mark.requirement("D21")
async def test_a_result_that_wins_over_the_cancel_is_the_answer(tmp_path: Path) -> None:
    script = Script()
    gate = Gate({"text": "won"})
    script.on("probe.echo", gate)
    async with device_world(tmp_path, apps=PROBE, script=script) as world:
        await echo(world, "call-1")
        await until(lambda: script.ran.total() == 1)
        gate.open.set()
        await world.stages("call-1", "result:ok")
        world.cancel("call-1", "probe")
        await world.settle()
        assert world.story("call-1") == ECHO_OK


async def test_a_cancel_for_an_unknown_call_is_refused(tmp_path: Path) -> None:
    async with device_world(tmp_path) as world:
        world.cancel("nothing", "pomodoro")
        assert (await world.ended("nothing"))["code"] == "not_found"


async def test_an_interactive_call_stays_open_until_the_app_ends_it(tmp_path: Path) -> None:
    async with device_world(tmp_path, apps=PROBE) as world:
        await world.invoke("probe.ask", {"question": "sure?"}, "call-1")
        await world.stages("call-1", "progress")
        await world.clock.advance(5)
        await world.invoke("probe.answer", {"call_id": "call-1", "answer": "yes"}, "call-2")
        assert (await world.ended("call-1"))["result"] == {"answer": "yes"}
        await world.ended("call-2")


async def test_an_interactive_call_nobody_ends_expires(tmp_path: Path) -> None:
    script = Script()

    async def leave_open(call: Invocation) -> Outcome:
        return Open()

    script.on("probe.ask", leave_open)
    async with device_world(tmp_path, apps=PROBE, script=script) as world:
        await world.invoke("probe.ask", {"question": "sure?"}, "call-1")
        await until(lambda: script.ran.total() == 1)
        await world.clock.advance(10)
        assert (await world.ended("call-1"))["code"] == "operation_expired"


@pytest.mark.requirement("D19")
@pytest.mark.parametrize("allowed", [True, False])
async def test_a_risky_call_waits_for_the_person(tmp_path: Path, allowed: bool) -> None:
    apps = changed_probe(tmp_path / "brought", with_tool("probe.echo", risk="high"))
    script = echoing()
    async with device_world(tmp_path, apps=apps, script=script) as world:
        await echo(world, "call-1")
        await world.stages("call-1", "accepted")
        sheet = await until(lambda: world.simulated.sheets[-1:])
        assert (sheet[0].risk, sheet[0].params) == ("high", {"text": "hi"})
        assert await world.rows("SELECT * FROM instances") == []
        await world.simulated.answer_consent(allowed=allowed)
        if allowed:
            story = ["accepted", "starting", "activation_ready", "result:ok"]
            assert await world.stages("call-1", "result:ok") == story
        else:
            assert (await world.ended("call-1"))["code"] == "cancelled_by_user"
            assert script.ran.total() == 0
        await world.simulated.answer_consent(allowed=not allowed)
        await world.settle()
        assert len([s for s in world.story("call-1") if ":" in s]) == 1


@pytest.mark.requirement("D19")
async def test_a_sheet_is_shown_again_after_a_restart_and_ends_with_the_calls_time(tmp_path: Path) -> None:
    apps = changed_probe(tmp_path / "brought", with_tool("probe.echo", risk="medium"))
    async with device_world(tmp_path, apps=apps, script=echoing()) as world:
        await echo(world, "call-1")
        await until(lambda: len(world.simulated.sheets) == 1)
        await world.restart()
        await until(lambda: len(world.simulated.sheets) == 2)
        await world.clock.advance(10)
        assert (await world.ended("call-1"))["code"] == "permission_denied"
        assert world.simulated.withdrawn == [world.simulated.sheets[0].call_ref]
