"""Operators at work against a real server: what wakes them, what repeats, what never happens twice."""

from __future__ import annotations

import asyncio
import runpy
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from lineloop import Operator, Result, Turn
from lineloop.kit.faults import Faults
from lineloop.protocol.actors import Actor
from lineloop.protocol.content import envelope_content
from lineloop.protocol.fault_sites import FaultSite
from lineloop.testing import clock, until
from lineloop.testing.operator_world import operator_world

EXAMPLES = Path(__file__).parents[3] / "examples"


def echo(key: str = "echo") -> Operator:
    operator = Operator(key, display_name=key.title())

    @operator.reconcile
    async def reconcile(turn: Turn) -> None:
        inbox = await turn.poll()
        for message in inbox:
            await turn.speak(f"You said: {message.text}", key=f"{message.id}/answer", reply_to=message.id)
        await turn.commit(inbox.position)

    return operator


def texts(messages: list[Any]) -> list[str]:
    return [message.text for message in messages]


async def test_a_message_is_answered_and_committed_without_time_passing(tmp_path: Path) -> None:
    operator = echo()
    async with operator_world(tmp_path, operator) as world:
        said = await world.say("hello")
        [answer] = await world.answers(1)
        assert (answer.text, answer.reply_to_id) == ("You said: hello", said.id)
        inbox = (await world.loop("operator/echo")).conversation(world.conversation_id)

        async def drained() -> bool:
            return not (await inbox.poll()).messages

        await until(drained)


async def test_the_operator_is_listed_while_it_runs(tmp_path: Path) -> None:
    async with operator_world(tmp_path, echo()) as world:
        await world.clock.advance(120.0)
        listed = await world.person.operators.list()
        assert [(one["kind"], one["key"]) for one in listed] == [("operator", "echo")]
        await world.workers[0].stop()
        await world.clock.advance(31.0)
        assert await world.person.operators.list() == []


@pytest.mark.requirement("L58")
async def test_input_that_was_left_uncommitted_wakes_the_operator_when_it_starts(tmp_path: Path) -> None:
    async with operator_world(tmp_path) as world:
        await world.say("while you were away", to="echo")
        await world.run(echo())
        assert texts(await world.answers(1)) == ["You said: while you were away"]


async def test_a_failing_turn_comes_again_and_its_cause_is_published_nowhere(tmp_path: Path) -> None:
    operator = Operator("shaky", display_name="Shaky")
    turns: list[int] = []

    @operator.reconcile
    async def reconcile(turn: Turn) -> None:
        inbox = await turn.poll()
        turns.append(len(inbox))
        if len(turns) < 3:
            raise RuntimeError("the password is hunter2")
        for message in inbox:
            await turn.speak("done", key=f"{message.id}/answer", reply_to=message.id)
        await turn.commit(inbox.position)

    async with operator_world(tmp_path, operator) as world:
        await world.say("go")
        await until(lambda: turns)
        await world.clock.advance(0.2)
        assert texts(await world.answers(1)) == ["done"]
        assert turns[:3] == [1, 1, 1]
        page = await world.person.conversation(world.conversation_id).read(purpose="all")
        assert "hunter2" not in "".join(str(message.content) for message in page.items)


async def test_a_turn_that_always_fails_is_one_line_per_retry_ever_later_and_holds_up_nobody(
    tmp_path: Path,
) -> None:
    operator = Operator("shaky", display_name="Shaky")
    healed: list[bool] = []

    @operator.reconcile
    async def reconcile(turn: Turn) -> None:
        inbox = await turn.poll()
        for message in inbox:
            if message.text == "poison" and not healed:
                raise RuntimeError("the password is hunter2")
            await turn.speak(f"done: {message.text}", key=f"{message.id}/answer", reply_to=message.id)
        await turn.commit(inbox.position)

    async with operator_world(tmp_path, operator) as world:
        elsewhere = await world.server.conversation("elsewhere")
        with capture_logs() as logged:
            await world.say("poison")
            await world.clock.advance(30)
            await world.say("hello", conversation_id=elsewhere)
            assert texts(await world.answers(1, conversation_id=elsewhere)) == ["done: hello"]
        failed = [entry for entry in logged if entry["event"] == "reconcile_failed"]
        assert [entry["failures"] for entry in failed] == list(range(1, len(failed) + 1))
        assert failed[-1]["retry_seconds"] > 5 > failed[0]["retry_seconds"]
        assert {entry["error"] for entry in failed} == {"RuntimeError"}
        assert "test_worker.py" in failed[0]["at"]
        assert all("hunter2" not in str(entry) and "exc_info" not in entry for entry in failed)
        traced = [entry for entry in logged if "exc_info" in entry]
        assert [(entry["event"], entry["log_level"]) for entry in traced] == [
            ("reconcile_traceback", "debug")
        ]
        healed.append(True)
        await world.clock.advance(120)
        assert texts(await world.answers(1)) == ["done: poison"]


