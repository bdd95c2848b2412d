"""Which JSON is session data: the golden cases that the SDK reads too (spec/protocol.md §10.2)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lineloop.device.decide.session_data import check_session_data, parse_session_data
from lineloop.kit import json
from lineloop.protocol.errors import LoopError

GOLDEN = Path(__file__).resolve().parents[3] / "spec" / "golden"
CASES: list[Any] = json.loads((GOLDEN / "session_data/rules.json").read_text("utf-8"))["cases"]


def name_of(case: Any) -> str:
    return case["name"]


def text_of(case: Any) -> str:
    recipe = case.get("make", {})
    if "depth" in recipe:
        return '{"a":' * recipe["depth"] + "1" + "}" * recipe["depth"]
    if "bytes" in recipe:
        return '{"a":"' + "x" * (recipe["bytes"] - len('{"a":""}')) + '"}'
    return case["text"]


@pytest.mark.requirement("D40")
@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_a_golden_text_is_taken_or_refused_with_its_code(case: Any) -> None:
    text = text_of(case)
    if "code" not in case:
        check_session_data(parse_session_data(text))
        return
    with pytest.raises(LoopError) as refusal:
        check_session_data(parse_session_data(text))
    assert refusal.value.code == case["code"]
