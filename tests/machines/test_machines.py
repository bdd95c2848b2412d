"""Every state and every event of every table, against the golden tables (spec/protocol.md §11)."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from lineloop.kit import json
from lineloop.protocol.errors import ErrorCode, IllegalTransition
from lineloop.protocol.machine import Machine, table_of
from lineloop.protocol.machines import MACHINES, RunPhase, operation_machine
from lineloop.protocol.runs import MessageStatus, message_status_of

GOLDEN = Path(__file__).resolve().parents[2] / "spec" / "golden" / "machines"
TABLES: dict[str, Any] = {
    path.stem: json.loads(path.read_text("utf-8")) for path in sorted(GOLDEN.glob("*.json"))
}
BY_NAME: dict[str, Machine[str, str]] = {machine.name: machine for machine in MACHINES}
PAIRS = [
    (name, state, event)
    for name, table in TABLES.items()
    for state, event in product(table["states"], table["events"])
]


@pytest.mark.requirement("P11")
def test_each_golden_table_has_its_machine_and_the_reverse() -> None:
    assert set(TABLES) == set(BY_NAME)


@pytest.mark.requirement("P11")
@pytest.mark.parametrize(("name", "state", "event"), PAIRS)
def test_a_pair_steps_as_the_table_says_or_is_refused(name: str, state: str, event: str) -> None:
    legal = {(start, by): end for start, by, end in TABLES[name]["transitions"]}
    machine = BY_NAME[name]
    assert machine.allows(state, event) == ((state, event) in legal)
    if (state, event) in legal:
        assert machine.next(state, event) == legal[(state, event)]
        return
    with pytest.raises(IllegalTransition) as refusal:
        machine.next(state, event)
    assert refusal.value.code is ErrorCode.ILLEGAL_TRANSITION
    assert refusal.value.detail == {"machine": name, "state": state, "event": event}


@pytest.mark.requirement("P11")
@pytest.mark.parametrize("name", list(TABLES))
def test_states_events_start_and_ends_match(name: str) -> None:
    table, machine = TABLES[name], BY_NAME[name]
    assert machine.initial == table["initial"]
    assert set(machine.states) == set(table["states"])
    assert set(machine.events) == set(table["events"])
    assert machine.terminal == set(table["terminal"])
    assert {state for state in machine.states if machine.is_terminal(state)} == set(table["terminal"])


@pytest.mark.parametrize("name", list(TABLES))
def test_every_state_can_be_reached_and_every_live_state_can_end(name: str) -> None:
    machine = BY_NAME[name]
    reached, waiting = {machine.initial}, [machine.initial]
    while waiting:
        state = waiting.pop()
        for (start, _), end in machine.transitions.items():
            if start == state and end not in reached:
                reached.add(end)
                waiting.append(end)
    assert reached == set(machine.states)
    for state in machine.states:
        assert machine.is_terminal(state) or any(start == state for start, _ in machine.transitions)


def test_an_operation_ends_once_in_a_declared_outcome() -> None:
    machine = operation_machine(["completed", "interrupted"], active="focusing")
    assert machine.next("focusing", "completed") == "completed"
    with pytest.raises(IllegalTransition):
        machine.next("completed", "interrupted")
    with pytest.raises(IllegalTransition):
        machine.next("focusing", "exploded")


@pytest.mark.parametrize("outcomes", [[], ["active"]])
def test_an_operation_without_real_outcomes_is_refused(outcomes: list[str]) -> None:
    with pytest.raises(ValueError, match="outcomes"):
        operation_machine(outcomes)


def test_two_rows_for_one_pair_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="two rows"):
        table_of([(("a",), "go", "b"), (("a",), "go", "c")])


def test_the_output_message_of_a_run_ends_as_the_run_ends() -> None:
    expected = {RunPhase.SUCCEEDED: MessageStatus.COMPLETED, RunPhase.CANCELLED: MessageStatus.CANCELLED}
    for phase in RunPhase:
        live = phase in (RunPhase.PENDING, RunPhase.STARTING, RunPhase.RUNNING, RunPhase.WAITING_INPUT)
        wanted = MessageStatus.STREAMING if live else expected.get(phase, MessageStatus.FAILED)
        assert message_status_of(phase) is wanted
