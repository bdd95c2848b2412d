"""How a frame is read and written, whatever carries it: bridge sessions and the shell share it.

A frame is one JSON text: `{"v":1,"id"?,"type","payload"}` for requests (with id) and events (without), and
`{"v":1,"reply_to","ok"|"error"}` for answers. A `Grammar` says which types there are, who sends them and how
large they may be; what a frame means is left to its receiver.

The head comes first and in this order, so that a frame whose payload is not acceptable JSON can still be
answered by its id.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any, cast

from lineloop.kit import json
from lineloop.kit.json_size import is_larger
from lineloop.kit.records import record
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import LoopError
from lineloop.protocol.json_rules import is_deeper_than

VERSION = 1
MAX_ID_CHARS = 256


class Direction(StrEnum):
    """Who sends: an app session or a page to the Runtime, the Runtime to an app session or to a page."""

    TO_RUNTIME = "to_runtime"
    TO_APP = "to_app"
    TO_PAGE = "to_page"


class Audience(StrEnum):
    """Which app sessions may send a frame: all, or those of core apps only."""

    EVERY_APP = "every_app"
    CORE_APPS = "core_apps"


Check = Callable[[Any], bool]


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_name(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_ID_CHARS


def is_name_or_null(value: Any) -> bool:
    return value is None or is_name(value)


def is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**53


def is_object(value: Any) -> bool:
    return isinstance(value, dict)


def is_object_or_null(value: Any) -> bool:
    return value is None or isinstance(value, dict)


def is_list(value: Any) -> bool:
    return isinstance(value, list)


def is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def is_anything(_: Any) -> bool:
    return True


def is_names(value: Any) -> bool:
    return isinstance(value, list) and all(is_name(item) for item in cast("list[Any]", value))


def one_of(*words: str) -> Check:
    """A check for a text that is one of `words`."""
    allowed = frozenset(words)
    return lambda value: isinstance(value, str) and value in allowed


@record
class Shape:
    """One frame type: who sends it, whether it asks for an answer, and its payload's fields."""

    direction: Direction
    request: bool
    required: Mapping[str, Check]
    optional: Mapping[str, Check]
    audience: Audience = Audience.EVERY_APP


@record
class Grammar:
    """The frames of one kind of connection.

    A frame has at most `max_bytes` (UTF-8) and nests at most `max_depth` levels; types in `roomy` have at
    most `max_roomy_bytes` and limits of their own further down. `code_of_unread` names the refusal of a text
    that was not read as JSON, by the type in its head and whether it was too large.
    """

    shapes: Mapping[str, Shape]
    max_bytes: int
    max_depth: int
    max_roomy_bytes: int
    roomy: frozenset[str] = field(default_factory=frozenset[str])
    code_of_unread: Callable[[str, bool], ErrorCode] = lambda _type, _too_large: ErrorCode.BRIDGE_INVALID


_HEAD = re.compile(r'^\{"v":1,"id":"([^"\\]{1,256})","type":"([a-z_.]{1,40})"')
_FIELDS = frozenset({"v", "id", "type", "payload"})
_ANSWER_FIELDS = (frozenset({"v", "reply_to", "ok"}), frozenset({"v", "reply_to", "error"}))


@record
class Frame:
    """A valid request or event. `id` is None for events."""

    type: str
    payload: dict[str, Any]
    id: str | None = None


@record
class Answer:
    """A valid answer: exactly one of `ok` and `error` counts."""

    reply_to: str
    ok: Any = None
    error: dict[str, Any] | None = None


class FrameRefused(LoopError):
    """A frame that is not taken. `request_id` is set when the sender can be answered."""

    default_code = ErrorCode.BRIDGE_INVALID

    def __init__(
        self, message: str, *, request_id: str | None = None, code: ErrorCode = ErrorCode.BRIDGE_INVALID
    ) -> None:
        super().__init__(message, code=code)
        self.request_id = request_id


