"""Which JSON the protocol takes: depth, sizes, and text that can be stored (spec/protocol.md §1.3).

Decides the rules; the codec itself is lineloop.kit.json.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError

from lineloop.protocol.errors import FieldError, InvalidRequest


def is_deeper_than(value: Any, limit: int, text: str | None = None) -> bool:
    """Whether objects and lists nest more than `limit` levels; a scalar has depth 0. Never recurses.

    `text` is the JSON text of `value`, where the caller has it: most have fewer brackets than that.
    """
    if text is not None and text.count("{") + text.count("[") <= limit:
        return False
    depth, level = 0, [value]
    while True:
        containers: list[Any] = [item for item in level if isinstance(item, (dict, list))]
        if not containers:
            return False
        depth += 1
        if depth > limit:
            return True
        level = [child for item in containers for child in _children(item)]


def _children(container: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return container.values() if isinstance(container, dict) else container


def check_depth(value: Any, limit: int, text: str | None = None) -> None:
    """Raises InvalidRequest when `value` nests more than `limit` levels; `text` as in `is_deeper_than`."""
    if is_deeper_than(value, limit, text):
        raise InvalidRequest(f"nested more than {limit} levels", pointer="")


def pointer_of(location: tuple[int | str, ...]) -> str:
    """The RFC 6901 pointer of a path of keys and indices."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in location)


def field_error(location: tuple[int | str, ...], message: str) -> FieldError:
    return {"pointer": pointer_of(location), "message": message}


def validation_errors(error: ValidationError, prefix: str = "") -> list[FieldError]:
    """The broken places of a Pydantic refusal, without echoing values."""
    return [
        {"pointer": prefix + pointer_of(_without_tags(place["loc"])), "message": place["msg"]}
        for place in error.errors(include_url=False, include_context=False, include_input=False)
    ]


def _without_tags(location: tuple[int | str, ...]) -> tuple[int | str, ...]:
    # Pydantic puts validator names into a path, as in `function-plain[...]`; they are no part of the
    # document.
    return tuple(part for part in location if not (isinstance(part, str) and "[" in part))
