"""The assistant as a person meets it: words, timers, stop, crashes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.interaction.assistant.assistant_world import ASSISTANT, AssistantWorld, assistant_world

from lineloop.operators.assistant import assistant_operator
from lineloop.protocol.envelopes import Stage
from lineloop.protocol.messages import Message, MessageStatus


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[AssistantWorld]:
    async with assistant_world(tmp_path) as made:
        yield made


def reply_keys(messages: list[Message]) -> list[tuple[str, str | None]]:
    return [(message.key, message.reply_to_id) for message in messages]


async def test_a_greeting_gets_one_answer_in_the_conversation_that_says_what_is_speaking(
    world: AssistantWorld,
) -> None:
    said = await world.say("hello")
    (answer,) = await world.answered(1)
    assert reply_keys([answer]) == [(f"{said.id}/answer", said.id)]
    assert (answer.target, answer.status) == (said.actor, MessageStatus.COMPLETED)
    assert "demo, not AI" in answer.text
    assert answer.content["meta"]["harness"]["label"] == "demo, not AI"


async def test_the_end_of_a_run_wakes_the_assistant_without_any_time_passing(world: AssistantWorld) -> None:
    await world.publish()
    await world.say("hello")
    before = world.world.clock.now_ms()
    for _ in range(50):
        await world.world.settled()
        if await world.answers():
            break
    assert len(await world.answers()) == 1
    assert world.world.clock.now_ms() == before


async def test_the_label_is_short_once_it_has_been_explained(world: AssistantWorld) -> None:
    await world.say("hello")
    await world.answered(1)
    await world.say("hello")
    first, second = await world.answered(2)
    assert "I match your words" in first.text
    assert "I match your words" not in second.text
    assert "demo, not AI" in second.text


async def test_words_about_a_running_timer_come_after_started(world: AssistantWorld) -> None:
    await world.publish()
    await world.say("start a 1 minute focus called tea")
    invoke = await world.next_invoke()
    await world.receipt(invoke, Stage.STARTING, 1)
    await world.world.clock.advance(3)
    assert await world.answers() == []
    started = await world.receipt(
        invoke, Stage.STARTED, 2, duration_ms=60_000, ends_at="2026-01-02T03:05:05.000Z"
    )
    (answer,) = await world.answered(1)
    assert 'Started: Pomodoro "tea", 1 min; it is running' in answer.text
    assert answer.ordinal > started.ordinal


@pytest.mark.parametrize(
    ("start", "stop", "told"),
    [
        ("start a 1 minute focus called tea", "stop", "stopped after 12 s"),
        ("现在开始 20 分钟的冥想，帮我计时", "停止", "共 12 秒"),
    ],
)
async def test_a_person_stops_a_running_timer_and_reads_how_it_ended_once(
    world: AssistantWorld, start: str, stop: str, told: str
) -> None:
    await world.publish()
    said, invoke = await world.start_focus(start)
    await world.answered(1)
    stopping = await world.say(stop)
    interrupt = await world.next_invoke()
    label = {"label": "tea"} if "tea" in start else {}
    why = {"reason": "interrupted_by_agent"}
    await world.result(invoke, 3, outcome="interrupted", elapsed_ms=12_000, **why, **label)
    await world.result(interrupt, 1, outcome="interrupted", elapsed_ms=12_000)
    answers = await world.answered(2)
    assert [a.key for a in answers] == [f"{said.id}/answer", f"{stopping.id}/answer"]
    assert told in answers[1].text
    await world.world.clock.advance(20)
    assert len(await world.answers()) == 2


async def test_a_timer_that_ends_because_the_person_left_is_told_of(world: AssistantWorld) -> None:
    await world.publish()
    said, invoke = await world.start_focus("start a 1 minute focus called tea")
    await world.answered(1)
    await world.result(invoke, 3, outcome="interrupted", elapsed_ms=12_000, label="tea", reason="left")
    answers = await world.answered(2)
    assert answers[1].text.startswith('Pomodoro "tea" was interrupted after 12 s')
    assert answers[1].reply_to_id == said.id


async def test_a_completed_timer_is_told_although_nobody_asks(world: AssistantWorld) -> None:
    await world.publish()
    said, invoke = await world.start_focus()
    await world.answered(1)
    await world.world.clock.advance(60)
    await world.result(invoke, 3, outcome="completed", label="tea", elapsed_ms=60_000)
    _, ended = await world.answered(2)
    assert ended.text == 'Pomodoro "tea" is complete after 1 min.'
    assert (ended.reply_to_id, ended.target) == (said.id, said.actor)


async def test_stop_is_heard_while_the_timer_still_starts(world: AssistantWorld) -> None:
    await world.publish()
    starting = await world.say("start a 1 minute focus called tea")
    invoke = await world.next_invoke()
    await world.receipt(invoke, Stage.STARTING, 1)
    stopping = await world.say("stop")
    interrupt = await world.next_invoke()
    await world.result(interrupt, 1, outcome="cancelled")
    (first,) = await world.answered(1)
    assert first.key == f"{stopping.id}/answer"
    await world.result(invoke, 2, outcome="not_started", reason="cancelled")
    answers = await world.answered(2)
    assert answers[1].key == f"{starting.id}/answer"
    assert "did not start" in answers[1].text
    await world.world.clock.advance(20)
    assert len(await world.answers()) == 2


async def test_a_failed_run_is_one_failed_message_with_its_public_reason(world: AssistantWorld) -> None:
    await world.say("/fail the kettle is empty")
    (answer,) = await world.answered(1)
    assert answer.status is MessageStatus.FAILED
    assert answer.content["meta"]["error"] == {"code": "run_failed", "message": "the kettle is empty"}
    assert answer.text == "the kettle is empty"


async def test_a_json_result_is_answered_as_json(world: AssistantWorld) -> None:
    await world.say('/json {"tea": [1, 2]}')
    (answer,) = await world.answered(1)
    assert answer.text == '{"tea":[1,2]}'


async def test_a_waiting_question_delays_no_other_input(world: AssistantWorld) -> None:
    asked = await world.say("/ask tea or coffee?|tea|coffee")
    await world.world.clock.advance(2)
    await world.say("hello")
    await world.answered(1)
    (question,) = await world.history("question")
    await _answer(world, question.id, "tea")
    answers = await world.answered(2)
    assert answers[1].key == f"{asked.id}/answer"
    assert "You answered: tea." in answers[1].text


async def _answer(world: AssistantWorld, question_id: str, value: str) -> None:
    answer = await world.world.server.http.post(
        f"/v1/questions/{question_id}/answer", json={"reply_to_id": question_id, "value": value}
    )
    assert answer.status_code == 200, answer.text


async def test_full_slots_delay_an_answer_and_never_lose_it(tmp_path: Path) -> None:
    async with assistant_world(tmp_path, run_slots=1) as world:
        await world.say("/slow 5")
        await world.say("hello")
        answers = await world.answered(2)
        assert answers[0].text.startswith("1 2 3 4 5.")
        assert answers[1].text.startswith("Hello!")


async def test_an_assistant_that_is_replaced_at_any_time_says_nothing_twice(world: AssistantWorld) -> None:
    await world.publish()
    said, invoke = await world.start_focus()
    await world.world.workers.pop().stop()
    await world.world.run(assistant_operator())
    await world.answered(1)
    await world.world.workers.pop().stop()
    await world.result(invoke, 3, outcome="completed", label="tea", elapsed_ms=60_000)
    await world.world.run(assistant_operator())
    answers = await world.answered(2)
    await world.world.workers.pop().stop()
    await world.world.run(assistant_operator())
    await world.world.clock.advance(20)
    assert [a.key for a in await world.answers()] == [a.key for a in answers]
    assert answers[0].key == f"{said.id}/answer"
    assert all(answer.actor == ASSISTANT for answer in answers)


async def test_a_restarted_server_finishes_what_was_accepted(world: AssistantWorld) -> None:
    await world.publish()
    said = await world.say("start a 1 minute focus called tea")
    invoke = await world.next_invoke()
    await world.world.server.restart()
    await world.receipt(invoke, Stage.STARTED, 1, duration_ms=60_000)
    (answer,) = await world.answered(1)
    assert answer.key == f"{said.id}/answer"
    assert "Started" in answer.text
