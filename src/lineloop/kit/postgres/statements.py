"""SQL with `:name` parameters as PostgreSQL reads it: translated once, prepared once per connection.

Parameters travel as text and PostgreSQL infers their types from where they stand, so that a number needs no
width and a text no type. A parameter that stands nowhere with a type needs a CAST in the statement.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from itertools import count

from lineloop.kit.database import Params
from lineloop.kit.storage_errors import UnstorableText

# What may contain a colon or a question mark without being a parameter is matched first.
_PARAMETER = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|--[^\n]*|::|:([A-Za-z_]\w*)|(\?)")
_READS = re.compile(r"\s*SELECT\b(?!.*\bFOR\s+UPDATE\b)", re.IGNORECASE | re.DOTALL)
_numbers = count(1)


class Statement:
    """One SQL text, ready to send. `names` are its parameters in order, None when they go by position."""

    __slots__ = ("name", "names", "reads", "text")

    def __init__(self, text: str, names: tuple[str, ...] | None) -> None:
        self.name = b"s%d" % next(_numbers)
        self.text = text.encode()
        self.names = names
        self.reads = _READS.match(text) is not None

    def values(self, params: Params) -> list[bytes | None]:
        """The parameters as text. Raises KeyError for a missing one, UnstorableText."""
        if self.names is None:
            assert not isinstance(params, Mapping)
            return [as_text(value) for value in params]
        if not self.names:
            return []
        assert isinstance(params, Mapping)
        return [as_text(params[name]) for name in self.names]


@lru_cache(maxsize=4096)
def translated(sql: str) -> Statement:
    """The statement of an SQL text; made once."""
    names: list[str] = []
    places = count(1)
    positional = False

    def replace(match: re.Match[str]) -> str:
        nonlocal positional
        name = match[1]
        if name is not None:
            if name not in names:
                names.append(name)
            return f"${names.index(name) + 1}"
        if match[2] is not None:
            positional = True
            return f"${next(places)}"
        return match[0]

    text = _PARAMETER.sub(replace, sql)
    return Statement(text, None if positional else tuple(names))


def as_text(value: object) -> bytes | None:
    """A value in PostgreSQL's text form. Raises UnstorableText, TypeError."""
    if value is None:
        return None
    if isinstance(value, str):
        if "\0" in value:
            raise UnstorableText("PostgreSQL keeps no NUL character in a text")
        return value.encode()
    if isinstance(value, bool):
        return b"1" if value else b"0"
    if isinstance(value, int):
        return b"%d" % value
    if isinstance(value, float):
        return repr(value).encode()
    if isinstance(value, bytes | bytearray | memoryview):
        return b"\\x" + bytes(value).hex().encode()
    raise TypeError(f"no parameter of a statement: {type(value).__name__}")
