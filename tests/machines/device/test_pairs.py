"""Every state of a call with every event that may meet it: what follows stands here, pair by pair."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.machines.device.build import (
    NOW,
    a_call,
    a_plan,
    a_route,
    a_session,
    a_tool,
    an_activation,
    an_app,
)

from lineloop.device.decide.activation import cancel_activation, fail_activation
from lineloop.device.decide.calls import (
    HandlerOutcome,
    decide_after_restart,
    decide_cancel,
    decide_consent,
    decide_expiry,
    decide_outcome,
    decide_progress,
    end_stranded_call,
)
from lineloop.device.decide.facts import Audited, CallChanged, MessageQueued
from lineloop.device.decide.intents import close
from lineloop.device.decide.plan import Failure, Plan
from lineloop.device.decide.routing import pump
from lineloop.device.decide.schemas import Schemas
from lineloop.device.decide.state import Call, Session
from lineloop.device.decide.withdrawal import decide_crash, decide_withdrawal
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.machines import CALL

ENDED = ("succeeded", "failed", "cancelled")
STATES = (
    "accepted",
    "awaiting_consent",
    "waiting_activation",
    "waiting_foreground",
    "dispatched",
    "operating",
    *ENDED,
)
SAME = "="
SCHEMAS = Schemas()
TOOL = a_tool()
APP = an_app(TOOL)
ROUTE = a_route(APP)
GOOD = HandlerOutcome("completed", {"done": True})
BAD = HandlerOutcome("completed", {"other": 1})
BROKE = HandlerOutcome("failed", reason="threw")
LEFT_OPEN = HandlerOutcome("open")
LOST = Failure(ErrorCode.APP_DISABLED)

Event = Callable[[Plan, Call, Session], object]

EVENTS: dict[str, Event] = {
    "completed": lambda plan, call, _: decide_outcome(plan, call, TOOL, GOOD, SCHEMAS),
    "bad result": lambda plan, call, _: decide_outcome(plan, call, TOOL, BAD, SCHEMAS),
    "broke": lambda plan, call, _: decide_outcome(plan, call, TOOL, BROKE, SCHEMAS),
    "left open": lambda plan, call, _: decide_outcome(plan, call, TOOL, LEFT_OPEN, SCHEMAS),
    "progress": lambda plan, call, _: decide_progress(plan, call, 0.5),
    "cancel": lambda plan, call, session: decide_cancel(plan, call, session, APP, SCHEMAS),
    "expiry": lambda plan, call, session: decide_expiry(plan, call, session, APP, SCHEMAS),
    "allowed": lambda plan, call, session: decide_consent(plan, call, session, ROUTE, allowed=True),
    "refused": lambda plan, call, session: decide_consent(plan, call, session, ROUTE, allowed=False),
    "app ready": lambda plan, _, session: pump(plan, session, ROUTE),
    "start failed": lambda plan, _, session: fail_activation(plan, session, APP, SCHEMAS, "deadline"),
    "start cancelled": lambda plan, _, session: cancel_activation(plan, session, APP, SCHEMAS, "left"),
    "closed": lambda plan, _, session: close(plan, session, ROUTE, LOST, "closed"),
    "disabled": lambda plan, _, session: decide_withdrawal(plan, session, ROUTE, ErrorCode.APP_DISABLED),
    "crashed": lambda plan, _, session: decide_crash(plan, session, ROUTE, "crashed"),
}

# One column per state, in the order of STATES; of an ended call nothing follows at all.
FOLLOWS: dict[str, tuple[str, ...]] = {
    # accepted, awaiting_consent, waiting_activation, waiting_foreground, dispatched, operating
    "completed": (SAME, SAME, SAME, SAME, "succeeded", "succeeded"),
    "bad result": (SAME, SAME, SAME, SAME, "failed", "failed"),
    "broke": (SAME, SAME, SAME, SAME, "failed", "failed"),
    "left open": (SAME, SAME, SAME, SAME, SAME, SAME),
    "progress": (SAME, SAME, SAME, SAME, SAME, SAME),
    "cancel": ("cancelled", "cancelled", "cancelled", "cancelled", SAME, "cancelled"),
    "expiry": ("failed", "failed", "failed", "failed", "failed", SAME),
    "allowed": (SAME, "dispatched", SAME, SAME, SAME, SAME),
    "refused": (SAME, "cancelled", SAME, SAME, SAME, SAME),
    "app ready": ("dispatched", SAME, "dispatched", "dispatched", SAME, SAME),
    "start failed": ("failed", "failed", "failed", "failed", SAME, SAME),
    "start cancelled": ("cancelled", "cancelled", "cancelled", "cancelled", SAME, SAME),
    "closed": ("failed", "failed", "failed", "failed", "failed", SAME),
    "disabled": ("failed", "failed", "failed", "failed", "failed", SAME),
    "crashed": ("failed", "failed", "failed", "failed", "failed", SAME),
}
WHILE_STARTING = ("start failed", "start cancelled")
PAIRS = [(state, event) for event in EVENTS for state in STATES]


def met(state: str, event: str) -> tuple[Plan, Call, Session]:
    """A call in that state, alone in its session, which starts or runs as the event needs it."""
    ended = state in ENDED
    call = a_call(
        state=state,
        operation_id="op_0" if state == "operating" else None,
        deadline_at=None if ended or state == "operating" else NOW,
        ended_at=NOW if ended else None,
        outcome='{"code":"x"}' if ended else None,
    )
    session = a_session(queue=() if ended else (call,))
    if event in WHILE_STARTING or (state == "waiting_activation" and event != "app ready"):
        assert session.instance is not None
        starting = replace(session.instance, state="starting")
        activation = an_activation(state="starting", ended_at=None)
        session = replace(session, instance=starting, activation=activation)
    return a_plan(), call, session


def last_state(plan: Plan, call: Call) -> str:
    states = [
        fact.call.state for fact in plan.facts if isinstance(fact, CallChanged) and fact.call.ref == call.ref
    ]
    return states[-1] if states else call.state


@pytest.mark.requirement("D104")
def test_every_state_of_the_table_is_met_by_every_event() -> None:
    assert set(STATES) == {str(state) for state in CALL.states} - {"received"}
    assert set(FOLLOWS) == set(EVENTS)
    assert {len(row) for row in FOLLOWS.values()} == {len(STATES) - len(ENDED)}


@pytest.mark.requirement("D104")
@pytest.mark.parametrize(("state", "event"), PAIRS, ids=[f"{state}-{event}" for state, event in PAIRS])
def test_what_follows(state: str, event: str) -> None:
    plan, call, session = met(state, event)
    EVENTS[event](plan, call, session)
    if state in ENDED:
        assert [fact for fact in plan.facts if isinstance(fact, CallChanged | MessageQueued)] == []
        return
    expected = FOLLOWS[event][STATES.index(state)]
    assert last_state(plan, call) == (state if expected == SAME else expected)
    ends = [
        fact
        for fact in plan.facts
        if isinstance(fact, MessageQueued)
        and fact.message["content"]["blocks"][0]["envelope"]["type"]
        in ("lineup.tool.result", "lineup.tool.error")
    ]
    assert len(ends) == (1 if expected in ENDED else 0)
    again, call, session = met(state, event)
    EVENTS[event](again, call, session)
    assert (again.facts, again.effects) == (plan.facts, plan.effects)


@pytest.mark.requirement("D104", "D18")
@pytest.mark.parametrize("state", ENDED)
@pytest.mark.parametrize("event", ["completed", "broke", "cancel", "progress", "allowed"])
def test_what_comes_after_the_end_is_in_the_audit_and_nowhere_else(state: str, event: str) -> None:
    plan, call, session = met(state, event)
    EVENTS[event](plan, call, session)
    assert [type(fact) for fact in plan.facts] == [Audited]
    assert plan.effects == []


@pytest.mark.requirement("D104", "D53")
@pytest.mark.parametrize(("idempotency", "follows"), [("call_id", "dispatched"), ("none", "failed")])
def test_a_call_that_was_with_its_app_at_a_restart(idempotency: str, follows: str) -> None:
    plan, call, _ = met("dispatched", "completed")
    assert decide_after_restart(plan, call, a_tool(idempotency=idempotency)).state == follows


@pytest.mark.requirement("D104", "D24", "D25")
@pytest.mark.parametrize(
    ("state", "activation", "code"),
    [
        ("dispatched", "ready", "handler_failed"),
        ("waiting_activation", "failed", "app_activation_failed"),
        ("waiting_activation", "cancelled", "app_activation_cancelled"),
        ("waiting_foreground", "ready", "cancelled_by_user"),
    ],
)
def test_a_call_whose_app_has_gone(state: str, activation: str, code: str) -> None:
    plan, call, _ = met(state, "completed")
    ended = end_stranded_call(plan, call, an_activation(state=activation, reason="x"), TOOL, SCHEMAS)
    assert ended.error_code == code
