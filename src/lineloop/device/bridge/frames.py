"""The frames that cross between the Runtime and an app session, and which side may send them.

Decides which frames there are and how large each may be; how a frame is read is in shapes.py, what it means
is left to the session bridge. Identity is never in a frame: it is the port's (design: apps 4.5).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from lineloop.device.bridge.shapes import (
    Answer,
    Audience,
    Check,
    Direction,
    Frame,
    FrameRefused,
    Grammar,
    Shape,
    encode,
    encode_error,
    encode_ok,
    is_anything,
    is_bool,
    is_count,
    is_list,
    is_name,
    is_name_or_null,
    is_names,
    is_object,
    is_text,
    read_frame,
    refuse_unread,
)
from lineloop.protocol.error_codes import ErrorCode

__all__ = [
    "MAX_FRAME_BYTES",
    "MAX_SESSION_DEPTH",
    "MAX_SESSION_FRAME_BYTES",
    "SHAPES",
    "Answer",
    "Direction",
    "Frame",
    "FrameRefused",
    "call_named_in",
    "decode",
    "encode",
    "encode_error",
    "encode_ok",
    "refused_text",
]

MAX_FRAME_BYTES = 256 * 1024
MAX_SESSION_FRAME_BYTES = 1_310_720
MAX_DEPTH = 32
MAX_SESSION_DEPTH = 64


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
    "hello": _ask({"sdk": is_name}, {"nonce": is_name, "features": is_names}),
    "tools.register": _tell({"tools": is_list}),
    "tool.progress": _tell({"call_id": is_name, "number": is_count, "value": is_anything}),
    "tool.complete": _tell({"call_id": is_name, "result": is_anything}),
    "tool.open": _tell({"call_id": is_name}),
    "tool.fail": _tell({"call_id": is_name, "reason": is_name, "message": is_text}),
    "session.get": _ask(),
    "session.replace": _ask({"data": is_anything, "expected_revision": is_anything}),
    "session.subscribe": _ask({"subscription": is_name}),
    "session.unsubscribe": _ask({"subscription": is_name}),
    "mutate": _ask({"id": is_name, "mutation": is_name, "params": is_object}),
    "ui.action": _ask({"id": is_name, "action": is_name, "params": is_object}),
    "capability.request": _ask({"capability": is_name, "purpose": is_text, "input": is_anything}),
    "artifact.create": _ask({"name": is_name, "media_type": is_name, "data": is_text}),
    "artifact.read": _ask({"artifact_id": is_name}),
    "inbox.list": _ask({}, {"after": is_count, "limit": is_count}),
    "inbox.ack": _ask({"id": is_name}),
    "inbox.subscribe": _ask(
        {"subscription": is_name},
        {"conversation_id": is_name, "types": is_names, "include_pending": is_bool},
    ),
    "inbox.unsubscribe": _ask({"subscription": is_name}),
    "surface.event": _tell({"name": is_name, "data": is_anything}),
    "lifecycle.snapshot": _ask({"data": is_anything}),
    "lifecycle.defer_close": _ask({"wait_ms": is_count}),
    "diagnostics.log": _tell({"level": is_name, "message": is_text}),
    "state.get": _ask(),
    "state.subscribe": _ask({"subscription": is_name}),
    "state.unsubscribe": _ask({"subscription": is_name}),
    "action.dispatch": _ask({"id": is_name, "action": is_name, "params": is_object}, audience=CORE),
    "apps.list": _ask(audience=CORE),
    "apps.launch": _ask({"app_scope": is_name}, {"conversation_id": is_name}, CORE),
    "apps.focus": _ask({"instance_id": is_name}, audience=CORE),
    "apps.background": _ask({"instance_id": is_name}, {"reason": is_text}, CORE),
    "apps.suspend": _ask({"instance_id": is_name}, {"reason": is_text}, CORE),
    "apps.close": _ask({"instance_id": is_name}, audience=CORE),
    "apps.open_default": _ask(audience=CORE),
    "registry.list": _ask(audience=CORE),
    "registry.enable": _ask({"app_scope": is_name}, audience=CORE),
    "registry.disable": _ask({"app_scope": is_name}, audience=CORE),
    "registry.remove": _ask({"app_scope": is_name}, audience=CORE),
    "registry.set_default": _ask({"app_scope": is_name_or_null}, audience=CORE),
    "registry.operation": _ask({"operation_id": is_name}, audience=CORE),
    "audit.list": _ask(
        {}, {"call_id": is_name, "app_scope": is_name, "conversation_id": is_name, "limit": is_count}, CORE
    ),
    "messages.list": _ask({"conversation_id": is_name}, {"before": is_count, "limit": is_count}, CORE),
    "messages.get": _ask({"message_id": is_name}, audience=CORE),
    "messages.search": _ask(
        {"words": is_text}, {"conversation_id": is_name, "after": is_text, "limit": is_count}, CORE
    ),
    "messages.subscribe": _ask({"subscription": is_name, "conversation_id": is_name}, audience=CORE),
    "messages.unsubscribe": _ask({"subscription": is_name}, audience=CORE),
    "participants.list": _ask({"conversation_id": is_name}, audience=CORE),
    "questions.get": _ask({"question_id": is_name}, audience=CORE),
    # Runtime → app
    "init": _to_app(
        {"app_scope": is_name, "app_session_id": is_name, "conversation_id": is_name},
        {"app_version": is_name, "instance_id": is_name, "features": is_names, "state": is_anything},
    ),
    "tool.invoke": _to_app(
        {"call_id": is_name, "method": is_name, "contract_version": is_name, "params": is_object}
    ),
    "tool.cancel": _to_app({"call_id": is_name}),
    "session.changed": _to_app({"subscription": is_name, "data": is_anything, "revision": is_count}),
    "mutation.apply": _to_app({"id": is_name, "mutation": is_name, "params": is_object, "data": is_anything}),
    "lifecycle.start": _to_app({}),
    "lifecycle.foreground": _to_app({}),
    "lifecycle.background": _to_app({}, {"reason": is_text}),
    "lifecycle.suspend": _to_app({}, {"reason": is_text}),
    "lifecycle.restore": _to_app({}, {"snapshot": is_anything}),
    "lifecycle.closing": _to_app({}, {"wait_ms": is_count, "reason": is_text}),
    "state.changed": _to_app({"state": is_anything}, {"subscription": is_name}),
    "capability.result": _to_app({"request_id": is_name}, {"result": is_anything, "error": is_object}),
    "inbox.message": _to_app({"subscription": is_name, "message": is_object}),
    "messages.snapshot": _to_app(
        {
            "subscription": is_name,
            "messages": is_list,
            "more": is_bool,
            "calls": is_list,
            "sayings": is_list,
            "processes": is_list,
        }
    ),
    "messages.message": _to_app({"subscription": is_name, "message": is_object}),
    "messages.patch": _to_app({"subscription": is_name, "message_id": is_name, "patch": is_object}),
    "messages.call": _to_app({"subscription": is_name, "call": is_object}),
    "messages.saying": _to_app({"subscription": is_name, "saying": is_object}),
}

# Frames as large as session data may be, and as deeply nested as message contents may be.
_SESSION_FRAMES = frozenset(
    {"session.replace", "session.changed", "messages.snapshot", "messages.message", "messages.patch"}
)
_CALL_HEAD = re.compile(r'^\{"v":1,"type":"tool\.[a-z]{1,20}","payload":\{"call_id":"([^"\\]{1,256})"')


def _code_of_unread(kind: str, too_large: bool) -> ErrorCode:
    """session_data_* when the head says session.replace: its own limits have their own codes."""
    if kind != "session.replace":
        return ErrorCode.BRIDGE_INVALID
    return ErrorCode.SESSION_DATA_QUOTA_EXCEEDED if too_large else ErrorCode.SESSION_DATA_INVALID


GRAMMAR = Grammar(
    shapes=SHAPES,
    max_bytes=MAX_FRAME_BYTES,
    max_depth=MAX_DEPTH,
    max_roomy_bytes=MAX_SESSION_FRAME_BYTES,
    roomy=_SESSION_FRAMES,
    code_of_unread=_code_of_unread,
)


def decode(text: str, direction: Direction, *, core: bool = False, strict: bool = True) -> Frame | Answer:
    """Reads one frame of an app session; see shapes.read_frame.

    Raises FrameRefused: bridge_invalid, forbidden, session_data_invalid or session_data_quota_exceeded for a
    session.replace whose text is not strict JSON or too large.
    """
    return read_frame(GRAMMAR, text, direction, core=core, strict=strict)


def refused_text(text: str, why: str) -> FrameRefused:
    """The refusal of text that was not read as JSON."""
    return refuse_unread(GRAMMAR, text, why)


def call_named_in(text: str) -> str | None:
    """The call that a refused tool frame is about, read from its head; None when it does not say."""
    head = _CALL_HEAD.match(text[:512])
    return head[1] if head else None
