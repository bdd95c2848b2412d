"""JSON Schema 2020-12 in one place: checking schemas, and values against them (spec/protocol.md §7.4).

Decides how broken places are reported. A schema may refer to itself only; nothing is ever fetched.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, cast

import jsonschema_rs

from lineloop.kit import json as codec
from lineloop.protocol.errors import ErrorCode, FieldError, InvalidRequest, LoopError
from lineloop.protocol.json_rules import is_deeper_than, pointer_of

MAX_SCHEMA_DEPTH = 64
MAX_REPORTED_ERRORS = 50
MAX_MESSAGE_LENGTH = 300


class Schema:
    """A compiled schema.

    Raises InvalidRequest when it is not a JSON Schema 2020-12 without outside references.
    """

    __slots__ = ("_validator", "source")

    def __init__(self, source: Mapping[str, Any]) -> None:
        check_schema(source)
        self.source = dict(source)
        self._validator = jsonschema_rs.Draft202012Validator(self.source, pattern_options=_PATTERNS)

    def is_valid(self, value: Any) -> bool:
        return self._validator.is_valid(value)

    def errors(self, value: Any) -> list[FieldError]:
        """Every broken place (at most 50), as pointers into `value`; empty when the value is valid."""
        if self._validator.is_valid(value):
            return []
        found: list[FieldError] = []
        for error in self._validator.iter_errors(value):
            pointer = pointer_of(tuple(error.instance_path))
            found.append({"pointer": pointer, "message": error.message[:MAX_MESSAGE_LENGTH]})
            if len(found) >= MAX_REPORTED_ERRORS:
                break
        return found


# A pattern of an app's author must not be able to stall the Runtime: linear-time matching only.
_PATTERNS = jsonschema_rs.RegexOptions()


def schema_of(source: Mapping[str, Any]) -> Schema:
    """The compiled schema, kept for the next equal source. Raises InvalidRequest."""
    return _compiled(codec.dumps(source))


@lru_cache(maxsize=512)
def _compiled(text: str) -> Schema:
    return Schema(codec.loads(text))


def check_schema(source: Any, pointer: str = "") -> None:
    """Raises InvalidRequest unless `source` is an object that is a JSON Schema 2020-12 of this protocol."""
    if not isinstance(source, Mapping):
        raise InvalidRequest("a schema is an object", pointer=pointer)
    schema = dict(cast("Mapping[str, Any]", source))
    if is_deeper_than(schema, MAX_SCHEMA_DEPTH):
        raise InvalidRequest("the schema is nested too deeply", pointer=pointer)
    outside = _outside_reference(schema)
    if outside is not None:
        raise InvalidRequest(f"the schema refers to {outside!r}, outside itself", pointer=pointer)
    try:
        jsonschema_rs.Draft202012Validator(schema, pattern_options=_PATTERNS)
    except ValueError as error:
        message = str(error).splitlines()[0][:MAX_MESSAGE_LENGTH]
        raise InvalidRequest(f"this is not a JSON Schema: {message}", pointer=pointer) from error


def invalid_arguments(errors: list[FieldError]) -> LoopError:
    """The refusal of a call whose params break the tool's input schema."""
    return LoopError("the parameters break the input schema", code=ErrorCode.INVALID_ARGUMENTS, errors=errors)


def _outside_reference(schema: Any) -> str | None:
    waiting = [schema]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            fields = cast("dict[str, Any]", item)
            for name in ("$ref", "$dynamicRef", "$schema"):
                target = fields.get(name)
                if not isinstance(target, str):
                    continue
                allowed = target == DIALECT if name == "$schema" else target.startswith("#")
                if not allowed:
                    return target
            waiting.extend(fields.values())
        elif isinstance(item, list):
            waiting.extend(cast("list[Any]", item))
    return None


DIALECT = "https://json-schema.org/draft/2020-12/schema"
