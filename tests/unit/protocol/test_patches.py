"""The patch reducer, held to the cases that TypeScript reads too (spec/protocol.md §3)."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineloop.kit import json
from lineloop.protocol.errors import PatchInvalid
from lineloop.protocol.patches import apply_patch, check_model, empty_content, fold

GOLDEN = Path(__file__).resolve().parents[3] / "spec" / "golden"
CASES: list[Any] = json.loads((GOLDEN / "patches/reducer.json").read_text("utf-8"))["cases"]
TAKEN = [case for case in CASES if "result" in case]
REFUSED = [case for case in CASES if "refused" in case]


def name_of(case: Any) -> str:
    return case["name"]


@pytest.mark.requirement("P3")
@pytest.mark.parametrize("case", TAKEN, ids=name_of)
def test_a_golden_case_ends_in_its_result(case: Any) -> None:
    content: dict[str, Any] = case.get("content", empty_content())
    for patch in case["patches"]:
        content = apply_patch(content, patch)
    assert content == case["result"]
    assert list(content) == list(case["result"])


@pytest.mark.requirement("P3")
@pytest.mark.parametrize("case", TAKEN, ids=name_of)
def test_folding_gives_what_patch_by_patch_gives(case: Any) -> None:
    assert fold(case.get("content", empty_content()), case["patches"]) == case["result"]


@pytest.mark.requirement("P4")
@pytest.mark.parametrize("case", REFUSED, ids=name_of)
def test_a_golden_refusal_names_its_place(case: Any) -> None:
    content: dict[str, Any] = case.get("content", empty_content())
    at = case["refused"]["at"]
    for patch in case["patches"][:at]:
        content = apply_patch(content, patch)
    before = copy.deepcopy(content)
    with pytest.raises(PatchInvalid) as refusal:
        apply_patch(content, case["patches"][at])
    assert refusal.value.errors[0]["pointer"] == case["refused"]["pointer"]
    assert content == before


@pytest.mark.requirement("P4")
@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_no_input_is_ever_changed(case: Any) -> None:
    content: dict[str, Any] = case.get("content", empty_content())
    patches = copy.deepcopy(case["patches"])
    for patch in case["patches"]:
        before = copy.deepcopy(content)
        try:
            after = apply_patch(content, patch)
        except PatchInvalid:
            assert content == before
            break
        assert content == before
        content = after
    assert case["patches"] == patches


def test_folding_refuses_what_patch_by_patch_refuses() -> None:
    for case in REFUSED:
        with pytest.raises(PatchInvalid):
            fold(case.get("content", empty_content()), case["patches"])


def test_an_append_shares_everything_off_its_path() -> None:
    content: dict[str, Any] = {
        **empty_content(),
        "blocks": [{"id": "a", "type": "text", "content": "x", "big": [1]}],
    }
    other = {"id": "b", "type": "json", "content": {"deep": [1, 2, 3]}}
    content["blocks"].append(other)
    patch = {"op": "append", "seq": 1, "mask": "block.content", "block": {"id": "a", "content": "y"}}
    after = apply_patch(content, patch)
    assert after["blocks"][1] is other
    assert after["blocks"][0]["big"] is content["blocks"][0]["big"]
    assert after["meta"] is content["meta"]


def test_a_long_run_of_appends_folds_into_one_text() -> None:
    patches = [{"op": "set", "seq": 1, "block": {"id": "a", "type": "text", "content": ""}}]
    patches += [
        {"op": "append", "seq": seq, "mask": "block.content", "block": {"id": "a", "content": "word "}}
        for seq in range(2, 20_002)
    ]
    assert fold(empty_content(), patches)["blocks"][0]["content"] == "word " * 20_000


IDS = st.sampled_from(["a", "b", "c"])
TEXTS = st.text(max_size=4)
PATCHES = st.one_of(
    st.builds(lambda i, t: {"op": "set", "block": {"id": i, "type": "text", "content": t}}, IDS, TEXTS),
    st.builds(
        lambda i, t: {"op": "set", "mask": "block.content", "block": {"id": i, "content": t}},
        IDS,
        st.one_of(TEXTS, st.none(), st.integers()),
    ),
    st.builds(
        lambda i, t: {"op": "append", "mask": "block.content", "block": {"id": i, "content": t}}, IDS, TEXTS
    ),
    st.builds(lambda t: {"op": "error", "meta": {"error": {"code": t}}}, TEXTS),
    st.just({"op": "ping"}),
)


@pytest.mark.requirement("P3")
@given(st.lists(PATCHES, max_size=30))
def test_any_history_keeps_block_ids_unique_and_folds_alike(history: list[dict[str, Any]]) -> None:
    content = empty_content()
    applied: list[dict[str, Any]] = []
    for patch in history:
        numbered = {**patch, "seq": len(applied) + 1}
        try:
            content = apply_patch(content, numbered)
        except PatchInvalid:
            continue
        applied.append(numbered)
    check_model(content)
    assert fold(empty_content(), applied) == content
