"""The shapes that cross between the Runtime and an app session, and which side may send them.

A frame is one JSON text: `{"v":1,"id"?,"type","payload"}` for requests (with id) and events (without), and
`{"v":1,"reply_to","ok"|"error"}` for answers. Decides what is a valid frame in a direction; leaves what it
means to the session bridge. Identity is never in a frame: it is the port's (design: apps 4.5).

The head comes first and in this order, so that a frame whose payload is not acceptable JSON can still be
answered by its id.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, cast

from lineloop.kit import json
from lineloop.kit.records import record
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import LoopError
from lineloop.protocol.json_rules import is_deeper_than

VERSION = 1
MAX_FRAME_BYTES = 256 * 1024
MAX_SESSION_FRAME_BYTES = 1_310_720
MAX_DEPTH = 32
MAX_SESSION_DEPTH = 64
MAX_ID_CHARS = 256


class Direction(StrEnum):
    """Who sends."""

    TO_RUNTIME = "to_runtime"
    TO_APP = "to_app"


class Audience(StrEnum):
    """Which app sessions may send a frame: all, or those of core apps only."""

    EVERY_APP = "every_app"
    CORE_APPS = "core_apps"


Check = Callable[[Any], bool]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_ID_CHARS


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**53


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_anything(_: Any) -> bool:
    return True


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(_is_name(item) for item in cast("list[Any]", value))


@record
class Shape:
    """One frame type: who sends it, whether it asks for an answer, and its payload's fields."""

    direction: Direction
    request: bool
    required: Mapping[str, Check]
    optional: Mapping[str, Check]
    audience: Audience = Audience.EVERY_APP


def _ask(
    required: Mapping[str, Check] | None = None,
    optional: Mapping[str, Check] | None = None,
    audience: Audience = Audience.EVERY_APP,
) -> Shape:
    return Shape(Direction.TO_RUNTIME, True, required or {}, optional or {}, audience)