def read_frame(
    grammar: Grammar, text: str, direction: Direction, *, core: bool = False, strict: bool = True
) -> Frame | Answer:
    """Reads one frame sent in `direction`; `core` says whether the sender may send what only core apps may.

    `strict` refuses names that occur twice; a sender whose codec is known not to write them may go without.

    Raises FrameRefused: bridge_invalid for a frame that is no valid one in this direction, forbidden for one
    that only core apps may send, or what `code_of_unread` names.
    """
    if is_larger(text, grammar.max_roomy_bytes):
        raise refuse_unread(grammar, text, "the frame is too large")
    try:
        value = json.strict_loads(text) if strict else json.loads(text)
    except ValueError as error:
        raise refuse_unread(grammar, text, f"not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise FrameRefused("a frame is an object")
    frame = cast("dict[str, Any]", value)
    if frame.get("v") != VERSION or isinstance(frame["v"], bool):
        raise FrameRefused("unknown version")
    if "reply_to" in frame:
        return _answer(frame)
    return _request(grammar, frame, text, direction, core)


def refuse_unread(grammar: Grammar, text: str, why: str) -> FrameRefused:
    """The refusal of text that was not read as JSON; answerable when its head can be read."""
    head = _HEAD.match(text[:512])
    if head is None:
        return FrameRefused(why)
    code = grammar.code_of_unread(head[2], is_larger(text, grammar.max_roomy_bytes))
    return FrameRefused(why, request_id=head[1], code=code)


def _answer(frame: dict[str, Any]) -> Answer:
    if frozenset(frame) not in _ANSWER_FIELDS or not is_name(frame["reply_to"]):
        raise FrameRefused("an answer has reply_to and either ok or error")
    error = frame.get("error")
    if "error" in frame and not isinstance(error, dict):
        raise FrameRefused("an error is an object")
    return Answer(frame["reply_to"], frame.get("ok"), cast("dict[str, Any] | None", error))


def _request(grammar: Grammar, frame: dict[str, Any], text: str, direction: Direction, core: bool) -> Frame:
    request_id = frame.get("id")
    known_id = request_id if is_name(request_id) else None
    if not frame.keys() <= _FIELDS:
        raise FrameRefused("unknown field in the frame", request_id=known_id)
    if "id" in frame and known_id is None:
        raise FrameRefused("an id is a short text")
    kind, payload = frame.get("type"), frame.get("payload")
    shape = grammar.shapes.get(kind) if isinstance(kind, str) else None
    if shape is None:
        raise FrameRefused("unknown frame type", request_id=known_id)
    assert isinstance(kind, str)
    if shape.direction is not direction:
        raise FrameRefused(f"{kind} goes the other way", request_id=known_id)
    if shape.request != (known_id is not None) and direction is Direction.TO_RUNTIME:
        raise FrameRefused(f"{kind} {'needs an' if shape.request else 'has no'} id", request_id=known_id)
    if shape.audience is Audience.CORE_APPS and not core:
        raise FrameRefused(f"{kind} is for core apps", request_id=known_id, code=ErrorCode.FORBIDDEN)
    fields = _checked_payload(kind, shape, payload, known_id)
    _check_bounds(grammar, kind, text, fields, known_id)
    return Frame(kind, fields, known_id)


def _checked_payload(kind: str, shape: Shape, payload: Any, request_id: str | None) -> dict[str, Any]:
    if not isinstance(payload, dict):
        raise FrameRefused(f"{kind} needs a payload", request_id=request_id)
    fields = cast("dict[str, Any]", payload)
    for name, check in shape.required.items():
        if name not in fields or not check(fields[name]):
            raise FrameRefused(f"{kind}: {name} is missing or of the wrong type", request_id=request_id)
    for name, value in fields.items():
        if name in shape.required:
            continue
        check = shape.optional.get(name)
        if check is None or not check(value):
            raise FrameRefused(f"{kind}: {name[:40]!r} is not taken", request_id=request_id)
    return fields


def _check_bounds(
    grammar: Grammar, kind: str, text: str, payload: dict[str, Any], request_id: str | None
) -> None:
    """Size and depth. Roomy frames have their own, coded limits further down; here only the others'."""
    if kind in grammar.roomy:
        return
    if is_larger(text, grammar.max_bytes):
        raise FrameRefused(f"{kind} is larger than {grammar.max_bytes} bytes", request_id=request_id)
    # Counting brackets is cheap, and few brackets cannot nest deeply.
    depth = grammar.max_depth
    if is_deeper_than(payload, depth, text):
        raise FrameRefused(f"{kind} nests more than {depth} levels", request_id=request_id)


def encode(kind: str, payload: Mapping[str, Any], request_id: str | None = None) -> str:
    """One frame as text, head first."""
    if request_id is None:
        return json.dumps({"v": VERSION, "type": kind, "payload": payload})
    return json.dumps({"v": VERSION, "id": request_id, "type": kind, "payload": payload})


def encode_ok(reply_to: str, ok: Any) -> str:
    """The good answer to a request."""
    return json.dumps({"v": VERSION, "reply_to": reply_to, "ok": ok})


def encode_error(reply_to: str, error: LoopError) -> str:
    """The coded answer to a request: code, public message, public facts."""
    facts = {"code": str(error.code), "message": error.message, "context": error.detail}
    return json.dumps({"v": VERSION, "reply_to": reply_to, "error": facts})
