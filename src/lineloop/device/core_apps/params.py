"""The params of an action, read field by field. Raises InvalidRequest that names the field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from lineloop.protocol.actors import Actor
from lineloop.protocol.errors import InvalidRequest

MAX_NAME_CHARS = 256


class Params:
    """Reads the params of one action, which its page named `action_id`."""

    def __init__(self, params: Mapping[str, Any], action_id: str = "") -> None:
        self._params = params
        self.action_id = action_id

    def name(self, field: str) -> str:
        """A short text that is there."""
        value = self._params.get(field)
        if not isinstance(value, str) or not 0 < len(value) <= MAX_NAME_CHARS:
            raise _wrong(field, "a short text")
        return value

    def optional_name(self, field: str) -> str | None:
        return None if self._params.get(field) is None else self.name(field)

    def text(self, field: str) -> str:
        """A text that is not blank."""
        value = self._params.get(field)
        if not isinstance(value, str) or not value.strip():
            raise _wrong(field, "a text")
        return value

    def optional_text(self, field: str) -> str | None:
        """A text, also an empty one, or None."""
        value = self._params.get(field)
        if value is not None and not isinstance(value, str):
            raise _wrong(field, "a text")
        return value

    def count(self, field: str) -> int:
        value = self._params.get(field)
        if type(value) is not int or not 0 <= value < 2**53:
            raise _wrong(field, "a whole number that is not negative")
        return value

    def flag(self, field: str) -> bool:
        value = self._params.get(field)
        if not isinstance(value, bool):
            raise _wrong(field, "true or false")
        return value

    def whom(self, field: str) -> Actor:
        """`{"kind", "key"}`."""
        actor = self.actor(field)
        if actor is None:
            raise _wrong(field, "an actor")
        return actor

    def actor(self, field: str) -> Actor | None:
        """`{"kind", "key"}`, or None when it is absent or null."""
        value = self._params.get(field)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise _wrong(field, "an actor")
        return Actor.from_wire(cast("dict[str, Any]", value))


def _wrong(field: str, wanted: str) -> InvalidRequest:
    return InvalidRequest(f"{field} is not {wanted}", pointer=f"/params/{field}")
