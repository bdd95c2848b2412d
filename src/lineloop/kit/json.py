"""The one JSON codec: what is JSON here and what is not.

Stricter than the standard library: NaN, Infinity, numbers beyond the floats and lone surrogates are refused
on the way in and out, because another language on the wire could not read them back (spec/protocol.md §1).
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

import rfc8785

_MAX_CANONICAL_INTEGER = 2**53 - 1


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if value - value != 0.0:
        raise ValueError(f"{text} is too large a number")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the name {key!r} occurs twice in one object")
            seen.add(key)
    return value


_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_decode = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite).decode
_decode_strict = json.JSONDecoder(
    parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_unique
).decode


def dumps(value: Any) -> str:
    """Compact JSON text, not escaped beyond need. Raises ValueError for what JSON cannot say."""
    try:
        return _encode(value)
    except (TypeError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from error


def loads(text: str | bytes | bytearray) -> Any:
    """The value of a JSON text (bytes are UTF-8). Raises ValueError; of equal names the last counts."""
    return _checked(text, _decode)


def strict_loads(text: str | bytes | bytearray) -> Any:
    """As `loads`, and a name that occurs twice in one object is a ValueError too."""
    return _checked(text, _decode_strict)


def canonical(value: Any) -> bytes:
    """RFC 8785 bytes, for digests and content hashes. Raises ValueError."""
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, RecursionError, UnicodeEncodeError) as error:
        raise ValueError(f"no canonical form: {error}") from error


def _checked(text: str | bytes | bytearray, decode: Any) -> Any:
    if not isinstance(text, str):
        text = str(text, "utf-8")
    try:
        value = decode(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    # Only an escape can smuggle in a lone surrogate, or a str that was never bytes; valid pairs encode fine.
    if "\\u" in text or not text.isascii():
        try:
            _encode(value).encode()
        except UnicodeEncodeError as error:
            raise ValueError("a lone surrogate is not text") from error
    return value
