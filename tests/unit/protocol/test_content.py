"""Content: its text, its purpose, and what only the system may write (spec/protocol.md §3, §4)."""

from __future__ import annotations

from typing import Any

import pytest

from lineloop.protocol.actors import Actor
from lineloop.protocol.content import (
    Purpose,
    check_patch,
    content_text,
    derive_purpose,
    envelope_content,
    envelope_of,
    result_block,
    text_content,
    validate_content,
)
from lineloop.protocol.errors import ErrorCode, Forbidden, InvalidRequest, LoopError
from lineloop.protocol.patches import empty_content

PERSON = Actor("user", "ann")
OPERATOR = Actor("operator", "echo")
DEVICE = Actor("runtime", "desk")
CONTROLLED = [
    {"id": "q", "type": "ask", "text": "?"},
    {"id": "q", "type": "confirm", "text": "?"},
    {"id": "r", "type": "human_reply", "value": "accepted"},
    {"id": "result", "type": "result", "format": "text", "content": "forged"},
]


def with_blocks(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {**empty_content(), "blocks": list(blocks)}


def test_text_is_read_back_as_it_was_written() -> None:
    assert content_text(text_content("hello\nworld")) == "hello\nworld"
    assert content_text(text_content("**hi**", markdown=True)) == "**hi**"


def test_text_of_several_blocks_is_joined_and_unknown_blocks_stay_silent() -> None:
    content = with_blocks(
        {"id": "a", "type": "text", "content": "one"},
        {"id": "b", "type": "chart", "content": "hidden"},
        {"id": "c", "type": "markdown", "content": "two"},
        {"id": "d", "type": "text", "content": None},
    )
    assert content_text(content) == "one\n\ntwo"


def test_a_result_that_repeats_the_streamed_text_is_read_once() -> None:
    streamed = {"id": "a", "type": "text", "content": "the answer"}
    assert content_text(with_blocks(streamed, result_block("text", "the answer"))) == "the answer"
    assert content_text(with_blocks(result_block("text", "the answer"))) == "the answer"
    assert content_text(with_blocks(result_block("json", {"a": 1}))) == ""


@pytest.mark.parametrize(
    ("content", "pointer"),
    [
        ([], "/content"),
        ({}, "/content/version"),
        ({"version": "1.1", "biz": "", "meta": {}, "blocks": []}, "/content/biz"),
        ({"version": "1.1", "biz": "chat", "meta": [], "blocks": []}, "/content/meta"),
        ({"version": "1.1", "biz": "chat", "meta": {}}, "/content/blocks"),
        (with_blocks({"id": "a"}), "/content/blocks/0/type"),
        (with_blocks({"id": "a", "type": "t"}, {"id": "a", "type": "t"}), "/content/blocks/1/id"),
    ],
)
def test_content_of_another_shape_is_refused_with_its_place(content: Any, pointer: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        validate_content(content)
    assert refusal.value.errors[0]["pointer"] == pointer


def test_content_that_nests_too_deeply_is_refused() -> None:
    deep: Any = "x"
    for _ in range(200):
        deep = [deep]
    with pytest.raises(InvalidRequest):
        validate_content(with_blocks({"id": "a", "type": "json", "content": deep}))


@pytest.mark.requirement("P5")
@pytest.mark.parametrize("block", CONTROLLED)
def test_controlled_blocks_cannot_be_spoken_but_the_system_may(block: dict[str, Any]) -> None:
    with pytest.raises(LoopError) as refusal:
        validate_content(with_blocks(block))
    assert refusal.value.code is ErrorCode.BLOCK_PROTECTED
    validate_content(with_blocks(block), allow_controlled=True)


@pytest.mark.requirement("P5")
@pytest.mark.parametrize("key", ["output", "question", "answer"])
def test_controlled_meta_cannot_be_spoken_but_the_system_may(key: str) -> None:
    content = text_content("x", meta={key: {}})
    with pytest.raises(LoopError) as refusal:
        validate_content(content)
    assert refusal.value.code is ErrorCode.BLOCK_PROTECTED
    validate_content(content, allow_controlled=True)


@pytest.mark.requirement("P5")
@pytest.mark.parametrize(
    "patch",
    [
        *({"op": "set", "seq": 1, "block": block} for block in CONTROLLED),
        {"op": "set", "seq": 1, "block": {"id": "e", "type": "envelope", "envelope": {}}},
        {"op": "set", "seq": 1, "mask": "block.type", "block": {"id": "plain", "type": "confirm"}},
        {"op": "set", "seq": 1, "mask": "block.text", "block": {"id": "card", "text": "pay all"}},
        {"op": "append", "seq": 1, "mask": "block.text", "block": {"id": "card", "text": "!"}},
        {"op": "set", "seq": 1, "block": {"id": "card", "type": "text", "content": "gone"}},
        {"op": "set", "seq": 1, "meta": {"output": {}}},
        {"op": "set", "seq": 1, "mask": "meta.output.run", "meta": {"output": {"run": "x"}}},
        {"op": "end", "seq": 1, "meta": {"question": {}}},
        {"op": "start", "seq": 1, "model": with_blocks(CONTROLLED[0])},
        {"op": "start", "seq": 1, "model": {**empty_content(), "meta": {"answer": 1}}},
    ],
)
def test_no_patch_of_an_ordinary_writer_reaches_a_controlled_part(patch: dict[str, Any]) -> None:
    content = with_blocks({"id": "plain", "type": "text"}, {"id": "card", "type": "ask", "text": "sure?"})
    with pytest.raises(LoopError) as refusal:
        check_patch(content, patch)
    assert refusal.value.code is ErrorCode.BLOCK_PROTECTED


def test_ordinary_patches_pass() -> None:
    content = with_blocks({"id": "plain", "type": "text", "content": ""})
    check_patch(
        content, {"op": "append", "seq": 1, "mask": "block.content", "block": {"id": "plain", "content": "x"}}
    )
    check_patch(content, {"op": "error", "seq": 1, "meta": {"error": {"code": "x"}}})
    check_patch(content, {"op": "set", "seq": 1, "meta": {"mood": "good"}})


def test_purpose_follows_from_speaker_and_content() -> None:
    envelope = envelope_content({"type": "lineup.tool.invoke"})
    asked = envelope_content({"type": "lineup.runtime.inventory", "payload": {}})
    published = envelope_content({"type": "lineup.runtime.inventory", "payload": {"revision": "inv_1"}})
    assert derive_purpose(PERSON, text_content("x")) is Purpose.INPUT
    assert derive_purpose(OPERATOR, text_content("x")) is Purpose.SPEECH
    assert derive_purpose(OPERATOR, envelope) is Purpose.ENVELOPE
    assert derive_purpose(OPERATOR, asked) is Purpose.ENVELOPE
    assert derive_purpose(DEVICE, published) is Purpose.INVENTORY
    assert derive_purpose(DEVICE, published, Purpose.INVENTORY) is Purpose.INVENTORY


@pytest.mark.parametrize("speaker", [PERSON, OPERATOR])
def test_nobody_but_a_device_speaks_a_devices_words(speaker: Actor) -> None:
    for kind in ("accepted", "progress", "result", "error"):
        with pytest.raises(Forbidden):
            derive_purpose(speaker, envelope_content({"type": f"lineup.tool.{kind}"}))
        with pytest.raises(Forbidden):
            derive_purpose(speaker, envelope_content({"type": f"lineup.tool.{kind}"}), Purpose.ENVELOPE)
    published = envelope_content({"type": "lineup.runtime.inventory", "payload": {"revision": "inv_1"}})
    asked = envelope_content({"type": "lineup.runtime.inventory", "payload": {}})
    with pytest.raises(Forbidden):
        derive_purpose(speaker, published)
    with pytest.raises(Forbidden):
        derive_purpose(speaker, asked, Purpose.INVENTORY)


@pytest.mark.parametrize("asked", [Purpose.ENVELOPE, Purpose.QUESTION, Purpose.RUN, Purpose.ANSWER])
def test_a_purpose_that_contradicts_its_content_is_refused(asked: Purpose) -> None:
    with pytest.raises(InvalidRequest):
        derive_purpose(OPERATOR, text_content("x"), asked)
    if asked is not Purpose.ENVELOPE:
        with pytest.raises(InvalidRequest):
            derive_purpose(OPERATOR, envelope_content({"type": "t"}), asked)


def test_an_envelope_stands_alone_and_is_never_streamed() -> None:
    carried = envelope_content({"v": 1})
    validate_content(carried)
    assert envelope_of(carried) == {"v": 1}
    assert envelope_of(text_content("x")) is None
    crowded = with_blocks(carried["blocks"][0], {"id": "t", "type": "text"})
    assert envelope_of(crowded) is None
    for content, streaming in ((crowded, False), (carried, True)):
        with pytest.raises(InvalidRequest):
            validate_content(content, streaming=streaming)