async def test_conversations_run_side_by_side_and_one_conversation_never_twice_at_once(
    tmp_path: Path,
) -> None:
    operator = Operator("slow", display_name="Slow")
    running: dict[str, int] = {}
    most: dict[str, int] = {"together": 0, "same": 0}
    gate = asyncio.Event()

    @operator.reconcile
    async def reconcile(turn: Turn) -> None:
        place = turn.conversation.id
        running[place] = running.get(place, 0) + 1
        most["together"] = max(most["together"], sum(running.values()))
        most["same"] = max(most["same"], running[place])
        inbox = await turn.poll()
        await gate.wait()
        for message in inbox:
            await turn.speak("done", key=f"{message.id}/answer", reply_to=message.id)
        await turn.commit(inbox.position)
        running[place] -= 1

    async with operator_world(tmp_path, operator) as world:
        other = (await world.person.create_conversation("other")).id
        await world.say("one")
        await world.say("two")
        await world.say("three", conversation_id=other)
        await until(lambda: most["together"] == 2)
        await world.say("four")
        gate.set()
        assert len(await world.answers(3)) == 3
        assert len(await world.answers(1, conversation_id=other)) == 1
        assert most == {"together": 2, "same": 1}


async def test_a_test_that_fails_in_the_middle_of_a_turn_ends_although_nobody_moves_its_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "_ENDS_WITHIN_SECONDS", 0.01)
    operator = Operator("stuck", display_name="Stuck")
    begun = asyncio.Event()

    @operator.reconcile
    async def reconcile(turn: Turn) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with asyncio.timeout(30):
        with pytest.raises(AssertionError, match="on purpose"):
            async with operator_world(tmp_path, operator) as world:
                await world.say("begin")
                await begun.wait()
                raise AssertionError("on purpose")


async def test_a_result_asks_for_another_turn_later(tmp_path: Path) -> None:
    operator = Operator("timer", display_name="Timer")
    turns: list[int] = []

    @operator.reconcile
    async def reconcile(turn: Turn) -> Result | None:
        inbox = await turn.poll()
        await turn.commit(inbox.position)
        turns.append(len(inbox))
        return Result(requeue_after_seconds=60.0) if inbox else None

    async with operator_world(tmp_path, operator) as world:
        await world.say("go")
        await until(lambda: 1 in turns)
        seen = len(turns)
        await world.clock.advance(61.0)
        await until(lambda: len(turns) > seen)


async def test_more_input_than_a_page_is_taken_in_further_turns(tmp_path: Path) -> None:
    operator = Operator("small", display_name="Small")

    @operator.reconcile
    async def reconcile(turn: Turn) -> None:
        inbox = await turn.poll(limit=2)
        for message in inbox:
            await turn.speak("done", key=f"{message.id}/answer", reply_to=message.id)
        await turn.commit(inbox.position)

    async with operator_world(tmp_path) as world:
        for number in range(5):
            await world.say(str(number), to="small")
        await world.run(operator)
        assert len(await world.answers(5)) == 5


async def test_stopping_lets_a_running_turn_finish_and_starts_no_new_one(tmp_path: Path) -> None:
    operator = Operator("steady", display_name="Steady")
    gate, began = asyncio.Event(), asyncio.Event()

    @operator.reconcile
    async def reconcile(turn: Turn) -> None:
        inbox = await turn.poll()
        began.set()
        await gate.wait()
        for message in inbox:
            await turn.speak("done", key=f"{message.id}/answer", reply_to=message.id)
        await turn.commit(inbox.position)

    async with operator_world(tmp_path, operator) as world:
        await world.say("one")
        await began.wait()
        stopping = asyncio.get_running_loop().create_task(world.workers[0].stop())
        await world.settled()
        await world.say("two")
        gate.set()
        await stopping
        await world.settled()
        assert texts(await world.answers(1)) == ["done"]


async def test_a_turn_that_does_not_end_is_cut_off_when_stopping(tmp_path: Path) -> None:
    operator = Operator("endless", display_name="Endless")
    cut = asyncio.Event()

    @operator.reconcile
    async def reconcile(turn: Turn) -> None:
        await turn.poll()
        try:
            await asyncio.Event().wait()
        finally:
            cut.set()

    async with operator_world(tmp_path, operator) as world:
        await world.say("one")
        await world.settled()
        stopping = asyncio.get_running_loop().create_task(world.workers[0].stop())
        await world.clock.advance(10.0)
        await stopping
        assert cut.is_set()


