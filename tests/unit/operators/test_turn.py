"""A turn's verbs: where they go, and what a failure publishes."""

from __future__ import annotations

from typing import Any

import pytest

from lineloop.client import Loop
from lineloop.client.transport import Response
from lineloop.kit.faults import Faults
from lineloop.operators.turn import Turn
from lineloop.protocol.actors import Actor
from lineloop.protocol.errors import InvalidRequest
from lineloop.protocol.fault_sites import FaultSite
from lineloop.protocol.resources import Participant
from lineloop.testing import FakeClock
from lineloop.testing.scripted import ScriptedTransport, wire_message

ECHO = Actor("operator", "echo")
ANNA = Actor("user", "anna")


def line(workspace: str | None = "w1") -> Participant:
    return Participant(ECHO, workspace, end_offset=5, position=0, committed=0)


def begun() -> tuple[Turn, ScriptedTransport, Faults]:
    transport = ScriptedTransport()
    faults = Faults(FaultSite)
    loop = Loop(transport, clock=FakeClock(), faults=faults)
    return Turn(loop, ECHO, "c1", line()), transport, faults


def polled(*wires: dict[str, Any], position: int = 5) -> Response:
    return Response(200, {"messages": list(wires), "position": position, "committed": 0})


@pytest.mark.requirement("L153")
def test_a_turn_does_not_start_without_its_workspace() -> None:
    with pytest.raises(InvalidRequest):
        Turn(Loop(ScriptedTransport()), ECHO, "c1", line(None))


async def test_speech_and_questions_go_to_the_conversation_and_runs_to_the_workspace() -> None:
    turn, transport, _ = begun()
    question = {
        "id": "q",
        "message_id": "q",
        "state": "pending",
        "deadline_at": "2026-01-02T03:04:05.678Z",
    }
    run = {"id": "r", "message_id": "m", "phase": "pending", "deadline_at": "2026-01-02T03:04:05.678Z"}
    transport.answers.extend([Response(200, one) for one in (wire_message(), question, question, run, run)])
    await turn.speak("hi", key="k")
    await turn.ask("Which?", effect_key="e", to=ANNA, timeout_seconds=1, allow_other=True)
    await turn.confirm("Sure?", effect_key="f", to=ANNA, timeout_seconds=1)
    await turn.prompt("think", idempotency_key="i", effect_key="g", target="demo")
    await turn.prompt("think", conversation_id="c1", idempotency_key="j", effect_key="h", target="demo")
    assert [one.path for one in transport.asked] == [
        "/v1/conversations/c1/messages",
        "/v1/conversations/c1/questions",
        "/v1/conversations/c1/questions",
        "/v1/harness/runs",
        "/v1/harness/runs",
    ]
    assert [one.json.get("conversation_id") for one in transport.asked[3:]] == ["w1", "c1"]
    assert all(one.json["actor"] == ECHO.to_wire() for one in transport.asked)


async def test_fail_publishes_the_code_and_the_text_and_never_the_cause() -> None:
    turn, transport, _ = begun()
    transport.answers.extend([polled(wire_message(id="m1", purpose="input")), Response(201, wire_message())])
    await turn.poll()
    try:
        raise RuntimeError("password=hunter2")
    except RuntimeError:
        await turn.fail("planning_failed", "The plan did not work out.")
    body = transport.asked[1].json
    assert body["status"] == "failed"
    assert (body["key"], body["reply_to_id"]) == ("m1/failure", "m1")
    assert body["content"]["meta"] == {
        "error": {"code": "planning_failed", "message": "The plan did not work out."}
    }
    assert "hunter2" not in str(body)


async def test_fail_without_input_needs_a_key() -> None:
    turn, transport, _ = begun()
    with pytest.raises(InvalidRequest):
        await turn.fail("late", "Too late.")
    transport.answers.append(Response(201, wire_message()))
    await turn.fail("late", "Too late.", key="tick/failure")
    assert transport.asked[0].json["key"] == "tick/failure"


async def test_the_fault_sites_stand_behind_speak_and_around_commit() -> None:
    turn, transport, faults = begun()
    transport.answers.extend([Response(201, wire_message()), Response(204)])
    await turn.speak("hi", key="k")
    await turn.commit(5)
    assert faults.reached[FaultSite.OPERATOR_TURN_SPEAK_AFTER] == 1
    assert faults.reached[FaultSite.OPERATOR_TURN_COMMIT_BEFORE] == 1
    assert faults.reached[FaultSite.OPERATOR_TURN_COMMIT_AFTER] == 1


async def test_a_full_page_is_marked_so_that_the_rest_is_polled_soon() -> None:
    turn, transport, _ = begun()
    transport.answers.extend([polled(wire_message(), wire_message(id="m2")), polled(wire_message())])
    assert (await turn.poll(limit=2)).full
    assert not (await turn.poll(after=5, limit=2)).full
    assert transport.asked[1].json["after"] == 5


async def test_a_position_that_is_committed_already_is_not_sent_again() -> None:
    turn, transport, faults = begun()
    transport.answers.append(Response(200, {"messages": [], "position": 5, "committed": 5}))
    inbox = await turn.poll()
    await turn.commit(inbox.position)
    assert len(transport.asked) == 1
    assert faults.reached[FaultSite.OPERATOR_TURN_COMMIT_BEFORE] == 0
