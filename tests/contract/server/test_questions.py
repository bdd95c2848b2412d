"""Questions to people."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from tests.contract.server.calls import Json, get, history, poll, wire

from lineloop.kit.faults import Faults
from lineloop.testing.server_world import ServerWorld

ASK: Json = {
    "kind": "ask",
    "effect_key": "colour",
    "to": wire("user/local"),
    "text": "Which colour?",
    "choices": [{"value": "r", "label": "Red"}, {"value": "g", "label": "Green"}],
    "timeout_ms": 60_000,
}
CONFIRM: Json = {
    "kind": "confirm",
    "effect_key": "sure",
    "to": wire("user/local"),
    "text": "Sure?",
    "labels": {"accepted": "Do it"},
    "timeout_ms": 60_000,
}


async def ask(
    client: httpx.AsyncClient, conversation: str, body: Json = ASK, status: int = 201, **fields: Any
) -> Json:
    answer = await client.post(f"/v1/conversations/{conversation}/questions", json={**body, **fields})
    assert answer.status_code == status, answer.text
    return answer.json()


async def reply(client: httpx.AsyncClient, question: str, status: int = 200, **fields: Any) -> Json:
    body = {"reply_to_id": question, **fields}
    answer = await client.post(f"/v1/questions/{question}/answer", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


@pytest.fixture
async def conversation(world: ServerWorld) -> str:
    """With the one who asks in it."""
    conversation = await world.conversation()
    await world.invite(conversation, "operator/echo")
    return conversation


@pytest.fixture
async def echo(world: ServerWorld) -> httpx.AsyncClient:
    return await world.actor("operator/echo")


async def test_an_answer_closes_the_question_and_is_a_message_to_the_asker(
    world: ServerWorld, conversation: str, echo: httpx.AsyncClient
) -> None:
    question = await ask(echo, conversation)
    assert (question["state"], question["id"]) == ("pending", question["message_id"])
    answered = await reply(world.http, question["id"], value="g")
    assert (answered["question"]["state"], answered["question"]["value"]) == ("success", "g")
    message = answered["answer"]
    assert (message["purpose"], message["reply_to_id"]) == ("answer", question["id"])
    assert message["target"] == wire("operator/echo")
    assert await get(echo, f"/questions/{question['id']}") == answered["question"]
    assert [m["id"] for m in (await poll(echo, conversation))["messages"]] == [message["id"]]
    card = (await get(echo, f"/messages/{question['id']}"))["content"]["blocks"][0]
    assert (card["type"], card["state"], card["value"]) == ("ask", "success", "g")
    assert message["content"]["blocks"][0]["label"] == "Green"


async def test_the_same_effect_key_asks_once_and_keeps_its_deadline(
    world: ServerWorld, conversation: str, echo: httpx.AsyncClient
) -> None:
    first = await ask(echo, conversation)
    await world.advance(10)
    assert await ask(echo, conversation, status=200) == first
    refused = await ask(echo, conversation, timeout_ms=61_000, status=409)
    assert refused["code"] == "question_conflict"
    await reply(world.http, first["id"], value="r")
    assert (await ask(echo, conversation, status=200))["value"] == "r"
    assert (await ask(echo, conversation, effect_key="another"))["state"] == "pending"


async def test_the_same_answer_repeats_and_another_one_conflicts(
    world: ServerWorld, conversation: str, echo: httpx.AsyncClient
) -> None:
    question = await ask(echo, conversation)
    first = await reply(world.http, question["id"], value="r")
    assert await reply(world.http, question["id"], value="r") == first
    refused = await reply(world.http, question["id"], value="g", status=409)
    assert (refused["code"], refused["context"]) == ("answer_conflict", {"state": "success", "value": "r"})
    refused = await reply(world.http, question["id"], dismiss=True, status=409)
    assert refused["code"] == "answer_conflict"


async def test_only_the_named_person_answers_and_only_what_was_offered(
    world: ServerWorld, conversation: str, echo: httpx.AsyncClient
) -> None:
    question = await ask(echo, conversation)
    ann = await world.actor("user/ann")
    assert (await reply(echo, question["id"], value="r", status=403))["code"] == "forbidden"
    assert (await reply(ann, question["id"], value="r", status=404))["code"] == "question_not_found"
    assert (await reply(world.http, "msg_none", value="r", status=404))["code"] == "question_not_found"
    assert (await reply(world.http, question["id"], value="x", status=422))["code"] == "answer_invalid"
    refused = await world.http.post(f"/v1/questions/{question['id']}/answer", json={"value": "r"})
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")
    wrong = {"reply_to_id": "msg_other", "value": "r"}
    refused = await world.http.post(f"/v1/questions/{question['id']}/answer", json=wrong)
    assert refused.status_code == 422
    assert (await get(echo, f"/questions/{question['id']}"))["state"] == "pending"


async def test_free_text_is_taken_where_it_is_allowed(
    world: ServerWorld, conversation: str, echo: httpx.AsyncClient
) -> None:
    question = await ask(echo, conversation, choices=[], allow_other=True)
    answered = await reply(world.http, question["id"], value="turquoise")
    assert answered["question"]["value"] == "turquoise"


async def test_a_dismissal_is_an_answer_without_a_value(
    world: ServerWorld, conversation: str, echo: httpx.AsyncClient
) -> None:
    question = await ask(echo, conversation)
    answered = await reply(world.http, question["id"], dismiss=True)
    assert (answered["question"]["state"], answered["question"]["value"]) == ("dismissed", None)
    assert answered["answer"]["content"]["blocks"][0]["dismissed"] is True


async def test_declining_a_confirm_is_a_success(
    world: ServerWorld, conversation: str, echo: httpx.AsyncClient
) -> None:
    question = await ask(echo, conversation, CONFIRM)
    answered = await reply(world.http, question["id"], value="declined")
    assert (answered["question"]["state"], answered["question"]["value"]) == ("success", "declined")


async def test_a_question_times_out_at_its_deadline_and_late_answers_are_refused(
    world: ServerWorld, conversation: str, echo: httpx.AsyncClient
) -> None:
    question = await ask(echo, conversation, timeout_ms=1_500)
    await world.advance(1.4)
    assert (await get(echo, f"/questions/{question['id']}"))["state"] == "pending"
    await world.advance(0.1)
    card = (await get(echo, f"/messages/{question['id']}"))["content"]["blocks"][0]
    assert card["state"] == "timeout"
    refused = await reply(world.http, question["id"], value="r", status=409)
    assert (refused["code"], refused["context"]["state"]) == ("answer_conflict", "timeout")
    assert [m["purpose"] for m in await history(echo, conversation)] == ["question"]


async def test_a_question_that_ran_out_while_the_server_was_down_closes_at_start(
    world: ServerWorld, conversation: str, echo: httpx.AsyncClient
) -> None:
    question = await ask(echo, conversation, timeout_ms=5_000)
    world.clock.jump(10)
    await world.restart()
    await world.clock.settle()
    card = (await get(echo, f"/messages/{question['id']}"))["content"]["blocks"][0]
    assert card["state"] == "timeout"


async def test_a_late_answer_commits_the_timeout_that_nobody_had_noticed(
    world: ServerWorld, conversation: str, echo: httpx.AsyncClient
) -> None:
    question = await ask(echo, conversation, timeout_ms=5_000)
    world.clock.jump(10)
    refused = await reply(world.http, question["id"], value="r", status=409)
    assert refused["context"]["state"] == "timeout"
    assert (await get(echo, f"/questions/{question['id']}"))["state"] == "timeout"


async def test_waiting_returns_as_soon_as_the_answer_is_there(
    world: ServerWorld, conversation: str, echo: httpx.AsyncClient
) -> None:
    question = await ask(echo, conversation)
    waiting = asyncio.gather(get(echo, f"/questions/{question['id']}", wait_ms=30_000))
    await world.clock.settle()
    assert not waiting.done()
    await reply(world.http, question["id"], value="r")
    (seen,) = await waiting
    assert (seen["state"], seen["value"]) == ("success", "r")


async def test_a_wait_that_ends_leaves_the_question_pending(
    world: ServerWorld, conversation: str, echo: httpx.AsyncClient
) -> None:
    question = await ask(echo, conversation)
    waiting = asyncio.gather(get(echo, f"/questions/{question['id']}", wait_ms=2_000))
    await world.advance(2.0)
    (seen,) = await waiting
    assert seen["state"] == "pending"
    await reply(world.http, question["id"], value="r")


@pytest.mark.parametrize("site", ["server.answer.before_commit", "server.answer.after_commit"])
@pytest.mark.parametrize("mode", ["raise", "lost_ack", "duplicate"])
async def test_an_answer_is_stored_once_whatever_breaks(
    world: ServerWorld, conversation: str, echo: httpx.AsyncClient, site: str, mode: str
) -> None:
    question = await ask(echo, conversation)
    await world.restart(faults=Faults([site], f"{site}:{mode}"))
    body = {"reply_to_id": question["id"], "value": "r"}
    await world.http.post(f"/v1/questions/{question['id']}/answer", json=body)
    answered = await reply(world.http, question["id"], value="r")
    assert answered["question"]["value"] == "r"
    assert [m["purpose"] for m in await history(echo, conversation)] == ["question", "answer"]
    assert world.faults.reached[site] >= 1


@pytest.mark.parametrize(
    "change",
    [
        {"choices": []},
        {"choices": [{"value": "a", "label": "A"}, {"value": "a", "label": "B"}]},
        {"to": wire("operator/echo")},
        {"timeout_ms": 0},
        {"text": "  "},
    ],
)
async def test_questions_that_nobody_could_answer_are_refused(
    world: ServerWorld, conversation: str, echo: httpx.AsyncClient, change: Json
) -> None:
    refused = await ask(echo, conversation, **change, status=422)
    assert refused["code"] == "invalid_request"
    assert await history(world.http, conversation) == []