def _tell(required: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> Shape:
    return Shape(Direction.TO_RUNTIME, False, required, optional or {})


def _to_app(required: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> Shape:
    return Shape(Direction.TO_APP, False, required, optional or {})


CORE = Audience.CORE_APPS

SHAPES: Mapping[str, Shape] = {
    # app → Runtime
    "hello": _ask({"sdk": _is_name}, {"nonce": _is_name, "features": _is_names}),
    "tools.register": _tell({"tools": _is_list}),
    "tool.progress": _tell({"call_id": _is_name, "number": _is_count, "value": _is_anything}),
    "tool.complete": _tell({"call_id": _is_name, "result": _is_anything}),
    "tool.open": _tell({"call_id": _is_name}),
    "tool.fail": _tell({"call_id": _is_name, "reason": _is_name, "message": _is_text}),
    "session.get": _ask(),
    "session.replace": _ask({"data": _is_anything, "expected_revision": _is_anything}),
    "session.subscribe": _ask({"subscription": _is_name}),
    "session.unsubscribe": _ask({"subscription": _is_name}),
    "mutate": _ask({"id": _is_name, "mutation": _is_name, "params": _is_object}),
    "ui.action": _ask({"id": _is_name, "action": _is_name, "params": _is_object}),
    "capability.request": _ask({"capability": _is_name, "purpose": _is_text, "input": _is_anything}),
    "artifact.create": _ask({"name": _is_name, "media_type": _is_name, "data": _is_text}),
    "artifact.read": _ask({"artifact_id": _is_name}),
    "inbox.list": _ask({}, {"after": _is_count, "limit": _is_count}),
    "inbox.ack": _ask({"id": _is_name}),
    "inbox.subscribe": _ask(
        {"subscription": _is_name},
        {"conversation_id": _is_name, "types": _is_names, "include_pending": _is_bool},
    ),
    "inbox.unsubscribe": _ask({"subscription": _is_name}),
    "surface.event": _tell({"name": _is_name, "data": _is_anything}),
    "lifecycle.snapshot": _ask({"data": _is_anything}),
    "lifecycle.defer_close": _ask({"wait_ms": _is_count}),
    "diagnostics.log": _tell({"level": _is_name, "message": _is_text}),
    "state.get": _ask(),
    "state.subscribe": _ask({"subscription": _is_name}),
    "action.dispatch": _ask({"id": _is_name, "action": _is_name, "params": _is_object}, audience=CORE),
    "apps.list": _ask(audience=CORE),
    "apps.launch": _ask({"app_scope": _is_name}, {"conversation_id": _is_name}, CORE),
    "apps.focus": _ask({"instance_id": _is_name}, audience=CORE),
    "apps.background": _ask({"instance_id": _is_name}, {"reason": _is_text}, CORE),
    "apps.suspend": _ask({"instance_id": _is_name}, {"reason": _is_text}, CORE),
    "apps.close": _ask({"instance_id": _is_name}, audience=CORE),
    "apps.open_default": _ask(audience=CORE),
    "registry.list": _ask(audience=CORE),
    "registry.enable": _ask({"app_scope": _is_name}, audience=CORE),
    "registry.disable": _ask({"app_scope": _is_name}, audience=CORE),
    "registry.remove": _ask({"app_scope": _is_name}, audience=CORE),
    "registry.operation": _ask({"operation_id": _is_name}, audience=CORE),
    # Runtime → app
    "init": _to_app(
        {"app_scope": _is_name, "app_session_id": _is_name, "conversation_id": _is_name},
        {"app_version": _is_name, "instance_id": _is_name, "features": _is_names, "state": _is_anything},
    ),
    "tool.invoke": _to_app(
        {"call_id": _is_name, "method": _is_name, "contract_version": _is_name, "params": _is_object}
    ),
    "tool.cancel": _to_app({"call_id": _is_name}),
    "session.changed": _to_app({"subscription": _is_name, "data": _is_anything, "revision": _is_count}),
    "mutation.apply": _to_app(
        {"id": _is_name, "mutation": _is_name, "params": _is_object, "data": _is_anything}
    ),
    "lifecycle.start": _to_app({}),
    "lifecycle.foreground": _to_app({}),
    "lifecycle.background": _to_app({}, {"reason": _is_text}),
    "lifecycle.suspend": _to_app({}, {"reason": _is_text}),
    "lifecycle.restore": _to_app({}, {"snapshot": _is_anything}),
    "lifecycle.closing": _to_app({}, {"wait_ms": _is_count, "reason": _is_text}),
    "state.changed": _to_app({"state": _is_anything}, {"subscription": _is_name}),
    "capability.result": _to_app({"request_id": _is_name}, {"result": _is_anything, "error": _is_object}),
    "inbox.message": _to_app({"subscription": _is_name, "message": _is_object}),
}

_SESSION_FRAMES = frozenset({"session.replace", "session.changed"})
_HEAD = re.compile(r'^\{"v":1,"id":"([^"\\]{1,256})","type":"([a-z_.]{1,40})"')
_CALL_HEAD = re.compile(r'^\{"v":1,"type":"tool\.[a-z]{1,20}","payload":\{"call_id":"([^"\\]{1,256})"')
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


def call_named_in(text: str) -> str | None:
    """The call that a refused tool frame is about, read from its head; None when it does not say."""
    head = _CALL_HEAD.match(text[:512])
    return head[1] if head else None


def decode(text: str, direction: Direction, *, core: bool = False, strict: bool = True) -> Frame | Answer:
    """Reads one frame sent in `direction`; `core` says whether the session belongs to a core app.

    `strict` refuses names that occur twice; a sender whose codec is known not to write them may go without.

    Raises FrameRefused: bridge_invalid for a frame that is no valid one in this direction,
    session_data_invalid for a session.replace whose text is not strict JSON, forbidden for a frame that only
    core apps may send.
    """
    if len(text) > MAX_SESSION_FRAME_BYTES:
        raise refused_text(text, "the frame is too large")
    try:
        value = json.strict_loads(text) if strict else json.loads(text)
    except ValueError as error:
        raise refused_text(text, f"not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise FrameRefused("a frame is an object")
    frame = cast("dict[str, Any]", value)
    if frame.get("v") != VERSION or isinstance(frame["v"], bool):
        raise FrameRefused("unknown version")
    if "reply_to" in frame:
        return _answer(frame)
    return _request(frame, text, direction, core)


def refused_text(text: str, why: str) -> FrameRefused:
    """The refusal of text that was not read as JSON: session_data_* when its head says session.replace."""
    head = _HEAD.match(text[:512])
    request_id = head[1] if head else None
    if head and head[2] == "session.replace":
        too_large = len(text) > MAX_SESSION_FRAME_BYTES
        code = ErrorCode.SESSION_DATA_QUOTA_EXCEEDED if too_large else ErrorCode.SESSION_DATA_INVALID
        return FrameRefused(why, request_id=request_id, code=code)
    return FrameRefused(why, request_id=request_id)


def _answer(frame: dict[str, Any]) -> Answer:
    if frozenset(frame) not in _ANSWER_FIELDS or not _is_name(frame["reply_to"]):
        raise FrameRefused("an answer has reply_to and either ok or error")
    error = frame.get("error")
    if "error" in frame and not isinstance(error, dict):
        raise FrameRefused("an error is an object")
    return Answer(frame["reply_to"], frame.get("ok"), cast("dict[str, Any] | None", error))


def _request(frame: dict[str, Any], text: str, direction: Direction, core: bool) -> Frame:
    request_id = frame.get("id")
    known_id = request_id if _is_name(request_id) else None
    if not frame.keys() <= _FIELDS:
        raise FrameRefused("unknown field in the frame", request_id=known_id)
    if "id" in frame and known_id is None:
        raise FrameRefused("an id is a short text")
    kind, payload = frame.get("type"), frame.get("payload")
    shape = SHAPES.get(kind) if isinstance(kind, str) else None
    if shape is None:
        raise FrameRefused("unknown frame type", request_id=known_id)
    assert isinstance(kind, str)
    if shape.direction is not direction:
        raise FrameRefused(f"{kind} goes the other way", request_id=known_id)
    if shape.request != (known_id is not None) and direction is Direction.TO_RUNTIME:
        raise FrameRefused(f"{kind} {'needs an' if shape.request else 'has no'} id", request_id=known_id)
    if shape.audience is CORE and not core:
        raise FrameRefused(f"{kind} is for core apps", request_id=known_id, code=ErrorCode.FORBIDDEN)
    fields = _checked_payload(kind, shape, payload, known_id)
    _check_bounds(kind, text, fields, known_id)
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


def _check_bounds(kind: str, text: str, payload: dict[str, Any], request_id: str | None) -> None:
    """Size and depth. Session data have their own, coded limits further down; here only the frame's."""
    if kind in _SESSION_FRAMES:
        return
    if len(text) > MAX_FRAME_BYTES // 4 and len(text.encode()) > MAX_FRAME_BYTES:
        raise FrameRefused(f"{kind} is larger than {MAX_FRAME_BYTES} bytes", request_id=request_id)
    # Counting brackets is cheap, and few brackets cannot nest deeply.
    if text.count("{") + text.count("[") > MAX_DEPTH and is_deeper_than(payload, MAX_DEPTH):
        raise FrameRefused(f"{kind} nests more than {MAX_DEPTH} levels", request_id=request_id)


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
