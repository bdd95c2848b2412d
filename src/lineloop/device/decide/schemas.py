"""Judges JSON values against the schemas that tools declare (JSON Schema 2020-12).

Decides only whether a value fits and where not. Compiled validators are kept per schema object; compiling and
judging are pure, and nothing is ever fetched: a reference to another document fails.
"""

from __future__ import annotations

from typing import Any, NoReturn

import jsonschema_rs

from lineloop.protocol.errors import FieldError
from lineloop.protocol.json_rules import pointer_of

# Linear-time matching: a pattern of an app's author cannot stall the Runtime.
_PATTERNS = jsonschema_rs.RegexOptions()


def _refuse_reference(uri: str) -> NoReturn:
    raise ValueError(f"schemas may not refer to other documents: {uri}")


class Schemas:
    """Compiled validators by schema text. One instance serves one device; not shared between threads."""

    def __init__(self, limit: int = 4_096) -> None:
        self._validators: dict[int, tuple[dict[str, Any], jsonschema_rs.Draft202012Validator]] = {}
        self._limit = limit

    def errors_of(self, schema: dict[str, Any], value: Any) -> list[FieldError]:
        """Every broken place as an RFC 6901 pointer and a sentence; empty when the value fits."""
        validator = self._compiled(schema)
        if validator.is_valid(value):
            return []
        return [found for error in validator.iter_errors(value) for found in _places(error)]

    def fits(self, schema: dict[str, Any], value: Any) -> bool:
        return self._compiled(schema).is_valid(value)

    def _compiled(self, schema: dict[str, Any]) -> jsonschema_rs.Draft202012Validator:
        known = self._validators.get(id(schema))
        if known is not None and known[0] is schema:
            return known[1]
        if len(self._validators) >= self._limit:
            self._validators.clear()
        validator = jsonschema_rs.Draft202012Validator(
            schema, retriever=_refuse_reference, pattern_options=_PATTERNS
        )
        self._validators[id(schema)] = (schema, validator)
        return validator


def _places(error: jsonschema_rs.ValidationError) -> list[FieldError]:
    path = tuple(error.instance_path)
    kind: Any = error.kind
    if kind.name == "required":
        return [{"pointer": pointer_of((*path, kind.property)), "message": error.message}]
    if kind.name in ("additionalProperties", "unevaluatedProperties"):
        return [
            {"pointer": pointer_of((*path, name)), "message": "this field is not known"}
            for name in kind.unexpected
        ]
    return [{"pointer": pointer_of(path), "message": error.message}]
