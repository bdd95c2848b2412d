"""Deciders of calls, without database or loop: the order of the checks, how calls move and end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.machines.device.build import (
    KEY,
    NOW,
    a_call,
    a_plan,
    a_route,
    a_session,
    a_state,
    a_tool,
    an_activation,
    an_app,
    an_instance,
    an_invoke,
)

from lineloop.device.decide.calls import (
    Answered,
    HandlerOutcome,
    Invoke,
    Known,
    decide_cancel,
    decide_expiry,
    decide_invoke,
    decide_outcome,
)
from lineloop.device.decide.facts import (
    Audited,
    CallAccepted,
    CallChanged,
    Dispatch,
    Fact,
    MessageQueued,
    SendSoon,
    StartContainer,
)
from lineloop.device.decide.plan import Plan
from lineloop.device.decide.routing import pump
from lineloop.device.decide.schemas import Schemas
from lineloop.device.decide.state import Session
from lineloop.protocol.errors import IllegalTransition
from lineloop.protocol.machines import LIVE_CALL_STATES

LIVE = [str(state) for state in LIVE_CALL_STATES if state != "received"]
ENDED = ["succeeded", "failed", "cancelled"]


def payloads(plan: Plan) -> list[dict[str, Any]]:
    return [
        fact.message["content"]["blocks"][0]["envelope"]["payload"]
        for fact in plan.facts
        if isinstance(fact, MessageQueued)
    ]


def decided(**changes: Any) -> Plan:
    plan = a_plan()
    state = a_state(**{name: value for name, value in changes.items() if name != "invoke"})
    invoke = changes.get("invoke", an_invoke())
    decide_invoke(plan, state, invoke, a_route(state.app) if state.app else None, Schemas())
    return plan


def code_of(plan: Plan) -> str:
    return payloads(plan)[-1]["code"]


@pytest.mark.requirement("D13", "D14")
def test_replay_comes_before_every_look_at_the_inventory() -> None:
    known = Known(a_call(call_id="c1", state="dispatched"), '{"key":"call_0/1"}')
    plan = decided(known=known, app=None, invoke=an_invoke(inventory_revision="inv_old"))
    assert [type(effect) for effect in plan.effects] == [SendSoon]
    assert [type(fact) for fact in plan.facts] == [Audited]
    conflicting = decided(
        known=known, app=None, invoke=an_invoke(params={"text": "y"}, params_text='{"text":"y"}')
    )
    assert code_of(conflicting) == "call_conflict"


@pytest.mark.requirement("D13", "D14")
def test_the_same_request_is_the_same_whatever_the_order_of_its_fields() -> None:
    known = Known(a_call(call_id="c1", params='{"text":"x","n":1}'), '{"key":"call_0/1"}')
    again = an_invoke(params={"n": 1.0, "text": "x"}, params_text='{"n":1.0,"text":"x"}')
    assert [type(effect) for effect in decided(known=known, invoke=again).effects] == [SendSoon]
    other = an_invoke(params={"n": True, "text": "x"}, params_text='{"n":true,"text":"x"}')
    assert code_of(decided(known=known, invoke=other)) == "call_conflict"
    moved = replace(again, key=KEY._replace(contract_version="2"))
    assert code_of(decided(known=known, invoke=moved)) == "call_conflict"


@pytest.mark.requirement("D11", "D12")
def test_the_checks_come_in_their_order() -> None:
    wrong = an_invoke(inventory_revision="inv_old", params={"instance_id": 1})
    assert code_of(decided(app=None, invoke=wrong)) == "inventory_stale"
    wrong = replace(wrong, inventory_revision="inv")
    assert code_of(decided(app=None, invoke=wrong)) == "app_not_installed"
    assert code_of(decided(app=an_app(enabled=False), invoke=wrong)) == "app_disabled"
    assert code_of(decided(app=an_app(unavailable="sdk_incompatible"), invoke=wrong)) == "tool_not_visible"
    assert code_of(decided(invoke=wrong)) == "scope_forbidden"
    missing = an_invoke(params={})
    assert payloads(decided(invoke=missing))[0]["errors"][0]["pointer"] == "/text"
    named = an_invoke(params={"text": "x", "operation_id": "o"})
    assert code_of(decided(invoke=named)) == "scope_forbidden"
    elsewhere = an_invoke(params={"text": "x", "conversation_id": "cnv_other"})
    assert code_of(decided(invoke=elsewhere)) == "scope_mismatch"


@pytest.mark.requirement("D11")
def test_a_refusal_writes_audit_and_an_answer_and_nothing_else() -> None:
    plan = decided(app=None)
    assert {type(fact) for fact in plan.facts} == {MessageQueued, Audited}
    assert payloads(plan)[0]["rejected"] is True


def test_the_same_event_on_the_same_state_gives_the_same_facts() -> None:
    assert decided().facts == decided().facts
    assert decided(session=Session("cnv", "notes")).facts == decided(session=Session("cnv", "notes")).facts


@pytest.mark.requirement("D22")
def test_a_closed_app_is_started_once_and_the_call_waits() -> None:
    plan = decided(session=Session("cnv", "notes"))
    assert payloads(plan)[0]["stage"] == "starting"
    assert sum(isinstance(effect, StartContainer) for effect in plan.effects) == 1
    assert not any(isinstance(effect, Dispatch) for effect in plan.effects)
    starting = a_session(
        instance=an_instance(state="starting"), activation=an_activation(state="starting", ended_at=None)
    )
    joined = decided(session=starting)
    assert payloads(joined)[0]["stage"] == "starting"
    assert not any(isinstance(effect, StartContainer) for effect in joined.effects)


@pytest.mark.requirement("D20")
def test_a_command_waits_for_the_one_before_it() -> None:
    app = an_app(a_tool(call_model="command"))
    busy = decided(app=app, session=a_session(running_command=True))
    assert not any(isinstance(effect, Dispatch) for effect in busy.effects)
    free = decided(app=app)
    assert any(isinstance(effect, Dispatch) for effect in free.effects)
    query = decided(session=a_session(running_command=True))
    assert any(isinstance(effect, Dispatch) for effect in query.effects)


@pytest.mark.requirement("D23")
def test_waiting_calls_move_on_in_arrival_order_one_command_at_a_time() -> None:
    app = an_app(a_tool(call_model="command"))
    queue = tuple(
        a_call(ref=f"call_{n}", call_id=f"c{n}", state="waiting_activation", call_model="command", arrival=n)
        for n in range(3)
    )
    plan = a_plan()
    after = pump(plan, a_session(queue=queue), a_route(app))
    assert [effect.call.ref for effect in plan.effects if isinstance(effect, Dispatch)] == ["call_0"]
    assert [call.ref for call in after.queue] == ["call_1", "call_2"]


@pytest.mark.requirement("D16", "D18")
@pytest.mark.parametrize("state", ENDED)
def test_nothing_ends_a_call_twice(state: str) -> None:
    call = a_call(state=state, ended_at=NOW)
    plan = a_plan("runtime")
    decide_outcome(plan, call, a_tool(), HandlerOutcome("completed", {"done": 1}), Schemas())
    decide_cancel(plan, call, a_session(), an_app(), Schemas())
    decide_expiry(plan, call, a_session(), an_app(), Schemas())
    assert {type(fact) for fact in plan.facts} <= {Audited}
    assert plan.effects == []
    with pytest.raises(IllegalTransition):
        a_plan().succeed(call, {"done": 1})


@pytest.mark.requirement("D17", "D21")
@pytest.mark.parametrize("state", [state for state in LIVE if state != "operating"])
def test_time_ends_a_call_in_every_live_state_once(state: str) -> None:
    plan = a_plan("runtime")
    decide_expiry(plan, a_call(state=state), a_session(), an_app(), Schemas())
    ends = [f.call.state for f in plan.facts if isinstance(f, CallChanged) and f.call.ended]
    assert ends == ["failed"]
    assert len([p for p in payloads(plan) if "code" in p]) == 1


@pytest.mark.requirement("D21")
@pytest.mark.parametrize("state", LIVE)
def test_a_cancel_ends_what_waits_and_only_asks_what_runs(state: str) -> None:
    plan = a_plan()
    decide_cancel(plan, a_call(state=state), a_session(), an_app(), Schemas())
    ended = any(isinstance(f, CallChanged) and f.call.ended for f in plan.facts)
    assert ended == (state != "dispatched")


def test_sequence_numbers_rise_by_one_and_the_result_is_last() -> None:
    plan = decided()
    accepted = next(f.call for f in reversed(plan.facts) if isinstance(f, CallChanged))
    decide_outcome(plan, accepted, a_tool(), HandlerOutcome("completed", {"done": 1}), Schemas())
    said = [
        fact.message["content"]["blocks"][0]["envelope"]["correlation"]["sequence"]
        for fact in plan.facts
        if isinstance(fact, MessageQueued)
    ]
    assert said == [1, 2]


def test_every_call_says_whose_it_is_what_that_agent_saw_and_through_which_entry_it_ended() -> None:
    facts: list[Fact] = decided().facts
    accepted = next(fact.call for fact in facts if isinstance(fact, CallAccepted))
    assert (accepted.agent, accepted.inventory_revision, accepted.ended_by) == ("operator/a", "inv", None)
    plan = a_plan("runtime")
    ended = decide_outcome(
        plan, a_call(state="dispatched"), a_tool(), HandlerOutcome("completed", {"done": 1}), Schemas()
    )
    assert (ended.state, ended.ended_by) == ("succeeded", "runtime")


def answered_ahead(invoke: Invoke | None = None, /, **changes: str) -> Plan:
    session = a_session(instance=an_instance(state="background"), activation=an_activation(state="ready"))
    by = {"app_session_id": session.app_session_id or "", "app_version": an_app().version, **changes}
    said = Answered(by["app_session_id"], by["app_version"], HandlerOutcome("completed", {"done": True}))
    plan = a_plan()
    state = a_state(session=session)
    assert state.app is not None
    decide_invoke(plan, state, invoke or an_invoke(), a_route(state.app), Schemas(), said)
    return plan


@pytest.mark.requirement("D20")
def test_an_answer_that_came_before_its_call_was_stored_ends_the_call_in_the_same_decision() -> None:
    plan = answered_ahead()
    assert not [effect for effect in plan.effects if isinstance(effect, Dispatch)]
    changed = [fact.call.state for fact in plan.facts if isinstance(fact, CallChanged)]
    assert changed[-1] == "succeeded"
    assert payloads(plan)[-1]["result"] == {"done": True}


@pytest.mark.requirement("D9")
@pytest.mark.parametrize("other", [{"app_session_id": "another"}, {"app_version": "0.0.1"}])
def test_what_another_session_or_version_said_is_forgotten(other: dict[str, str]) -> None:
    plan = answered_ahead(**other)
    assert len([effect for effect in plan.effects if isinstance(effect, Dispatch)]) == 1


@pytest.mark.requirement("D11")
def test_an_answer_to_a_call_that_is_refused_counts_for_nothing() -> None:
    plan = answered_ahead(an_invoke(inventory_revision="inv_old"))
    assert code_of(plan) == "inventory_stale"
    assert not [fact for fact in plan.facts if isinstance(fact, CallAccepted)]
