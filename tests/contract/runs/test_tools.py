"""Tools in a Run: called through the conversation, waited for without a slot, told truthfully."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.contract.runs.run_world import (
    ASSISTANT,
    DEVICE,
    USER,
    RunWorld,
    envelope,
    pomodoro_tools,
    run_world,
)

from lineloop.harness.port import Finish, RunChange
from lineloop.protocol.actors import Actor
from lineloop.protocol.envelopes import Stage, tool_result
from lineloop.protocol.errors import ErrorCode, Forbidden, LoopError
from lineloop.protocol.machines import RunEvent, RunPhase
from lineloop.protocol.messages import Message, Purpose
from lineloop.server.commit.asking import answer_in
from lineloop.server.decide.questions import Reply
from lineloop.server.run_records import RunRow

TOOLS = ["inventory", "human"]


async def start_a_focus(
    world: RunWorld, text: str = "start a 1 minute focus called tea", **fields: Any
) -> tuple[RunRow, Message]:
    await world.connect_device()
    await world.publish()
    await world.start_engine()
    run = await world.submit(text, tools=TOOLS, **fields)
    return run, await world.next_invoke()


async def test_a_call_is_one_durable_message_on_behalf_of_the_operator(world: RunWorld) -> None:
    run, invoke = await start_a_focus(world)
    assert invoke.actor == Actor("harness", f"run-{run.id}")
    assert (invoke.on_behalf_of, invoke.target, invoke.purpose) == (ASSISTANT, DEVICE, Purpose.ENVELOPE)
    sent = envelope(invoke)
    assert sent["sender"] == {"kind": "agent", "id": "operator/assistant"}
    assert sent["payload"]["params"] == {"minutes": 1, "label": "tea"}
    assert sent["correlation"]["call_id"] == invoke.key == f"{run.id}/1.0"


async def test_a_run_that_waits_for_a_tool_holds_no_slot_and_its_answer_wakes_it(tmp_path: Path) -> None:
    async with run_world(tmp_path, slots=1) as world:
        run, invoke = await start_a_focus(world, "stop")
        assert (await world.run(run)).phase is RunPhase.WAITING_INPUT
        other = await world.submit("hello", key="k2")
        await world.reach(other, RunPhase.SUCCEEDED)
        await world.answer(invoke, 1, {"outcome": "interrupted", "elapsed_ms": 12_000})
        await world.reach(run, RunPhase.SUCCEEDED)
        assert "stopped after 12 s" in await world.text(run)


async def test_a_running_timer_is_spoken_of_only_after_started(world: RunWorld) -> None:
    run, invoke = await start_a_focus(world)
    await world.receipt(invoke, Stage.STARTING, 1)
    await world.clock.settle()
    text = await world.text(run)
    assert "Getting Pomodoro ready" in text
    assert "running" not in text
    assert "Started" not in text
    await world.receipt(
        invoke, Stage.STARTED, 2, duration_ms=60_000, ends_at="2026-01-02T03:05:05.678Z", started_at="x"
    )
    await world.reach(run, RunPhase.SUCCEEDED)
    result = await world.result(run)
    assert 'Started: Pomodoro "tea", 1 min; it is running.' in result
    assert "demo, not AI" in result


async def test_the_answer_is_in_the_language_of_the_question(world: RunWorld) -> None:
    run, invoke = await start_a_focus(world, "现在开始 20 分钟的冥想，帮我计时")
    assert envelope(invoke)["payload"]["params"] == {"minutes": 20}
    await world.receipt(invoke, Stage.STARTING, 1)
    assert "正在准备 Pomodoro" in await world.text(run)
    await world.receipt(invoke, Stage.STARTED, 2, duration_ms=1_200_000, ends_at="2026-01-02T03:05:05.678Z")
    await world.reach(run, RunPhase.SUCCEEDED)
    assert "已经开始：Pomodoro，20 分钟" in await world.result(run)


async def test_a_refused_start_is_told_with_its_reason_and_never_as_running(world: RunWorld) -> None:
    run, invoke = await start_a_focus(world)
    await world.receipt(invoke, Stage.STARTING, 1)
    await world.answer(invoke, 2, {"outcome": "not_started", "reason": "already_active"})
    await world.reach(run, RunPhase.SUCCEEDED)
    result = await world.result(run)
    assert "did not start (already active)" in result
    assert "is running" not in result


async def test_an_error_of_a_tool_is_told_with_its_public_code(world: RunWorld) -> None:
    run, invoke = await start_a_focus(world)
    error = LoopError("Pomodoro is disabled.", code=ErrorCode.APP_DISABLED)
    await world.refuse(invoke, 1, error, rejected=True)
    await world.reach(run, RunPhase.SUCCEEDED)
    assert "did not work (app_disabled): Pomodoro is disabled." in await world.result(run)


async def test_a_stale_inventory_is_refreshed_and_the_same_call_sent_again(world: RunWorld) -> None:
    run, invoke = await start_a_focus(world, "stop")
    changed = pomodoro_tools()
    changed[0] = changed[0].model_copy(update={"description": "another description"})
    revision = await world.publish(changed)
    stale = LoopError("stale", code=ErrorCode.INVENTORY_STALE, detail={"inventory_revision": revision})
    await world.refuse(invoke, 1, stale, rejected=True)
    again = await world.next_invoke(2)
    assert envelope(again)["correlation"] == {"call_id": f"{run.id}/1.0", "inventory_revision": revision}
    assert again.key != invoke.key
    await world.answer(again, 1, {"outcome": "nothing_to_interrupt"})
    await world.reach(run, RunPhase.SUCCEEDED)
    assert "nothing to stop" in await world.result(run)


async def test_only_the_device_that_was_called_can_answer_a_call(world: RunWorld) -> None:
    run, invoke = await start_a_focus(world, "stop")
    forged = tool_result(world.head("pomodoro"), {"outcome": "interrupted"}, call_id=invoke.key, sequence=1)
    with pytest.raises(Forbidden):
        await world.device_speaks(forged, reply_to=invoke.id, actor=Actor("operator", "mallory"))
    await world.device_speaks(forged, reply_to=invoke.id, actor=Actor("runtime", "other"))
    await world.clock.advance(2)
    assert (await world.run(run)).phase is RunPhase.WAITING_INPUT
    await world.answer(invoke, 1, {"outcome": "nothing_to_interrupt"})
    await world.reach(run, RunPhase.SUCCEEDED)
    assert "nothing to stop" in await world.result(run)


async def test_without_an_inventory_the_device_is_asked_and_waited_for(world: RunWorld) -> None:
    await world.connect_device()
    await world.start_engine()
    run = await world.submit("stop", tools=TOOLS)
    await world.clock.advance(0.5)
    (request,) = [m for m in await world.in_root("envelope") if m.target == DEVICE]
    assert envelope(request)["type"] == "lineup.runtime.inventory"
    await world.publish()
    invoke = await world.next_invoke()
    await world.answer(invoke, 1, {"outcome": "nothing_to_interrupt"})
    await world.reach(run, RunPhase.SUCCEEDED)


async def test_without_any_device_the_run_says_so(world: RunWorld) -> None:
    await world.start_engine()
    run = await world.submit("stop", tools=TOOLS)
    await world.reach(run, RunPhase.SUCCEEDED)
    assert "no tools that I can use" in await world.result(run)


async def test_stop_takes_back_a_call_that_has_not_started_and_leaves_a_cancelled_result(
    world: RunWorld,
) -> None:
    run, invoke = await start_a_focus(world)
    await world.receipt(invoke, Stage.STARTING, 1)
    await world.runs.cancel(run.id)
    assert (await world.run(run)).phase is RunPhase.CANCELLED
    cancel = (await world.in_root("envelope"))[-1]
    assert envelope(cancel)["type"] == "lineup.tool.cancel"
    assert envelope(cancel)["correlation"]["call_id"] == f"{run.id}/1.0"
    (entry,) = [e for e in await world.runs.ledger(run.id, after=0, limit=99) if e.type == "tool.result"]
    assert entry.facts["outcome"] == "cancelled"
    block = next(b for b in (await world.message(run.message_id)).content["blocks"] if b["type"] == "tool")
    assert block["state"] == "cancelled"


async def test_stop_leaves_a_started_operation_alone(world: RunWorld) -> None:
    run, invoke = await start_a_focus(world)
    await world.kill_engine()
    await world.receipt(invoke, Stage.STARTED, 1, duration_ms=60_000)
    await world.runs.cancel(run.id)
    await world.outlive_leases()
    await world.runs.end_due(10)
    assert (await world.run(run)).phase is RunPhase.CANCELLED
    assert [m for m in await world.in_root("envelope") if envelope(m)["type"] == "lineup.tool.cancel"] == []
    (entry,) = [e for e in await world.runs.ledger(run.id, after=0, limit=99) if e.type == "tool.result"]
    assert entry.facts["outcome"] == "started"


async def answer_question(world: RunWorld, value: str | None) -> str:
    """Answer, or dismiss with None, the open question of the root conversation; returns its text."""
    question = (await world.in_root("question"))[-1]
    reply = Reply(USER, question.id, value)
    ctx = world.commits.ctx
    await world.commits.write(lambda tx: answer_in(tx, ctx, question.id, reply, world.ids.make("msg")))
    return question.content["blocks"][0]["text"]


@pytest.mark.parametrize("how", ["stopped", "stopped while held", "overdue", "failed"])
async def test_the_end_of_a_run_closes_the_question_that_it_asked(world: RunWorld, how: str) -> None:
    await world.start_engine()
    run = await world.submit("/ask tea or coffee?|tea|coffee", tools=["human"], timeout_ms=60_000)
    await world.reach(run, RunPhase.WAITING_INPUT)
    (question,) = await world.in_root("question")
    ctx = world.commits.ctx
    if how == "stopped":
        await world.runs.cancel(run.id)
    elif how == "overdue":
        await world.clock.advance(61)
    else:
        await world.commits.write(lambda tx: tx.run("UPDATE harness_runs SET runnable = 1"))
        (claim,) = await world.runs.claim("other", 1, 60_000)
        event = RunEvent.FAIL if how == "failed" else RunEvent.CANCEL
        await world.runs.cancel(run.id) if event is RunEvent.CANCEL else None
        error = {"code": "internal", "message": "broken"} if event is RunEvent.FAIL else None
        change = RunChange(finish=Finish(event, error=error))
        await world.runs.write(claim.lease, change, label="")
    ended = (await world.run(run)).phase
    assert ended is {"failed": RunPhase.FAILED, "overdue": RunPhase.TIMED_OUT}.get(how, RunPhase.CANCELLED)
    now = await world.commits.get_question(question.id)
    card = (await world.message(question.id)).content["blocks"][0]
    expected = ("timeout", None) if how == "overdue" else ("failure", f"run_{ended}")
    assert (now.question.state, now.question.reason) == expected
    assert card["state"] == expected[0]
    assert not (await world.run(run)).runnable
    with pytest.raises(LoopError) as late:
        reply = Reply(USER, question.id, "tea")
        await world.commits.write(lambda tx: answer_in(tx, ctx, question.id, reply, "msg_late"))
    assert late.value.code is ErrorCode.ANSWER_CONFLICT


async def test_a_missing_parameter_is_asked_for_and_the_answer_used(world: RunWorld) -> None:
    await world.connect_device()
    await world.publish()
    await world.start_engine()
    run = await world.submit("start a focus called tea", tools=TOOLS)
    await world.reach(run, RunPhase.WAITING_INPUT)
    assert "1 to 180" in await answer_question(world, "500")
    await world.clock.settle()
    assert "180" in await answer_question(world, "half an hour")
    invoke = await world.next_invoke()
    assert envelope(invoke)["payload"]["params"] == {"minutes": 30, "label": "tea"}
    await world.receipt(invoke, Stage.STARTED, 1, duration_ms=1_800_000)
    await world.reach(run, RunPhase.SUCCEEDED)


@pytest.mark.parametrize(
    ("command", "value", "words"),
    [
        ("/ask tea or coffee?|tea|coffee", "tea", "You answered: tea."),
        ("/ask tea or coffee?|tea|coffee", None, "You dismissed the question."),
        ("/confirm brew it?", "accepted", "You answered: accepted."),
        ("/confirm brew it?", "declined", "You answered: declined."),
    ],
)
async def test_a_question_of_a_run_goes_to_the_person_and_its_outcome_back(
    world: RunWorld, command: str, value: str | None, words: str
) -> None:
    await world.start_engine()
    run = await world.submit(command, tools=["human"])
    await world.reach(run, RunPhase.WAITING_INPUT)
    (question,) = await world.in_root("question")
    assert (question.actor, question.target) == (ASSISTANT, USER)
    await answer_question(world, value)
    await world.reach(run, RunPhase.SUCCEEDED)
    assert words in await world.result(run)


async def test_a_tool_can_be_called_by_name_and_bad_arguments_never_leave_the_engine(world: RunWorld) -> None:
    await world.connect_device()
    await world.publish()
    await world.start_engine()
    bad = await world.submit('/tool pomodoro.start {"minutes": 999}', tools=TOOLS)
    await world.reach(bad, RunPhase.SUCCEEDED)
    assert "invalid_arguments" in await world.result(bad)
    assert await world.invokes() == []
    good = await world.submit('/tool pomodoro.start {"minutes": 9}', key="k2", tools=TOOLS)
    invoke = await world.next_invoke()
    assert envelope(invoke)["payload"]["params"] == {"minutes": 9}
    await world.answer(invoke, 1, {"outcome": "not_started", "reason": "person_left"})
    await world.reach(good, RunPhase.SUCCEEDED)
