"""Questions to people, scenario by scenario: who may answer what, what is stored, and what outlives whom."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from tests.contract.server.calls import Json, get, history, open_stream, poll, speak, wire
from tests.contract.server.stream_reader import viewer
from tests.contract.server.test_questions import CONFIRM, ask, reply

from lineloop.testing.server_world import ServerWorld


@pytest.fixture
async def conversation(world: ServerWorld) -> str:
    conversation = await world.conversation()
    await world.invite(conversation, "operator/echo")
    return conversation


@pytest.fixture
async def echo(world: ServerWorld) -> httpx.AsyncClient:
    return await world.actor("operator/echo")


async def card(client: httpx.AsyncClient, message_id: str) -> Json:
    return (await get(client, f"/messages/{message_id}"))["content"]["blocks"][0]


@pytest.mark.requirement("L63")
async def test_an_answer_is_checked_for_person_place_reference_and_value_and_leaves_no_trace_when_refused(
    world: ServerWorld, conversation: str, echo: httpx.AsyncClient
) -> None:
    question = await ask(echo, conversation)
    await world.invite(conversation, "user/ben")
    ben = await world.actor("user/ben")
    ann = await world.actor("user/ann")
    path = f"/v1/questions/{question['id']}/answer"
    cases: list[tuple[httpx.AsyncClient, str, Json, int, str]] = [
        (ben, path, {"reply_to_id": question["id"], "value": "r"}, 403, "forbidden"),
        (echo, path, {"reply_to_id": question["id"], "value": "r"}, 403, "forbidden"),
        (ann, path, {"reply_to_id": question["id"], "value": "r"}, 404, "question_not_found"),
        (
            world.http,
            "/v1/questions/msg_0/answer",
            {"reply_to_id": "msg_0", "value": "r"},
            404,
            "question_not_found",
        ),
        (world.http, path, {"reply_to_id": question["id"], "value": "blue"}, 422, "answer_invalid"),
        (world.http, path, {"reply_to_id": question["id"], "value": ""}, 422, "invalid_request"),
        (world.http, path, {"reply_to_id": "msg_other", "value": "r"}, 422, "invalid_request"),
        (world.http, path, {"value": "r"}, 422, "invalid_request"),
        (world.http, path, {"reply_to_id": question["id"]}, 422, "invalid_request"),
        (
            world.http,
            path,
            {"reply_to_id": question["id"], "value": "r", "dismiss": True},
            422,
            "invalid_request",
        ),
    ]
    for client, address, body, status, code in cases:
        refused = await client.post(address, json=body)
        assert (refused.status_code, refused.json()["code"]) == (status, code), body
    assert (await get(echo, f"/questions/{question['id']}"))["state"] == "pending"
    assert [m["purpose"] for m in await history(world.http, conversation)] == ["question"]


@pytest.mark.requirement("L64")
async def test_of_answers_at_the_same_time_one_wins_and_the_others_are_told_which(
    world: ServerWorld, conversation: str, echo: httpx.AsyncClient
) -> None:
    question = await ask(echo, conversation)
    path = f"/v1/questions/{question['id']}/answer"
    bodies: list[Json] = [{"reply_to_id": question["id"], "value": value} for value in ("r", "g") * 4]
    bodies += [{"reply_to_id": question["id"], "dismiss": True}] * 2
    answers = await asyncio.gather(*(world.http.post(path, json=body) for body in bodies))
    final = await get(echo, f"/questions/{question['id']}")
    won = [answer.json() for answer in answers if answer.status_code == 200]
    lost = [answer.json() for answer in answers if answer.status_code == 409]
    assert len(won) + len(lost) == len(bodies)
    assert {one["answer"]["id"] for one in won} == {won[0]["answer"]["id"]}
    assert all(one["question"] == final for one in won)
    stored = {"state": final["state"], "value": final["value"]}
    assert all(one["code"] == "answer_conflict" and one["context"] == stored for one in lost)
    assert [m["purpose"] for m in await history(echo, conversation)] == ["question", "answer"]


@pytest.mark.requirement("L65", "L66")
async def test_a_question_is_asked_once_and_answered_ones_do_not_stand_in_the_way_of_new_ones(
    world: ServerWorld, conversation: str, echo: httpx.AsyncClient
) -> None:
    questions = await asyncio.gather(*(ask(echo, conversation, effect_key=f"q{n}") for n in range(5)))
    assert len({question["id"] for question in questions}) == 5
    again = await asyncio.gather(*(ask(echo, conversation, status=200, effect_key=f"q{n}") for n in range(5)))
    assert again == questions
    await reply(world.http, questions[3]["id"], value="g")
    states = [(await get(echo, f"/questions/{question['id']}"))["state"] for question in questions]
    assert states == ["pending", "pending", "pending", "success", "pending"]
    answered = await ask(echo, conversation, status=200, effect_key="q3")
    assert (answered["value"], answered["deadline_at"]) == ("g", questions[3]["deadline_at"])
    changes: list[Json] = [
        {"timeout_ms": 60_001},
        {"text": "Which one?"},
        {"allow_other": True},
        {"choices": [{"value": "r", "label": "Red"}]},
    ]
    for change in changes:
        refused = await ask(echo, conversation, status=409, effect_key="q3", **change)
        assert refused["code"] == "question_conflict"
    assert (await ask(echo, conversation, effect_key="q6"))["state"] == "pending"


@pytest.mark.requirement("L68", "L77")
async def test_a_dismissal_selects_nothing_and_an_answer_carries_the_question_as_it_was_asked(
    world: ServerWorld, conversation: str, echo: httpx.AsyncClient
) -> None:
    dismissed, answered = [await ask(echo, conversation, effect_key=key) for key in ("one", "two")]
    nothing = await reply(world.http, dismissed["id"], dismiss=True)
    assert (nothing["question"]["state"], nothing["question"]["value"]) == ("dismissed", None)
    assert (await card(echo, dismissed["id"]))["value"] is None
    block = nothing["answer"]["content"]["blocks"][0]
    assert (block["dismissed"], block["value"], block["label"]) == (True, None, None)

    forged = {"reply_to_id": answered["id"], "value": "g", "label": "Purple", "question": "Really?"}
    refused = await world.http.post(f"/v1/questions/{answered['id']}/answer", json=forged)
    assert refused.status_code == 422
    taken = (await reply(world.http, answered["id"], value="g"))["answer"]["content"]["blocks"][0]
    assert (taken["question"], taken["label"], taken["value"]) == ("Which colour?", "Green", "g")
    assert taken["choices"] == [{"value": "r", "label": "Red"}, {"value": "g", "label": "Green"}]
    assert (await card(echo, answered["id"]))["value"] == "g"


@pytest.mark.requirement("L77")
@pytest.mark.parametrize("kind", ["ask", "confirm", "human_reply"])
async def test_cards_of_questions_and_replies_come_from_the_server_alone(
    world: ServerWorld, conversation: str, echo: httpx.AsyncClient, kind: str
) -> None:
    forged = {"id": "b", "type": kind, "value": "r", "state": "success"}
    content = {"version": "1.1", "biz": "chat", "meta": {}, "blocks": [forged]}
    for client in (echo, world.http):
        refused = await speak(client, conversation, "forged", content=content, status=422)
        assert refused["code"] == "block_protected"
    stream = await open_stream(echo, conversation)
    patches = {"patches": [{"op": "set", "seq": 1, "block": forged}]}
    refused = await echo.post(f"/v1/messages/{stream['id']}/patches", json=patches)
    assert refused.status_code == 422
    question = await ask(echo, conversation)
    patches = {"patches": [{"op": "set", "seq": 1, "block": {"id": "question", "state": "success"}}]}
    refused = await echo.post(f"/v1/messages/{question['id']}/patches", json=patches)
    assert refused.status_code == 409
    assert (await get(echo, f"/questions/{question['id']}"))["state"] == "pending"


@pytest.mark.requirement("L70")
async def test_questions_answers_and_wakes_outlive_the_server(
    world: ServerWorld, conversation: str, echo: httpx.AsyncClient
) -> None:
    open_, closed = [await ask(echo, conversation, effect_key=key) for key in ("one", "two")]
    answer = (await reply(world.http, closed["id"], value="r"))["answer"]
    await world.restart()
    assert await ask(echo, conversation, status=200, effect_key="one") == open_
    assert (await get(echo, f"/questions/{closed['id']}"))["value"] == "r"
    inbox = await poll(echo, conversation)
    assert [message["id"] for message in inbox["messages"]] == [answer["id"]]
    path = f"/v1/conversations/{conversation}/commit"
    later = (await reply(world.http, open_["id"], value="g"))["answer"]
    # What is committed is what was read, not what has come since.
    assert (await echo.post(path, json={"position": inbox["position"]})).status_code == 204
    await world.restart()
    rest = await poll(echo, conversation)
    assert [message["id"] for message in rest["messages"]] == [later["id"]]
    assert (await echo.post(path, json={"position": rest["position"]})).status_code == 204
    await world.restart()
    assert (await poll(echo, conversation))["messages"] == []


@pytest.mark.requirement("L71")
async def test_a_custom_role_asks_without_any_task_and_is_the_one_who_is_answered(
    world: ServerWorld, conversation: str
) -> None:
    await world.invite(conversation, "operator/planner/critic")
    critic = await world.actor("operator/planner/critic")
    question = await ask(critic, conversation)
    answer = (await reply(world.http, question["id"], value="r"))["answer"]
    assert answer["target"] == {"kind": "operator/planner", "key": "critic"}
    assert [m["id"] for m in (await poll(critic, conversation))["messages"]] == [answer["id"]]


@pytest.mark.requirement("L72")
@pytest.mark.parametrize(
    ("terms", "taken", "refused"),
    [
        ({"choices": [], "allow_other": True}, ("anything at all", "r"), ("", "   ")),
        ({}, ("r", "g"), ("x", "", "R", "Red", " r")),
        ({"allow_other": True}, ("r", "something else"), ("", "  ")),
    ],
)
async def test_closed_open_and_mixed_questions_take_what_they_offer(
    world: ServerWorld,
    conversation: str,
    echo: httpx.AsyncClient,
    terms: Json,
    taken: tuple[str, ...],
    refused: tuple[str, ...],
) -> None:
    for number, value in enumerate(taken):
        question = await ask(echo, conversation, effect_key=f"q{number}", **terms)
        for wrong in refused:
            answer = await reply(world.http, question["id"], value=wrong, status=422)
            assert answer["code"] in ("answer_invalid", "invalid_request")
        assert (await reply(world.http, question["id"], value=value))["question"]["value"] == value


@pytest.mark.requirement("L72")
@pytest.mark.parametrize(
    "terms",
    [
        {"choices": [], "allow_other": False},
        {"choices": [{"value": "", "label": "Empty"}]},
        {"choices": [{"value": "a", "label": ""}]},
        {"choices": [{"value": "a", "label": "A"}, {"value": "a", "label": "B"}]},
        {"choices": [{"value": "a"}]},
        {"choices": "a"},
    ],
)
async def test_choices_are_told_apart_by_their_values_and_have_words(
    world: ServerWorld, conversation: str, echo: httpx.AsyncClient, terms: Json
) -> None:
    assert (await ask(echo, conversation, status=422, **terms))["code"] == "invalid_request"
    assert await history(world.http, conversation) == []


@pytest.mark.requirement("L74")
@pytest.mark.parametrize(("value", "label"), [("accepted", "Ship it"), ("declined", "Not yet")])
async def test_words_on_the_buttons_of_a_confirm_change_neither_value_nor_success(
    world: ServerWorld, conversation: str, echo: httpx.AsyncClient, value: str, label: str
) -> None:
    labels = {"accepted": "Ship it", "declined": "Not yet"}
    question = await ask(echo, conversation, CONFIRM, labels=labels)
    assert (await reply(world.http, question["id"], value=label, status=422))["code"] == "answer_invalid"
    answered = await reply(world.http, question["id"], value=value)
    assert (answered["question"]["state"], answered["question"]["value"]) == ("success", value)
    block = answered["answer"]["content"]["blocks"][0]
    assert (block["value"], block["label"], block["dismissed"]) == (value, label, False)


@pytest.mark.requirement("L75")
async def test_closing_the_page_leaving_a_wait_and_ending_messages_leave_a_question_open(
    world: ServerWorld, conversation: str, echo: httpx.AsyncClient
) -> None:
    question = await ask(echo, conversation)
    async with viewer(world.http, conversation) as page:
        await page.until("ping")
    path = f"/v1/questions/{question['id']}"
    waiting = asyncio.gather(echo.get(path, params={"wait_ms": 30_000}), return_exceptions=True)
    await world.clock.settle()
    waiting.cancel()
    stream = await open_stream(echo, conversation, target="user/local")
    assert (await echo.post(f"/v1/messages/{stream['id']}/end", json={"seq": 1})).status_code == 202
    await world.clock.settle()
    assert (await get(echo, f"/questions/{question['id']}"))["state"] == "pending"
    assert (await reply(world.http, question["id"], value="r"))["question"]["state"] == "success"


@pytest.mark.requirement("L78")
@pytest.mark.parametrize("said", [{"value": "g"}, {"dismiss": True}])
async def test_history_answer_and_stream_show_the_same_card(
    world: ServerWorld, conversation: str, echo: httpx.AsyncClient, said: dict[str, Any]
) -> None:
    question = await ask(echo, conversation)
    async with viewer(world.http, conversation) as page:
        await page.until("ping")
        answered = (await reply(world.http, question["id"], **said))["answer"]
        while (
            not {answered["id"], question["id"]} <= set(page.messages)
            or page.messages[question["id"]]["content"]["blocks"][0]["state"] == "pending"
        ):
            await page.next()
        seen = page.messages
    stored = {message["id"]: message for message in await history(world.http, conversation)}
    for shown in (seen, stored):
        assert shown[answered["id"]] == answered
    assert seen[question["id"]] == stored[question["id"]] == await get(echo, f"/messages/{question['id']}")


@pytest.mark.requirement("L14")
async def test_what_a_person_says_is_said_whole(world: ServerWorld) -> None:
    conversation = await world.conversation()
    path = f"/v1/conversations/{conversation}/messages"
    for status in ("failed", "cancelled", "streaming", "expired"):
        refused = await world.http.post(path, json={"key": status, "text": "half", "status": status})
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")
    assert await history(world.http, conversation) == []
    assert wire("user/local") == (await speak(world.http, conversation, "whole"))["actor"]
