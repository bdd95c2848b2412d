"""Pieces of a streamed response, as different servers send them, become the same response."""

from __future__ import annotations

from typing import Any

import pytest

from lineloop.harness.model_stream import MAX_RESPONSE_CHARS, NotAResponse, ResponsePieces


def words(text: Any) -> dict[str, Any]:
    return {"choices": [{"delta": {"content": text}}]}


def call(index: Any, arguments: Any = None, name: Any = None, identity: Any = None) -> Any:
    piece = {"index": index, "id": identity, "function": {"name": name, "arguments": arguments}}
    return {"choices": [{"delta": {"tool_calls": [piece]}}]}


def taken(*pieces: Any) -> ResponsePieces:
    response = ResponsePieces()
    for piece in pieces:
        response.take(piece)
    response.rest()
    return response


STREAMS = {
    "as documented": (
        call(0, "", "a", "c1"), call(0, '{"x"'), call(0, ":1}"), call(1, "", "b", "c2"), call(1, '{"y":2}'),
    ),
    "every call is numbered 0": (
        call(0, "", "a", "c1"), call(0, '{"x":1}'), call(0, "", "b", "c2"), call(0, '{"y":2}'),
    ),
    "without numbers": (
        call(None, "", "a", "c1"), call(None, '{"x":1}'), call(None, "", "b", "c2"), call(None, '{"y":2}'),
    ),
    "id and name in every piece": (
        call(0, '{"x"', "a", "c1"), call(0, ":1}", "a", "c1"), call(1, '{"y":2}', "b", "c2"),
    ),
    "whole calls, numbered 0, without ids": (call(0, '{"x":1}', "a"), call(0, '{"y":2}', "b")),
    "arguments as objects": (call(0, {"x": 1}, "a", "c1"), call(1, {"y": 2}, "b", "c2")),
    "pieces in turns": (
        call(0, "", "a", "c1"), call(1, "", "b", "c2"), call(0, '{"x":1}'), call(1, '{"y":2}'),
    ),
}  # fmt: skip


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS.keys())
def test_two_calls_stay_two_calls_however_they_are_numbered(stream: tuple[Any, ...]) -> None:
    calls, unreadable = taken(*stream).calls()
    assert calls == (("a", {"x": 1}), ("b", {"y": 2}))
    assert unreadable == {}


@pytest.mark.parametrize("arguments", ['{"x":', "[1]", "null", "NaN", '"text"'])
def test_arguments_that_are_no_object_are_named_and_not_guessed(arguments: str) -> None:
    calls, unreadable = taken(call(0, arguments, "a", "c1")).calls()
    assert calls == (("a", {}),)
    assert arguments in unreadable[0]


def test_no_arguments_are_an_empty_object() -> None:
    assert taken(call(0, None, "a", "c1"), call(0, " ")).calls() == ((("a", {}),), {})


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (["Hel", "lo ", "you"], "Hello you"),
        (["\n\n Hello"], "Hello"),
        (["<think>secret", " plan</think>\n\nHello"], "Hello"),
        (["<th", "ink>secret</th", "ink>", "\n", "Hello"], "Hello"),
        (["<", "b>"], "<b>"),
        (["<thi"], "<thi"),
        (["Hello <think>"], "Hello <think>"),
        (["<think>only a plan"], ""),
    ],
)
def test_a_thought_at_the_beginning_is_not_shown(pieces: list[str], text: str) -> None:
    response = ResponsePieces()
    said = "".join(response.take(words(piece)) for piece in pieces) + response.rest()
    assert (said, response.text) == (text, text)


@pytest.mark.parametrize(
    "piece",
    [5, "x", [], {}, {"choices": 7}, {"choices": [7]}, {"choices": [{"delta": 7}]}, words(7),
     {"choices": [{"delta": {"tool_calls": [7]}}]}, call(0, 7, "a"), call(0, "", 7)],
)  # fmt: skip
def test_what_is_no_piece_of_a_response_is_refused(piece: Any) -> None:
    with pytest.raises(NotAResponse):
        ResponsePieces().take(piece)


def test_a_response_has_an_end_and_a_size() -> None:
    response = taken(words("a"))
    assert not response.ended
    response.take({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    response.take({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": True}})
    assert (response.ended, response.usage) == (True, {"input_tokens": 3})
    with pytest.raises(NotAResponse):
        response.take(words("a" * MAX_RESPONSE_CHARS))
