"""The verbs: what they send, what they repeat, and what they leave alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from lineloop.client import Loop
from lineloop.client.sse import MessageEvent, PatchEvent, PingEvent, View
from lineloop.client.transport import Response, ServerSentEvent, error_of_answer
from lineloop.kit import json
from lineloop.protocol.actors import Actor
from lineloop.protocol.errors import (
    CapacityExceeded,
    ConnectionLost,
    InvalidRequest,
    LoopError,
    NotFound,
    Overloaded,
    StorageUnavailable,
)
from lineloop.protocol.messages import Message
from lineloop.protocol.questions import QuestionState
from lineloop.protocol.runs import RunPhase
from lineloop.testing import FakeClock, until
from lineloop.testing.scripted import ScriptedLinkEnd, ScriptedTransport, wire_message

ECHO = Actor("operator", "echo")
ANNA = Actor("user", "anna")


class Bench:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.transport = ScriptedTransport()
        self.loop = Loop(self.transport, clock=self.clock)

    def answers(self, *answers: Any) -> None:
        self.transport.answers.extend(
            answer if isinstance(answer, LoopError) or callable(answer) else Response(200, answer)
            for answer in answers
        )

    @property
    def asked(self) -> list[tuple[str, str]]:
        return [(one.method, one.path) for one in self.transport.asked]

    async def meanwhile(self, coroutine: Any) -> Any:
        """Run while virtual time passes, as retries need it."""
        task = asyncio.get_running_loop().create_task(coroutine)
        while not task.done():
            await self.clock.advance(1.0)
        return task.result()


@pytest.fixture
async def bench() -> AsyncGenerator[Bench, None]:
    made = Bench()
    yield made
    await made.loop.close()


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "c1/messages", "/c1"])
async def test_what_is_no_id_asks_no_other_route(bench: Bench, name: str) -> None:
    verbs = (
        lambda: bench.loop.conversation(name).info(),
        lambda: bench.loop.message(name),
        lambda: bench.loop.call(name).get(),
        lambda: bench.loop.conversation("c1").message(name),
    )
    for verb in verbs:
        with pytest.raises(NotFound):
            await verb()
    assert bench.asked == []


async def test_an_id_stays_one_segment_of_its_path(bench: Bench) -> None:
    bench.answers(NotFound("no"))
    with pytest.raises(NotFound):
        await bench.loop.conversation("a?b#c\u202e %2F").info()
    assert bench.asked == [("GET", "/v1/conversations/a%3Fb%23c%E2%80%AE%20%252F")]


def run(phase: str, **more: Any) -> dict[str, Any]:
    return {
        "id": "r1",
        "message_id": "m1",
        "conversation_id": "c1",
        "phase": phase,
        "deadline_at": "2026-01-02T03:34:05.678Z",
        "error": None,
        **more,
    }


def question(state: str, **more: Any) -> dict[str, Any]:
    return {
        "id": "q1",
        "message_id": "q1",
        "state": state,
        "value": None,
        "reason": None,
        "deadline_at": "2026-01-02T03:34:05.678Z",
        **more,
    }


def event(kind: str, data: Any, event_id: str = "") -> ServerSentEvent:
    return ServerSentEvent(event=kind, data=json.dumps(data), id=event_id)


async def test_speak_sends_the_wire_names_and_returns_a_handle(bench: Bench) -> None:
    bench.answers(wire_message(id="m9"))
    handle = await bench.loop.conversation("c1", actor=ECHO).speak(
        "hi", key="k", target=ANNA, reply_to="m0", meta={"note": 1}, status="failed"
    )
    assert handle.id == "m9"
    asked = bench.transport.asked[0]
    assert (asked.method, asked.path) == ("POST", "/v1/conversations/c1/messages")
    assert asked.json == {
        "key": "k",
        "text": "hi",
        "target": {"kind": "user", "key": "anna"},
        "reply_to_id": "m0",
        "status": "failed",
        "meta": {"note": 1},
        "actor": {"kind": "operator", "key": "echo"},
    }


async def test_speak_repeats_a_lost_call_with_the_same_key_three_times_at_most(bench: Bench) -> None:
    bench.answers(*[ConnectionLost("gone")] * 2, wire_message())
    await bench.meanwhile(bench.loop.conversation("c1").speak("hi", key="k"))
    assert [one.json["key"] for one in bench.transport.asked] == ["k"] * 3
    bench.answers(*[StorageUnavailable("full")] * 3)
    with pytest.raises(StorageUnavailable):
        await bench.meanwhile(bench.loop.conversation("c1").speak("hi", key="k2"))


@pytest.mark.requirement("P25")
async def test_a_lost_answer_to_creating_is_asked_for_again_under_the_same_key(bench: Bench) -> None:
    made = {
        "id": "c1",
        "name": "plans",
        "owner": ANNA.to_wire(),
        "parent_id": None,
        "created_at": "2026-01-02T03:04:05.678Z",
        "archived_at": None,
        "last_ordinal": 0,
        "updated_at": "2026-01-02T03:04:05.678Z",
        "read_ordinal": 0,
        "unread": 0,
    }
    bench.answers(*[ConnectionLost("gone")] * 2, made, made, made)
    assert (await bench.meanwhile(bench.loop.create_conversation("plans"))).id == "c1"
    await bench.loop.create_conversation()
    await bench.loop.create_conversation(key="mine")
    keys = [one.json["key"] for one in bench.transport.asked]
    assert len(set(keys[:3])) == 1
    assert len(set(keys)) == 3
    assert keys[-1] == "mine"
    assert [one.json.get("name") for one in bench.transport.asked] == ["plans"] * 3 + [None] * 2


@pytest.mark.requirement("P27")
async def test_a_rate_limit_is_waited_for_as_long_as_the_server_asks_and_no_longer_than_makes_sense(
    bench: Bench,
) -> None:
    def limited(ms: int) -> LoopError:
        return LoopError("slow down", code="rate_limited", detail={"retry_after_ms": ms})

    bench.answers(limited(4_000), wire_message())
    began = bench.clock.monotonic()
    await bench.meanwhile(bench.loop.message("m1"))
    assert 4 <= bench.clock.monotonic() - began <= 6
    bench.answers(limited(60_000))
    with pytest.raises(LoopError) as refused:
        await bench.loop.message("m1")
    assert refused.value.code == "rate_limited"
    assert len(bench.asked) == 3


@pytest.mark.requirement("P20")
async def test_membership_travels_by_its_own_routes_and_is_repeated(bench: Bench) -> None:
    role = Actor("operator/echo/worker", "1 a")
    line = {
        **role.to_wire(),
        "owner": False,
        "display_name": None,
        "process_conversation_id": None,
        "joined_at": "2026-01-02T03:04:05.678Z",
    }
    bench.answers({"items": [line], "next": "x"}, ConnectionLost("gone"), line, ConnectionLost("gone"), None)
    conversation = bench.loop.conversation("c1")
    page = await conversation.participants(after="a", limit=1)
    assert (page.items[0].actor, page.items[0].is_owner, page.next) == (role, False, "x")
    assert (await bench.meanwhile(conversation.invite(role))).actor == role
    await bench.meanwhile(conversation.remove(role))
    place = "/v1/conversations/c1/participants"
    gone = ("DELETE", f"{place}/operator%2Fecho%2Fworker/1%20a")
    assert bench.asked == [("GET", place), ("POST", place), ("POST", place), gone, gone]
    for name in (Actor("user", ".."), Actor("..", "a")):
        with pytest.raises(NotFound):
            await conversation.remove(name)


async def test_a_stream_with_a_status_and_a_message_that_says_nothing_are_refused_locally(
    bench: Bench,
) -> None:
    conversation = bench.loop.conversation("c1")
    with pytest.raises(InvalidRequest):
        await conversation.speak(key="k", stream=True, status="completed")
    with pytest.raises(InvalidRequest):
        await conversation.speak(key="k")
    assert bench.transport.asked == []


async def test_writes_use_the_open_link_and_http_when_it_breaks(bench: Bench) -> None:
    end = ScriptedLinkEnd(answering=True)
    bench.transport.ends.append(end)
    await bench.loop.link().start()
    conversation = bench.loop.conversation("c1", actor=ECHO)
    handle = await conversation.speak(key="k", stream=True)
    await conversation.commit(4)
    assert [sorted(frame) for frame in end.sent] == [["id", "speak"], ["commit", "id"]]
    assert "actor" not in end.sent[0]["speak"][0]
    end.cut()
    await bench.clock.settle()
    bench.answers(None)
    await conversation.commit(5)
    assert bench.asked == [("POST", "/v1/conversations/c1/commit")]
    assert handle.id == "m-k"


async def test_a_write_for_another_actor_than_the_links_goes_over_http(bench: Bench) -> None:
    end = ScriptedLinkEnd(answering=True)
    bench.transport.ends.append(end)
    await bench.loop.link().start()
    bench.answers(wire_message())
    await bench.loop.conversation("c1", actor=Actor("operator/echo/helper", "1")).speak("hi", key="k")
    assert end.sent == []
    assert bench.transport.asked[0].json["actor"] == {"kind": "operator/echo/helper", "key": "1"}


async def test_poll_and_read_use_integers_and_ordinals_of_the_wire(bench: Bench) -> None:
    bench.answers({"messages": [wire_message()], "position": 1, "committed": 0})
    conversation = bench.loop.conversation("c1", actor=ECHO)
    polled = await conversation.poll(after=0, limit=10)
    assert (polled.position, polled.committed, len(polled.messages)) == (1, 0, 1)
    assert bench.transport.asked[0].json == {"actor": ECHO.to_wire(), "after": 0, "limit": 10}
    bench.answers({"items": [wire_message()], "next": "7"})
    page = await conversation.read(before=9, newest_first=True, purpose="speech")
    assert page.next == "7"
    assert bench.transport.asked[1].params["order"] == "desc"
    assert bench.transport.asked[1].params["purpose"] == "speech"


@pytest.mark.requirement("L138")
async def test_a_full_harness_is_asked_exactly_once_and_says_so(bench: Bench) -> None:
    bench.answers(CapacityExceeded("no slot"))
    with pytest.raises(CapacityExceeded) as caught:
        await bench.loop.harness.prompt(
            "c1", "think", idempotency_key="k", effect_key="plan", target="demo", timeout_seconds=60
        )
    assert caught.value.retryable
    assert bench.asked == [("POST", "/v1/harness/runs")]
    assert not isinstance(error_of_answer(429, {"code": "overloaded"}), CapacityExceeded)
    assert isinstance(error_of_answer(429, None), Overloaded)


async def test_prompt_sends_milliseconds_and_returns_a_call(bench: Bench) -> None:
    bench.answers(run("pending"))
    call = await bench.loop.harness.prompt(
        "c1",
        "think",
        idempotency_key="k",
        effect_key="plan",
        target="demo",
        tools=["inventory"],
        recipient=ANNA,
        timeout_seconds=1.5,
    )
    assert call.id == "r1"
    body = bench.transport.asked[0].json
    assert body["timeout_ms"] == 1500
    assert body["tools"] == ["inventory"]
    assert body["recipient"] == ANNA.to_wire()


async def test_a_call_streams_to_the_end_and_gives_its_result(bench: Bench) -> None:
    bench.answers(run("running"), run("succeeded", result={"format": "json", "content": {"a": 1}}))
    bench.transport.streams.append(
        [
            event("message", {"message": wire_message(status="streaming", revision=1, offset=None)}),
            event("patch", {"message_id": "m1", "patch": {"op": "end", "seq": 2}}),
            event("message", {"message": wire_message(revision=2)}),
        ]
    )
    result = await bench.loop.harness.call("r1").result()
    assert (result.format, result.content) == ("json", {"a": 1})


async def test_a_broken_run_stream_reads_the_durable_state_and_reconnects_three_times_at_most(
    bench: Bench,
) -> None:
    bench.transport.otherwise = Response(200, run("running"))
    bench.transport.streams.extend([[ConnectionLost("cut")] for _ in range(4)])
    with pytest.raises(ConnectionLost):
        await bench.meanwhile(bench.loop.harness.call("r1").wait())
    assert len(bench.transport.resumed_from) == 4


async def test_a_run_that_ended_while_the_stream_was_broken_is_noticed(bench: Bench) -> None:
    bench.answers(run("running"), run("cancelled"), wire_message(status="cancelled"), run("cancelled"))
    bench.transport.streams.append([ConnectionLost("cut")])
    ended = await bench.meanwhile(bench.loop.harness.call("r1").wait())
    assert ended.phase is RunPhase.CANCELLED


@pytest.mark.requirement("L137")
@pytest.mark.parametrize(
    ("ended", "code"),
    [
        (run("cancelled"), "run_cancelled"),
        (run("timed_out"), "run_timed_out"),
        (run("unknown"), "run_outcome_unknown"),
        (run("failed", error={"code": "output_invalid", "message": "bad"}), "output_invalid"),
        (run("failed", error={"code": "from_the_model", "message": "bad"}), "run_failed"),
    ],
)
async def test_the_result_of_a_run_that_did_not_succeed_is_its_coded_error(
    bench: Bench, ended: dict[str, Any], code: str
) -> None:
    bench.answers(ended)
    with pytest.raises(LoopError) as caught:
        await bench.loop.harness.call("r1").result()
    assert caught.value.code == code


@pytest.mark.requirement("L136")
async def test_cancelling_a_wait_sends_nothing_to_the_server(bench: Bench) -> None:
    gate = asyncio.Event()

    async def held(_: Any) -> Response:
        await gate.wait()
        return Response(200, run("running"))

    bench.answers(held)
    task = asyncio.get_running_loop().create_task(bench.loop.harness.call("r1").wait())
    await until(lambda: bench.transport.asked)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert bench.asked == [("GET", "/v1/harness/runs/r1")]


async def test_ask_sends_choices_and_the_timeout_and_finds_the_outcome_by_waiting(bench: Bench) -> None:
    bench.answers(
        question("pending"), question("pending"), ConnectionLost("gone"), question("success", value="tea")
    )
    handle = await bench.loop.human.ask(
        "c1",
        "Tea or coffee?",
        effect_key="drink",
        to=ANNA,
        timeout_seconds=60,
        choices=["tea", ("coffee", "Coffee")],
        actor=ECHO,
    )
    outcome = await bench.meanwhile(handle.wait())
    assert (outcome.state, outcome.value) == (QuestionState.SUCCESS, "tea")
    assert bench.transport.asked[0].json == {
        "kind": "ask",
        "effect_key": "drink",
        "to": ANNA.to_wire(),
        "text": "Tea or coffee?",
        "timeout_ms": 60_000,
        "choices": [{"value": "tea", "label": "tea"}, {"value": "coffee", "label": "Coffee"}],
        "allow_other": False,
        "actor": ECHO.to_wire(),
    }
    assert bench.transport.asked[1].params == {"wait_ms": 25_000}


async def test_confirm_sends_labels_and_get_does_not_wait(bench: Bench) -> None:
    bench.answers(question("pending"), question("dismissed"))
    handle = await bench.loop.human.confirm(
        "c1", "Sure?", effect_key="sure", to=ANNA, timeout_seconds=1, accept_label="Go"
    )
    assert bench.transport.asked[0].json["labels"] == {"accepted": "Go"}
    assert (await handle.get()).state is QuestionState.DISMISSED
    assert bench.transport.asked[1].params == {"wait_ms": None}


async def test_a_wait_for_an_unknown_question_fails_at_once(bench: Bench) -> None:
    bench.answers(LoopError.from_problem({"code": "question_not_found"}))
    with pytest.raises(NotFound):
        await bench.loop.human.question("q0").wait()


@pytest.mark.requirement("L142")
async def test_a_registration_is_sent_at_once_and_renewed_at_a_third_of_its_lease(bench: Bench) -> None:
    bench.transport.otherwise = Response(200, {})
    registration = await bench.loop.operators.register("echo", display_name="Echo", lease_seconds=30)
    assert bench.asked == [("PUT", "/v1/actors/operator/echo")]
    assert bench.transport.asked[0].json == {"display_name": "Echo", "lease_ms": 30_000}
    await bench.clock.advance(30.0)
    assert len(bench.asked) == 4
    bench.answers(LoopError("no", code="forbidden"))
    await bench.clock.advance(20.0)
    assert len(bench.asked) == 6, "one lost renewal ends nothing"
    registration.close()
    await bench.clock.advance(60.0)
    assert len(bench.asked) == 6


async def test_a_harness_registers_with_its_own_kind(bench: Bench) -> None:
    bench.transport.otherwise = Response(200, {})
    await bench.loop.harness.register("local", display_name="Local")
    assert bench.asked == [("PUT", "/v1/actors/harness/local")]


async def test_a_conversation_stream_resumes_after_a_break_where_it_ended(bench: Bench) -> None:
    bench.transport.streams.extend(
        [
            [event("message", {"message": wire_message()}, "5"), ConnectionLost("cut")],
            [event("unknown", {}), event("ping", {"ordinals": {"c1": 3}}, "6")],
        ]
    )
    stream = bench.loop.conversation("c1").stream()
    assert isinstance(await anext(stream), MessageEvent)
    ping = await bench.meanwhile(anext(stream))
    assert ping == PingEvent({"c1": 3})
    assert bench.transport.resumed_from == [None, "5"]
    await stream.aclose()


async def test_a_view_applies_only_what_continues_the_known_revision() -> None:
    view = View()
    view.apply(
        MessageEvent(Message.from_wire(wire_message(status="streaming", revision=1, offset=None, text="a")))
    )

    def append(seq: int, text: str) -> PatchEvent:
        block = {"id": "text", "content": text}
        return PatchEvent("m1", {"op": "append", "seq": seq, "mask": "block.content", "block": block})

    assert view.apply(append(3, "gap")) is None
    assert view.apply(append(1, "old")) is None
    changed = view.apply(append(2, "b"))
    assert changed is not None
    assert changed.text == "ab"
    assert view.apply(MessageEvent(Message.from_wire(wire_message(revision=1)))) is None


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (409, {"code": "key_conflict", "detail": "taken"}, "key_conflict"),
        (502, None, "connection_lost"),
        (503, None, "storage_unavailable"),
        (500, "<html>", "internal"),
        (418, {"code": "of_the_future", "detail": "x"}, "internal"),
    ],
)
def test_every_refusal_becomes_a_coded_error(status: int, body: Any, code: str) -> None:
    assert error_of_answer(status, body).code == code
