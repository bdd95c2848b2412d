"""Measures of JSON values that limits are checked against: bytes, depth.

Which limit holds where, and which error a breach gives, is decided by its user.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lineloop.kit.json import dumps


def size_of_text(text: str) -> int:
    """Bytes of a text in UTF-8, a lone surrogate counted as three."""
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def is_larger(text: str, max_bytes: int) -> bool:
    """Whether a text has more bytes in UTF-8. A character has at most four, so most need no counting."""
    return len(text) > max_bytes // 4 and size_of_text(text) > max_bytes


def size_of_json(value: Any) -> int:
    """Bytes of the value's compact JSON in UTF-8. Raises ValueError when it is not JSON."""
    return len(dumps(value).encode())


def depth_of_json(value: Any, limit: int) -> int:
    """How deep lists and objects nest (a scalar is 0, `{}` is 1); counting stops at `limit + 1`.

    Never recurses, so that hostile depth costs no stack.
    """
    level: list[Any] = [value]
    depth = 0
    while depth <= limit:
        below: list[Any] = []
        nested = False
        for item in level:
            children = _children(item)
            if children is not None:
                nested = True
                below.extend(children)
        if not nested:
            return depth
        depth += 1
        level = below
    return depth


def _children(item: Any) -> Iterable[Any] | None:
    if isinstance(item, dict):
        return item.values()
    return item if isinstance(item, list) else None
