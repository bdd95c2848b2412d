"""The whole path from outside: token, inventory, a durable call, repeats, kill -9. Names of the wire only."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.blackbox.system import Agent, Refused, System, envelope_of

STARTED = ["starting", "started"]


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    system = System(tmp_path)
    yield system
    system.close()


def start_focus(agent: Agent, call_id: str = "call-1", minutes: int = 5) -> list[str]:
    agent.invoke("pomodoro.start", {"minutes": minutes, "label": "tea"}, call_id)
    return agent.wait_for(call_id, "started")


def interrupt(agent: Agent, call_id: str = "stop-1") -> list[str]:
    agent.invoke("pomodoro.interrupt", {}, call_id)
    agent.wait_for(call_id, "result:interrupted")
    return agent.stages(call_id)


@pytest.mark.requirement("D28", "D29", "D13", "D35")
def test_a_call_is_answered_in_order_and_once_also_when_repeated_at_each_stage(system: System) -> None:
    agent = Agent(system.start(), "tester")
    assert start_focus(agent) == STARTED

    for repeat in ("again-a", "again-b"):
        agent.invoke("pomodoro.start", {"minutes": 5, "label": "tea"}, "call-1", key=repeat)
    agent.invoke("pomodoro.start", {"minutes": 5}, "call-2")
    agent.wait_for("call-2", "result:not_started")
    assert agent.stages("call-1") == STARTED

    interrupt(agent)
    assert agent.wait_for("call-1", "result:interrupted") == [*STARTED, "result:interrupted"]
    agent.invoke("pomodoro.start", {"minutes": 5, "label": "tea"}, "call-1", key="again-c")
    agent.invoke("pomodoro.interrupt", {}, "stop-2")
    agent.wait_for("stop-2", "result:nothing_to_interrupt")
    assert agent.stages("call-1") == [*STARTED, "result:interrupted"]


@pytest.mark.requirement("D31", "D53")
def test_a_running_focus_goes_on_after_kill_9_with_the_same_end(system: System) -> None:
    agent = Agent(system.start(), "tester")
    start_focus(agent)
    ends_at = agent.answers("call-1")[-1]["payload"]["ends_at"]
    system.kill()

    system.start()
    agent.invoke("pomodoro.start", {"minutes": 5, "label": "tea"}, "call-1", key="after restart")
    interrupt(agent)
    assert agent.wait_for("call-1", "result:interrupted") == [*STARTED, "result:interrupted"]
    assert agent.answers("call-1")[1]["payload"]["ends_at"] == ends_at


KILL_SITES = {
    "device.accept.before_commit": "start",
    "device.accept.after_commit": "start",
    "device.foreground.before_commit": "start",
    "device.operation_start.after_commit": "start",
    "device.result.before_commit": "interrupt",
    "device.result.after_commit": "interrupt",
    "device.outbox.after_send": "start",
    "server.speak.before_commit": "start",
    "server.speak.after_commit": "start",
}


@pytest.mark.requirement("D3", "D7", "D30", "D34", "D36")
@pytest.mark.parametrize("site", KILL_SITES)
def test_pulling_the_plug_at_a_site_loses_nothing_and_does_nothing_twice(system: System, site: str) -> None:
    agent = Agent(system.start(), "tester")
    agent.inventory()
    if KILL_SITES[site] == "interrupt":
        start_focus(agent)
    assert system.stop() == 0

    system.start(fault=f"{site}:kill")
    try:
        if KILL_SITES[site] == "interrupt":
            agent.invoke("pomodoro.interrupt", {}, "stop-1")
        else:
            agent.invoke("pomodoro.start", {"minutes": 5, "label": "tea"}, "call-1")
    except (OSError, Refused):
        pass  # The plug was pulled before the answer came: the outcome is unknown, the same key is safe.
    assert system.died() == -9

    system.start()
    if KILL_SITES[site] == "interrupt":
        agent.invoke("pomodoro.interrupt", {}, "stop-1")
    else:
        agent.invoke("pomodoro.start", {"minutes": 5, "label": "tea"}, "call-1")
        assert agent.wait_for("call-1", "started") == STARTED
        agent.invoke("pomodoro.interrupt", {}, "stop-1")
    agent.wait_for("stop-1", "result:interrupted")
    assert agent.wait_for("call-1", "result:interrupted") == [*STARTED, "result:interrupted"]
    sequences = [e["correlation"]["sequence"] for e in agent.answers("call-1")]
    assert sequences == sorted(set(sequences))


@pytest.mark.slow(seconds=61)
@pytest.mark.requirement("D31")
def test_a_deadline_that_passes_while_the_process_is_down_completes_once(system: System) -> None:
    agent = Agent(system.start(), "tester")
    start_focus(agent, minutes=1)
    system.kill()
    time.sleep(61)

    system.start()
    assert agent.wait_for("call-1", "result:completed") == [*STARTED, "result:completed"]
    system.kill()
    system.start()
    agent.invoke("pomodoro.interrupt", {}, "stop-1")
    agent.wait_for("stop-1", "result:nothing_to_interrupt")
    assert agent.stages("call-1") == [*STARTED, "result:completed"]


@pytest.mark.requirement("D11", "D12", "D14", "D15")
def test_refusals_are_coded_and_leave_the_call_id_free(system: System) -> None:
    agent = Agent(system.start(), "tester")
    revision = agent.inventory()["revision"]
    agent.invoke("pomodoro.start", {"minutes": 5}, "call-1", key="stale", revision="inv_0000000000000000")
    agent.wait_for("call-1", "error:inventory_stale")
    assert agent.answers("call-1")[0]["payload"]["rejected"] is True
    assert revision in str(agent.answers("call-1")[0]["payload"])

    agent.invoke("pomodoro.start", {"minutes": 0, "label": 7}, "call-1", key="wrong")
    agent.wait_for("call-1", "error:invalid_arguments")
    pointers = {e["pointer"] for e in agent.answers("call-1")[1]["payload"]["errors"]}
    assert pointers == {"/minutes", "/label"}

    agent.invoke("nosuchapp.start", {}, "call-x")
    agent.wait_for("call-x", "error:app_not_installed")

    agent.invoke("pomodoro.start", {"minutes": 5}, "call-1", key="right")
    agent.wait_for("call-1", "started")
    agent.invoke("pomodoro.start", {"minutes": 6}, "call-1", key="other params")
    agent.wait_for("call-1", "error:call_conflict")
    interrupt(agent)
    agent.wait_for("call-1", "result:interrupted")
    assert system.alive


def test_a_rejected_answer_points_at_the_envelope_it_refuses(system: System) -> None:
    agent = Agent(system.start(), "tester")
    spoken = agent.invoke("nosuchapp.start", {}, "call-x")
    agent.wait_for("call-x", "error:app_not_installed")
    answer = agent.messages(reply_to_id=spoken["id"])[0]
    assert envelope_of(answer)["payload"]["rejected"] is True
    assert answer["target"] == agent.actor
