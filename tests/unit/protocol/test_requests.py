"""Request bodies and link frames: limits, exclusive fields, coded refusals (spec/protocol.md §8.2, §8.3)."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from lineloop.kit import json
from lineloop.protocol.actors import Actor
from lineloop.protocol.errors import LimitExceeded, LoopError
from lineloop.protocol.link_requests import LinkHello, LinkSpeak, parse_link_frame
from lineloop.protocol.machines import MessageStatus
from lineloop.protocol.requests import (
    AnswerBody,
    CommitBody,
    ConversationBody,
    EndBody,
    PatchesBody,
    PollBody,
    QuestionBody,
    RunBody,
    SpeakBody,
    TokenBody,
    parse_body,
)

ASK: dict[str, Any] = {
    "kind": "ask",
    "effect_key": "e",
    "to": {"kind": "user", "key": "ann"},
    "text": "Which?",
    "choices": [{"value": "a", "label": "A"}],
    "timeout_ms": 1000,
}
RUN: dict[str, Any] = {
    "conversation_id": "c",
    "idempotency_key": "k",
    "effect_key": "e",
    "target": "demo",
    "text": "go",
}


def refusal(model: type[BaseModel], value: Any) -> LoopError:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    with pytest.raises(LoopError) as caught:
        parse_body(model, raw)
    return caught.value


def pointers(error: LoopError) -> list[str]:
    return [place["pointer"] for place in error.errors]


@pytest.mark.requirement("P8")
@pytest.mark.parametrize(
    "raw", [b"", b"{", b'{"key": }', b"\xff", b'{"key":"\\ud800","text":"x"}', b'{"a": NaN}']
)
def test_what_is_no_json_is_malformed(raw: bytes) -> None:
    error = refusal(SpeakBody, raw)
    assert (error.code, error.status) == ("malformed_json", 400)


@pytest.mark.requirement("P8")
def test_hostile_depth_is_refused_without_harm() -> None:
    assert refusal(SpeakBody, b'{"key":"k","content":' + b"[" * 100_000).code == "malformed_json"


@pytest.mark.requirement("P8")
def test_an_unknown_field_is_named() -> None:
    error = refusal(SpeakBody, {"key": "k", "text": "x", "colour": 1})
    assert (error.code, error.status, pointers(error)) == ("unknown_field", 422, ["/colour"])


@pytest.mark.requirement("P8")
def test_every_broken_place_is_named() -> None:
    error = refusal(SpeakBody, {"text": 1, "actor": {"kind": "user"}, "colour": 1})
    assert error.code == "invalid_request"
    assert set(pointers(error)) == {"/key", "/text", "/actor", "/colour"}


@pytest.mark.requirement("P8")
@pytest.mark.parametrize(
    ("value", "limit"),
    [
        ({"key": "k" * 257, "text": "x"}, "key_bytes"),
        ({"key": "界" * 86, "text": "x"}, "key_bytes"),
        ({"key": "k", "text": "x", "meta": {"m": "x" * (32 * 1024)}}, "meta_bytes"),
    ],
)
def test_a_limit_is_answered_with_its_name(value: Any, limit: str) -> None:
    error = refusal(SpeakBody, value)
    assert isinstance(error, LimitExceeded)
    assert (error.code, error.detail["limit"]) == ("limit_exceeded", limit)


def test_a_key_of_256_bytes_is_taken() -> None:
    assert len(parse_body(SpeakBody, json.dumps({"key": "k" * 256, "text": "x"})).key) == 256


@pytest.mark.requirement("L25")
@pytest.mark.parametrize(
    "value",
    [
        {"key": "k", "text": "x", "stream": True, "status": "failed"},
        {"key": "k", "text": "x", "status": "streaming"},
        {"key": "k", "text": "x", "stream": True, "status": "streaming"},
        {"key": "k", "text": "x", "status": "done"},
    ],
)
def test_stream_and_status_exclude_each_other(value: Any) -> None:
    assert refusal(SpeakBody, value).status == 422


@pytest.mark.requirement("P8")
@pytest.mark.parametrize(
    ("model", "value"),
    [
        (SpeakBody, {"key": "k"}),
        (SpeakBody, {"key": "k", "text": "x", "content": {}}),
        (SpeakBody, {"key": "", "text": "x"}),
        (SpeakBody, {"key": "a\u0000b", "text": "x"}),
        (SpeakBody, {"key": "k", "text": "x", "purpose": "run"}),
        (SpeakBody, {"key": "k", "text": "x", "target": {"kind": "operator", "key": "a/b"}}),
        (SpeakBody, {"key": "k", "text": "x", "target": {"kind": "operator", "key": "a", "role": "x"}}),
        (SpeakBody, {"key": "k", "text": "x", "target": "operator/a"}),
        (SpeakBody, {"key": "k", "text": "x", "stream": "yes"}),
        (SpeakBody, [1]),
        (ConversationBody, {"name": "x" * 201}),
        (PollBody, {"after": -1}),
        (PollBody, {"after": "1"}),
        (PollBody, {"after": 1.5}),
        (PollBody, {"limit": 0}),
        (CommitBody, {}),
        (CommitBody, {"position": True}),
        (EndBody, {"seq": 0}),
        (EndBody, {"seq": 1, "status": "streaming"}),
        (PatchesBody, {"patches": []}),
        (PatchesBody, {"patches": {}}),
        (QuestionBody, {**ASK, "choices": []}),
        (QuestionBody, {**ASK, "choices": [{"value": "a", "label": "A"}, {"value": "a", "label": "B"}]}),
        (QuestionBody, {**ASK, "choices": [{"value": "", "label": "A"}]}),
        (QuestionBody, {**ASK, "timeout_ms": 0}),
        (QuestionBody, {**ASK, "labels": {"accepted": "Go"}}),
        (QuestionBody, {**ASK, "kind": "confirm"}),
        (QuestionBody, {key: value for key, value in ASK.items() if key != "timeout_ms"}),
        (AnswerBody, {"value": "a"}),
        (AnswerBody, {"reply_to_id": "m"}),
        (AnswerBody, {"reply_to_id": "m", "value": "a", "dismiss": True}),
        (AnswerBody, {"reply_to_id": "m", "dismiss": False}),
        (RunBody, {**RUN, "text": ""}),
        (RunBody, {**RUN, "timeout_ms": 0}),
        (TokenBody, {"actor": "nobody"}),
        (LinkHello, {"hello": {"token": "t"}}),
    ],
)
def test_a_body_that_breaks_a_rule_is_unprocessable(model: type[BaseModel], value: Any) -> None:
    assert refusal(model, value).status == 422


def test_a_broken_patch_is_patch_invalid_and_an_end_is_not_a_patch() -> None:
    for patch in ({"op": "explode", "seq": 1}, {"op": "end", "seq": 1}):
        error = refusal(PatchesBody, {"patches": [patch]})
        assert (error.code, pointers(error)) == ("patch_invalid", ["/patches/0"])


def test_bodies_in_order_are_taken() -> None:
    assert parse_body(ConversationBody, b"{}").name is None
    assert parse_body(EndBody, b'{"seq":3}').status is MessageStatus.COMPLETED
    assert parse_body(PollBody, b"{}").after is None
    assert parse_body(QuestionBody, json.dumps(ASK)).to == Actor("user", "ann")
    assert parse_body(QuestionBody, json.dumps({**ASK, "choices": [], "allow_other": True})).allow_other
    confirm = {**ASK, "kind": "confirm", "choices": [], "labels": {"accepted": "Ja", "declined": "Nein"}}
    assert parse_body(QuestionBody, json.dumps(confirm)).labels is not None
    assert parse_body(RunBody, json.dumps(RUN)).timeout_ms == 30 * 60 * 1000
    assert parse_body(TokenBody, b'{"actor":"operator/echo"}').actor == Actor("operator", "echo")
    assert parse_body(TokenBody, b'{"actor":{"kind":"operator","key":"*"}}').actor.key == "*"
    assert parse_body(SpeakBody, b'{"key":"k","stream":true}').stream


@pytest.mark.requirement("P9")
def test_a_broken_item_of_a_frame_leaves_its_neighbours_alone() -> None:
    frame = parse_link_frame(
        json.dumps(
            {
                "id": 7,
                "speak": [
                    {"conversation_id": "c", "key": "k", "text": "x"},
                    {"conversation_id": "c", "key": "k"},
                    {"conversation_id": "c", "key": "k", "text": "y", "colour": 1},
                ],
                "commit": [{"conversation_id": "c", "position": -1}, {"conversation_id": "c", "position": 3}],
                "patches": [{"message_id": "m", "patches": [{"op": "end", "seq": 1}]}],
                "end": [{"message_id": "m", "seq": 2}, 5],
            }
        )
    )
    assert frame.id == 7
    assert isinstance(frame.speak[0], LinkSpeak)
    codes = [
        [item.code.value if isinstance(item, LoopError) else None for item in part]
        for part in (frame.speak, frame.commit, frame.patches, frame.end)
    ]
    assert codes == [
        [None, "invalid_request", "unknown_field"],
        ["invalid_request", None],
        ["patch_invalid"],
        [None, "invalid_request"],
    ]


@pytest.mark.requirement("P9")
def test_a_whole_frame_is_the_same_as_text_and_as_value() -> None:
    value = {"id": "f", "commit": [{"conversation_id": "c", "position": 3}]}
    assert parse_link_frame(json.dumps(value)) == parse_link_frame(value)
    assert parse_link_frame(b'{"ping":{}}').ping
    assert parse_link_frame({"pong": {}}).pong


@pytest.mark.parametrize(
    "raw", [b"[]", b"{", b'{"id":1,"shout":[]}', b'{"speak":[{}]}', b'{"id":1,"speak":{}}']
)
def test_a_frame_that_is_broken_itself_is_refused(raw: bytes) -> None:
    with pytest.raises(LoopError):
        parse_link_frame(raw)


@pytest.mark.parametrize("text", ["2.0", "2", "2e0"])
def test_an_integer_is_one_however_it_is_written(text: str) -> None:
    body = parse_body(EndBody, f'{{"seq":{text}}}')
    assert (body.seq, type(body.seq)) == (2, int)


@pytest.mark.parametrize("text", ["2.5", '"2"', "true", "1e300", "0.0"])
def test_what_is_no_integer_in_its_range_is_refused(text: str) -> None:
    assert pointers(refusal(EndBody, f'{{"seq":{text}}}'.encode())) == ["/seq"]
