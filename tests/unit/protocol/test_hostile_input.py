"""Whatever arrives, the answer is a value or a coded error (spec/protocol.md §3, §7, §8)."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineloop.kit import json
from lineloop.protocol.content import check_patch, validate_content
from lineloop.protocol.envelopes import check_envelope
from lineloop.protocol.errors import LoopError
from lineloop.protocol.link_requests import parse_link_frame
from lineloop.protocol.manifest import parse_manifest
from lineloop.protocol.patches import apply_patch, empty_content
from lineloop.protocol.requests import QuestionBody, SpeakBody, parse_body

WORDS = st.sampled_from(
    [
        "op",
        "set",
        "append",
        "seq",
        "mask",
        "block",
        "meta",
        "model",
        "id",
        "type",
        "content",
        "blocks",
        "version",
        "block.content",
        "meta.error",
        "1.1",
        "chat",
        "v",
        "scope",
        "target",
        "app_scope",
        "conversation_id",
        "payload",
        "params",
        "sender",
        "kind",
        "key",
        "text",
        "lineup.tool.invoke",
        "agent",
        "runtime",
        "speak",
        "commit",
        "patches",
        "end",
        "position",
        "message_id",
        "format",
        "entrypoints",
        "tools",
        "lineup.app.v1",
        "__proto__",
    ]
)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(-1e9, 1e9), WORDS)
JSON = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), WORDS
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(WORDS, inner, max_size=6)),
    max_leaves=30,
)
OPS = st.sampled_from(["set", "append", "start", "error", "end"])
PATCH = st.fixed_dictionaries({"op": OPS, "seq": st.just(1)})


@pytest.mark.requirement("P4")
@given(PATCH, st.dictionaries(WORDS, JSON, max_size=4))
def test_any_patch_is_applied_or_refused(head: dict[str, Any], rest: dict[str, Any]) -> None:
    content = {**empty_content(), "blocks": [{"id": "id", "type": "text", "content": "x"}]}
    patch = {**rest, **head}
    with contextlib.suppress(LoopError):
        check_patch(content, patch)
    with contextlib.suppress(LoopError):
        validate_content(apply_patch(content, patch), allow_controlled=True)


@pytest.mark.requirement("D2")
@given(JSON, st.booleans())
def test_any_value_is_an_envelope_or_refused(value: Any, from_agent: bool) -> None:
    with contextlib.suppress(LoopError):
        check_envelope(value, from_agent=from_agent)


@pytest.mark.requirement("P8")
@given(JSON)
def test_any_value_is_a_request_or_refused(value: Any) -> None:
    raw = json.dumps(value).encode()
    for model in (SpeakBody, QuestionBody):
        with contextlib.suppress(LoopError):
            parse_body(model, raw)
    with contextlib.suppress(LoopError):
        parse_link_frame(raw)
    with contextlib.suppress(LoopError):
        validate_content(value)


@pytest.mark.requirement("P13")
@given(JSON)
def test_any_value_is_a_manifest_or_refused(value: Any) -> None:
    with contextlib.suppress(LoopError):
        parse_manifest(json.dumps(value))


@pytest.mark.requirement("P8")
@given(st.binary(max_size=64))
def test_any_bytes_are_a_request_or_refused(raw: bytes) -> None:
    with contextlib.suppress(LoopError):
        parse_body(SpeakBody, raw)
    with contextlib.suppress(LoopError):
        parse_link_frame(raw)