async def test_a_late_tool_result_wakes_the_operator_and_receipts_do_not(tmp_path: Path) -> None:
    operator = Operator("agent", display_name="Agent")
    heard: list[tuple[str, Any]] = []
    turns: list[int] = []

    @operator.reconcile
    async def reconcile(turn: Turn) -> None:
        inbox = await turn.poll()
        turns.append(len(inbox))
        heard.extend((late.call_id, late.result) for late in inbox.results)
        await turn.commit(inbox.position)

    async with operator_world(tmp_path, operator) as world:
        await world.say("start the timer")
        await until(lambda: turns)
        await world.settled()
        before = len(turns)
        device = await world.loop("runtime/laptop")
        await world.say("hello", to=Actor("runtime", "laptop"))
        agent = await world.loop("operator/agent")
        invoke = await agent.conversation(world.conversation_id).speak(
            envelope("lineup.tool.invoke", {}), key="call-1", target=Actor("runtime", "laptop")
        )
        replies = device.conversation(world.conversation_id)

        async def reply(kind: str, payload: dict[str, Any], key: str) -> None:
            await replies.speak(envelope(kind, payload), key=key, target=operator.actor, reply_to=invoke.id)

        await reply("lineup.tool.progress", {"stage": "started"}, "r1")
        await world.settled()
        assert len(turns) == before
        await reply("lineup.tool.result", {"result": {"finished": True}}, "r2")
        await until(lambda: heard)
        assert heard == [("call-1", {"finished": True})]


def envelope(kind: str, payload: dict[str, Any]) -> dict[str, Any]:
    return envelope_content({"type": kind, "payload": payload, "correlation": {"call_id": "call-1"}})


async def test_an_error_between_speak_and_commit_answers_nothing_twice(tmp_path: Path) -> None:
    async with operator_world(tmp_path) as world:
        faults = Faults(FaultSite, "operator.turn.commit.before:raise")
        await world.run(echo(), faults=faults)
        await world.say("one")
        await until(lambda: faults.reached[FaultSite.OPERATOR_TURN_COMMIT_BEFORE] == 1)
        await world.clock.advance(0.2)
        await world.say("two")
        assert texts(await world.answers(2)) == ["You said: one", "You said: two"]


async def test_the_operator_goes_on_after_the_server_restarts(tmp_path: Path) -> None:
    async with operator_world(tmp_path, echo()) as world:
        await world.say("one")
        await world.answers(1)
        await world.server.restart()
        await world.say("two")
        await world.clock.advance(2.0)
        assert texts(await world.answers(2)) == ["You said: one", "You said: two"]


async def test_the_counter_example_streams_once_and_the_counting_survives_an_interruption(
    tmp_path: Path,
) -> None:
    operator = runpy.run_path(str(EXAMPLES / "counter.py"))["operator"]
    async with operator_world(tmp_path, operator) as world:
        await world.say("count to 5, please")
        await world.say("no number here")
        counted, failed = sorted(await world.answers(2), key=lambda message: message.ordinal)
        assert counted.text.split() == ["1", "2", "3", "4", "5"]
        assert failed.status == "failed"
        assert failed.content["meta"]["error"]["code"] == "no_number"


async def test_the_approval_example_asks_confirms_and_answers(tmp_path: Path) -> None:
    operator = runpy.run_path(str(EXAMPLES / "approval.py"))["operator"]
    async with operator_world(tmp_path, operator) as world:
        said = await world.say("the usual")

        async def answer(number: int, value: str) -> None:
            question = (await world.answers(number))[-1]
            await world.person.request(
                "POST",
                f"/v1/questions/{question.id}/answer",
                json={"reply_to_id": question.id, "value": value},
            )

        await answer(1, "coffee")
        await answer(2, "accepted")
        summary = (await world.answers(3))[-1]
        assert (summary.text, summary.reply_to_id) == ("One coffee, coming up.", said.id)


async def test_the_echo_example_is_the_ten_lines_of_the_documentation(tmp_path: Path) -> None:
    operator = runpy.run_path(str(EXAMPLES / "echo.py"))["operator"]
    async with operator_world(tmp_path, operator) as world:
        await world.say("hi")
        assert texts(await world.answers(1)) == ["You said: hi"]


def test_examples_are_short() -> None:
    for example in EXAMPLES.glob("*.py"):
        assert len(example.read_text().splitlines()) < 150, example.name
