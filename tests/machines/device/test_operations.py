"""Deciders of deadline operations: who wins, what the result says, and that no app is known by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.machines.device.build import (
    NOW,
    a_call,
    a_plan,
    a_session,
    a_tool,
    an_app,
    an_instance,
)

import lineloop.device.decide
from lineloop.device.decide.facts import CallChanged, OperationEnded, OperationStarted, RecordWritten
from lineloop.device.decide.operations import end_operation, start_operation
from lineloop.device.decide.outcomes import fit_result
from lineloop.device.decide.route import Route
from lineloop.device.decide.schemas import Schemas
from lineloop.device.decide.state import Operation
from lineloop.protocol.tools import ToolDescriptor

OUTCOMES = ["completed", "interrupted", "not_started"]


def timer(**changes: Any) -> ToolDescriptor:
    return a_tool(
        call_model="operation",
        delivery="runtime",
        execution={
            "name": "deadline.start",
            "duration_from": {"param": "seconds", "unit": "seconds"},
            "outcomes": OUTCOMES,
        },
        activation_requirement="foreground_required",
        **changes,
    )


def running(**changes: Any) -> Operation:
    fields: dict[str, Any] = {
        "operation_id": "opn_0",
        "execution": "deadline.start",
        "app_scope": "notes",
        "conversation_id": "cnv",
        "app_session_id": "ses_0",
        "instance_id": "ins_0",
        "call_ref": "call_0",
        "state": "active",
        "on_leave": "interrupt",
        "duration_ms": 60_000,
        "started_at": NOW,
        "ends_at": NOW + 60_000,
        "ended_at": None,
        "elapsed_ms": None,
        "reason": None,
    }
    return Operation(**{**fields, **changes})


def route(**changes: Any) -> Route:
    call = a_call(state="operating", operation_id="opn_0", deadline_at=None)
    tool = timer(output_schema={"type": "object", "required": ["outcome"]})
    return Route(an_app(tool), Schemas(), None, call, **changes)


@pytest.mark.requirement("D30")
def test_operation_end_and_started_are_facts_of_one_decision() -> None:
    plan = a_plan()
    session = a_session(instance=an_instance(state="foreground", generation=1, confirmed_generation=1))
    call = a_call(state="waiting_activation", params='{"seconds":60}', call_model="operation")
    call, session = start_operation(plan, call, timer(), session, Schemas())
    started = next(fact.operation for fact in plan.facts if isinstance(fact, OperationStarted))
    assert (call.state, call.operation_id, call.deadline_at) == ("operating", started.operation_id, None)
    assert started.ends_at - started.started_at == 60_000
    assert session.operation == started


@pytest.mark.requirement("D34", "D36")
@pytest.mark.parametrize(("first", "second"), [("completed", "interrupted"), ("interrupted", "completed")])
def test_the_first_end_wins_and_the_second_finds_nothing(first: str, second: str) -> None:
    plan = a_plan("runtime")
    session = end_operation(plan, a_session(operation=running()), route(elapsed_ms=1000), first, None)
    ended = next(fact.operation for fact in plan.facts if isinstance(fact, OperationEnded))
    late = a_plan("runtime")
    end_operation(late, a_session(operation=ended), route(), second, None)
    end_operation(late, session, route(), second, None)
    assert late.facts == []
    assert ended.state == first
    assert sum(isinstance(fact, RecordWritten) for fact in plan.facts) == 1
    assert [f.call.state for f in plan.facts if isinstance(f, CallChanged)] == ["succeeded"]


@pytest.mark.requirement("D31")
@pytest.mark.parametrize(("measured", "told"), [(-5, 0), (1000, 1000), (999_999, 60_000)])
def test_elapsed_time_stays_between_nothing_and_the_whole(measured: int, told: int) -> None:
    plan = a_plan("runtime")
    end_operation(plan, a_session(operation=running()), route(elapsed_ms=measured), "interrupted", None)
    ended = next(fact.operation for fact in plan.facts if isinstance(fact, OperationEnded))
    assert (ended.elapsed_ms, ended.ends_at) == (told, NOW + 60_000)


@pytest.mark.parametrize(
    ("schema", "result"),
    [
        ({"type": "object"}, {"outcome": "completed", "elapsed_ms": 5}),
        (
            {"properties": {"outcome": {}, "label": {}}, "additionalProperties": False},
            {"outcome": "completed", "label": "tea"},
        ),
        ({"properties": {"outcome": {}}, "additionalProperties": False}, {"outcome": "completed"}),
        ({"oneOf": [{"properties": {"outcome": {"const": "other"}}}]}, None),
    ],
)
def test_facts_are_fitted_into_the_tools_own_schema(schema: dict[str, Any], result: Any) -> None:
    facts = {"outcome": "completed", "elapsed_ms": 5}
    assert fit_result(timer(output_schema=schema), {"label": "tea"}, facts, Schemas()) == result


def test_no_decider_knows_an_app_by_name() -> None:
    folder = Path(str(lineloop.device.decide.__file__)).parent.parent
    for path in folder.rglob("*.py"):
        assert "pomodoro." not in path.read_text(), path
