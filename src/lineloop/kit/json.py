"""The one JSON codec: what is JSON here and what is not.

Stricter than the standard library: NaN, Infinity, numbers beyond the floats and lone surrogates are refused
on the way in and out, because another language on the wire could not read them back (spec/protocol.md §1).
Numbers keep their digits: integers of any length are int, and a decimal that no float would give back digit
by digit is a decimal.Decimal, in and out.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NoReturn, cast

import rfc8785

_MAX_CANONICAL_INTEGER = 2**53 - 1
_EXACT_FLOAT_DIGITS = 15

# The C encoder writes neither Decimal nor a literal of ours. A Decimal leaves it as a text that nobody else
# can have written, because nobody else knows this process's token; afterwards that text becomes the number.
# It starts with a character that hardly any text has, so that one look tells that nothing is marked.
_RARE = "\x7f"
_MARK = f"{_RARE}number:{secrets.token_hex(16)}:"
_MARKED_TEXT = re.compile(rf'"{_MARK}([0-9eE+.-]+)@"')
_MARKED_BYTES = re.compile(_MARKED_TEXT.pattern.encode())


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _number(text: str) -> float | Decimal:
    value = float(text)
    if value - value != 0.0:
        raise ValueError(f"{text} is too large a number")
    return value if len(text) <= _EXACT_FLOAT_DIGITS or repr(value) == text else Decimal(text)


def _marked(value: object) -> str:
    if isinstance(value, Decimal) and value.is_finite():
        return f"{_MARK}{value}@"
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the name {key!r} occurs twice in one object")
            seen.add(key)
    return value


def _decoding(decoder: json.JSONDecoder) -> Callable[[str], Any]:
    """As `decoder.decode`, which looks for space around the value before it knows that there is any."""

    def decode(text: str) -> Any:
        try:
            value, end = decoder.raw_decode(text)
        except json.JSONDecodeError:
            return decoder.decode(text)
        return value if end == len(text) else decoder.decode(text)

    return decode


def _encoding() -> Callable[[Any], str]:
    """As `JSONEncoder.encode`, which makes its machinery anew for every value and looks for circles first."""
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        encoder = json.JSONEncoder(
            ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_marked
        )
        return encoder.encode
    write = make(None, _marked, json.encoder.encode_basestring, None, ":", ",", False, False, False)
    return lambda value: "".join(write(value, 0))


_encode = _encoding()
_decode = _decoding(json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_number))
_decode_strict = _decoding(
    json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_number, object_pairs_hook=_unique)
)


quoted: Callable[[str], str] = json.encoder.encode_basestring
"""The JSON text of one str; what `dumps` gives for it, sooner."""


def dumps(value: Any) -> str:
    """Compact JSON text, not escaped beyond need. Raises ValueError for what JSON cannot say."""
    try:
        text = _encode(value)
    except (TypeError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from error
    return _MARKED_TEXT.sub(r"\1", text) if _RARE in text else text


def loads(text: str | bytes | bytearray) -> Any:
    """The value of a JSON text (bytes are UTF-8). Raises ValueError; of equal names the last counts."""
    return _checked(text, _decode)


def strict_loads(text: str | bytes | bytearray) -> Any:
    """As `loads`, and a name that occurs twice in one object is a ValueError too."""
    return _checked(text, _decode_strict)


def canonical(value: Any) -> bytes:
    """RFC 8785 bytes, for digests and content hashes. Raises ValueError.

    Numbers beyond a double's exact range have no RFC 8785 form; they are written with all their digits, so
    that different numbers never share a digest.
    """
    try:
        return rfc8785.dumps(value)
    except rfc8785.CanonicalizationError:
        pass
    except (RecursionError, UnicodeEncodeError) as error:
        raise ValueError(f"no canonical form: {error}") from error
    try:
        return _MARKED_BYTES.sub(rb"\1", rfc8785.dumps(_with_marks(value)))
    except (rfc8785.CanonicalizationError, RecursionError, UnicodeEncodeError) as error:
        raise ValueError(f"no canonical form: {error}") from error


def _with_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _with_marks(item) for name, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_with_marks(item) for item in cast("list[Any]", value)]
    if isinstance(value, Decimal) and value.is_finite():
        return f"{_MARK}{value.normalize()}@"
    if type(value) is int and abs(value) > _MAX_CANONICAL_INTEGER:
        return f"{_MARK}{value}@"
    return value


def _checked(text: str | bytes | bytearray, decode: Any) -> Any:
    if not isinstance(text, str):
        text = str(text, "utf-8")
    try:
        value = decode(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    # Only an escape can smuggle in a lone surrogate, or a str that was never bytes; valid pairs encode fine.
    try:
        if "\\u" in text:
            _encode(value).encode()
        elif not text.isascii():
            text.encode()
    except UnicodeEncodeError as error:
        raise ValueError("a lone surrogate is not text") from error
    return value
