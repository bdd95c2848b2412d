"""Problem documents and the one tree of errors (spec/protocol.md §12)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lineloop.kit import json
from lineloop.protocol.error_codes import ERRORS, ErrorCode
from lineloop.protocol.errors import CapacityExceeded, Conflict, LoopError

ROOT = Path(__file__).resolve().parents[3]
CASES: list[Any] = json.loads((ROOT / "spec/golden/errors/problems.json").read_text("utf-8"))["cases"]


def name_of(case: Any) -> str:
    return case["name"]


@pytest.mark.requirement("P12")
@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_a_client_understands_a_golden_problem(case: Any) -> None:
    error = LoopError.from_problem(case["problem"])
    assert error.code == case["code"]
    assert error.retryable == case["retryable"]
    assert error.message == case["message"]
    assert [place["pointer"] for place in error.errors] == case.get("pointers", [])


@pytest.mark.requirement("P12")
@pytest.mark.parametrize("case", [case for case in CASES if case["code"] != "internal"], ids=name_of)
def test_a_problem_is_written_as_it_was_read(case: Any) -> None:
    assert LoopError.from_problem(case["problem"]).to_problem() == case["problem"]


@pytest.mark.requirement("P12")
@pytest.mark.parametrize("code", list(ErrorCode))
def test_every_code_survives_the_wire_with_its_class(code: ErrorCode) -> None:
    back = LoopError.from_problem(LoopError("why", code=code, detail={"a": 1}).to_problem())
    assert (back.code, back.status, back.detail) == (code, ERRORS[code].status, {"a": 1})


def test_classes_catch_their_codes() -> None:
    with pytest.raises(CapacityExceeded):
        raise LoopError.from_problem({"code": "harness_capacity_exceeded", "detail": "full"})
    with pytest.raises(Conflict):
        raise LoopError.from_problem({"code": "call_conflict", "detail": "other params"})
