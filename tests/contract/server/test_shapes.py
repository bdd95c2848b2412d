"""The shape of a content judges a patch exactly as the content itself does, at a cost of its own."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lineloop.protocol.errors import LoopError
from lineloop.protocol.patches import apply_patch, empty_content
from lineloop.server.decide.messages import shape_of, shape_of_patch

NAMES = st.sampled_from(["content", "items", "data", "type", "id", "ref", "x"])
LEAVES = st.one_of(st.text(max_size=5), st.integers(), st.none(), st.booleans())
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
IDS = st.sampled_from(["a", "b"])
MASKS = st.lists(NAMES, min_size=1, max_size=3).map(".".join)


@st.composite
def patches(draw: st.DrawFn) -> dict[str, Any]:
    op = draw(st.sampled_from(["set", "append", "error", "ping"]))
    if op == "ping":
        return {"op": op, "seq": 1}
    if op == "error":
        return {"op": op, "seq": 1, "meta": {"error": draw(VALUES)}}
    if draw(st.booleans()):
        patch: dict[str, Any] = {"op": op, "seq": 1, "meta": draw(st.dictionaries(NAMES, VALUES, max_size=3))}
        root = "meta"
    else:
        fields = draw(st.dictionaries(NAMES, VALUES, max_size=4))
        patch = {"op": op, "seq": 1, "block": {**fields, "id": draw(IDS)}}
        root = "block"
    if draw(st.booleans()):
        patch["mask"] = f"{root}.{draw(MASKS)}"
    return patch


def attempt(content: Any, patch: Any) -> Any:
    try:
        return apply_patch(content, patch)
    except LoopError as error:
        return error.code


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(st.lists(patches(), max_size=12))
def test_a_patch_applies_to_the_shape_when_it_applies_to_the_content(sequence: list[dict[str, Any]]) -> None:
    content = empty_content()
    shape = shape_of(content)
    for patch in sequence:
        after, shape_after = attempt(content, patch), attempt(shape, shape_of_patch(patch))
        if isinstance(after, str):
            assert shape_after == after
            continue
        content, shape = after, shape_after
        assert shape == shape_of(content)


def test_a_shape_does_not_grow_with_the_text() -> None:
    block = {"id": "t", "type": "text", "content": "x" * 1_000_000, "items": list(range(1000))}
    content = {**empty_content(), "blocks": [block]}
    assert shape_of(content)["blocks"] == [{"id": "t", "type": "text", "content": "", "items": []}]
