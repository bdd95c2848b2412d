"""Rules of what programs send in the words of JSON Schema, for what is checked in code (spec/schema).

Decides nothing: what is refused is decided where it is checked. What these words cannot say (bytes, distinct
values, what is stored) is said by the refusal alone.
"""

from __future__ import annotations

from pydantic import JsonValue

from lineloop.protocol.actors import MAX_PART_BYTES

Schema = dict[str, JsonValue]

_PART: Schema = {"type": "string", "minLength": 1, "maxLength": MAX_PART_BYTES}
ACTOR_KIND: Schema = {**_PART, "pattern": r"^[^/\x00-\x1f\x7f]+(/[^/\x00-\x1f\x7f]+)*$"}
ACTOR_KEY: Schema = {**_PART, "pattern": r"^[^/\x00-\x1f\x7f]+$"}
ACTOR: Schema = {
    "type": "object",
    "properties": {"kind": ACTOR_KIND, "key": ACTOR_KEY},
    "required": ["kind", "key"],
    "additionalProperties": False,
}
_TEXT = r"[^/\x00-\x1f\x7f]{1,128}(/[^/\x00-\x1f\x7f]{1,128})+"
ACTOR_TEXT: Schema = {"pattern": f"^({_TEXT})?$"}
"""In a query an empty one is none."""
ACTOR_PATTERN: Schema = {"anyOf": [ACTOR, {"type": "string", "pattern": f"^{_TEXT}$"}]}
KEY: Schema = {"pattern": r"^[^\x00-\x1f\x7f]+$"}
NAME: Schema = {"pattern": r"^[^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f][^\x00-\x1f\x7f]*$"}
USER_KEY: Schema = {"pattern": r"^[^/*\x00-\x1f\x7f]+$"}


def some_of(*names: str) -> Schema:
    """At least one of these fields is given, and is not null."""
    return {"anyOf": [_with(name) for name in names]}


def exactly_one(*names: str) -> Schema:
    """One of these fields is given, and is not null."""
    return {"oneOf": [_with(name) for name in names]}


def _with(name: str) -> JsonValue:
    return {"required": [name], "properties": {name: {"not": {"type": "null"}}}}
