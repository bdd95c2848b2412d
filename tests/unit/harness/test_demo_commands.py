"""The plain commands of the demo: operands are checked, and what is wrong is said."""

from __future__ import annotations

import pytest

from lineloop.harness.demo.commands import MAX_SLOW_SECONDS, parse_command


@pytest.mark.parametrize(
    ("text", "number"), [("/slow", 5), ("/slow 1", 1), (f"/slow {MAX_SLOW_SECONDS}", MAX_SLOW_SECONDS)]
)
def test_slow_counts_as_far_as_it_is_told(text: str, number: int) -> None:
    command = parse_command(text)
    assert command is not None
    assert (command.number, command.problem) == (number, "")


@pytest.mark.parametrize("operand", ["0", "601", "-1", "1.5", "many", "9" * 5000, "٣x", "²"])
def test_slow_says_its_bounds_instead_of_counting_something_else(operand: str) -> None:
    command = parse_command(f"/slow {operand}")
    assert command is not None
    assert command.problem == f"/slow takes a whole number of seconds from 1 to {MAX_SLOW_SECONDS}"
