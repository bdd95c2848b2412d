"""The frames between a page of the shell and the Runtime (spec/protocol.md §10.3).

Decides which frames there are, who sends them and how large they may be; they are read by the grammar that
the bridge has too. What a frame means is the host's affair.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lineloop.device.bridge.frames import MAX_FRAME_BYTES, MAX_SESSION_FRAME_BYTES
from lineloop.device.bridge.shapes import (
    Answer,
    Check,
    Direction,
    Frame,
    Grammar,
    Shape,
    is_bool,
    is_count,
    is_list,
    is_name,
    is_name_or_null,
    is_object,
    is_object_or_null,
    is_text,
    one_of,
    read_frame,
)
from lineloop.kit.json_size import is_larger

MAX_DEPTH = 48
"""A parameter of a risky call may nest as deep as the bridge allows, inside a sheet, inside an event."""

MAX_PAGE_FRAME_BYTES = 2 * MAX_SESSION_FRAME_BYTES + 4096
"""A frame of a session inside a frame of the page: every quotation mark and backslash is written twice."""

INTENTS = ("show_chat", "show_app", "open_conversation", "close_app")
CLOSE_REASONS = ("navigated", "flood", "protocol", "unresponsive", "crashed", "unmounted")
LANGUAGES = ("en", "zh")
THEMES = ("light", "dark")
EXPORT_FORMATS = ("json", "markdown")


def _is_versions(value: Any) -> bool:
    return isinstance(value, list) and all(is_count(item) for item in value)


def _is_frame_text(value: Any) -> bool:
    return isinstance(value, str) and value != "" and not is_larger(value, MAX_SESSION_FRAME_BYTES)


def _ask(required: Mapping[str, Check] | None = None, optional: Mapping[str, Check] | None = None) -> Shape:
    return Shape(Direction.TO_RUNTIME, True, required or {}, optional or {})


def _tell(required: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> Shape:
    return Shape(Direction.TO_RUNTIME, False, required, optional or {})


def _to_page(required: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> Shape:
    return Shape(Direction.TO_PAGE, False, required, optional or {})


_FROM_PAGE: Mapping[str, Shape] = {
    "hello": _ask(
        {
            "tab": is_name,
            "visible": is_bool,
            "focused": is_bool,
            "language": one_of(*LANGUAGES),
            "versions": _is_versions,
        },
        # Pages of version 1 sent their code or key: such a hello is read to be answered, and nothing more.
        {"name": is_name, "nonce": is_name, "code": is_name, "key": is_name},
    ),
    "prove": _ask({"proof": is_name}),
    "page": _tell({"visible": is_bool, "focused": is_bool}),
    "intent": _ask({"kind": one_of(*INTENTS), "conversation_id": is_name}, {"instance_id": is_name_or_null}),
    "start": _ask({}, {"app_scope": is_name_or_null, "conversation_id": is_name_or_null}),
    "apps.launch": _ask({"app_scope": is_name, "conversation_id": is_name}),
    "surface.shown": _tell({"instance_id": is_name, "activation_id": is_name, "generation": is_count}),
    "surface.open": _ask({"instance_id": is_name}, {"theme": one_of(*THEMES)}),
    "surface.close": _tell({"launch": is_name, "reason": one_of(*CLOSE_REASONS)}),
    "consent.answer": _ask({"call_ref": is_name, "allowed": is_bool}),
    "session.open": _ask({"app_scope": is_name}),
    "session.close": _tell({"session": is_name}),
    "models.find": _ask(),
    "models.choose": _ask({"target": is_name}, {"key": is_text}),
    "export.open": _ask({"conversation_id": is_name, "format": one_of(*EXPORT_FORMATS)}),
    "keys.list": _ask(),
    "keys.revoke": _ask({"name": is_name}),
}
_TO_PAGE: Mapping[str, Shape] = {
    "workspace": _to_page(
        {"lease": is_bool, "foreground": is_object_or_null, "conversations": is_object, "closing": is_list},
        {"notice": is_object_or_null},
    ),
    "apps": _to_page({"apps": is_list, "instances": is_list}),
    "connection": _to_page(
        {
            "state": one_of("connecting", "online", "catching_up", "offline"),
            "waiting": is_count,
            "since": is_name,
        },
        {"reason": is_name_or_null},
    ),
    "consent": _to_page({"sheets": is_list}),
    "surface.gone": _to_page({"launch": is_name, "reason": is_name}),
    "refused": _to_page({"type": is_name, "code": is_name, "retry_ms": is_count}),
    "bye": _to_page({"reason": is_name, "retry_ms": is_count}),
    "ping": _to_page({}),
}
FRAME = "frame"
"""Goes both ways: one bridge frame of a core session or of a surface."""


def _grammar(shapes: Mapping[str, Shape], frame: Shape) -> Grammar:
    return Grammar(
        shapes={**shapes, FRAME: frame},
        max_bytes=MAX_FRAME_BYTES,
        max_depth=MAX_DEPTH,
        max_roomy_bytes=MAX_PAGE_FRAME_BYTES,
        roomy=frozenset({FRAME}),
    )


_TARGETS: Mapping[str, Check] = {"session": is_name, "launch": is_name}
_GRAMMARS: Mapping[Direction, Grammar] = {
    Direction.TO_RUNTIME: _grammar(
        {**_FROM_PAGE, **_TO_PAGE}, _tell({"text": _is_frame_text}, optional=_TARGETS)
    ),
    Direction.TO_PAGE: _grammar(
        {**_FROM_PAGE, **_TO_PAGE}, _to_page({"text": _is_frame_text}, optional=_TARGETS)
    ),
}


def decode(text: str, direction: Direction) -> Frame | Answer:
    """Reads one frame of a page. Raises FrameRefused (bridge_invalid)."""
    return read_frame(_GRAMMARS[direction], text, direction)
