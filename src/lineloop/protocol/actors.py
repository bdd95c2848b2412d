"""Actors: who speaks, who is spoken to. A name is not a proof of identity (spec/protocol.md §1)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

from lineloop.protocol.errors import InvalidRequest

USER = "user"
OPERATOR = "operator"
HARNESS = "harness"
RUNTIME = "runtime"

MAX_PART_BYTES = 128
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True, order=True)
class Actor:
    """A participant, named by an open `kind` (may contain `/`) and a `key` (may not).

    Both are 1 to 128 bytes of UTF-8. Raises InvalidRequest otherwise (spec/protocol.md §1.1).
    """

    kind: str
    key: str

    def __post_init__(self) -> None:
        for name, part in (("kind", self.kind), ("key", self.key)):
            if not part or len(part.encode()) > MAX_PART_BYTES:
                raise InvalidRequest(f"actor {name} must be 1 to {MAX_PART_BYTES} bytes", pointer=f"/{name}")
            if _CONTROL.search(part):
                raise InvalidRequest(f"actor {name} has a control character", pointer=f"/{name}")
        if "/" in self.key:
            raise InvalidRequest("actor key must not contain '/'", pointer="/key")
        if self.kind.startswith("/") or self.kind.endswith("/") or "//" in self.kind:
            raise InvalidRequest("actor kind has an empty path segment", pointer="/kind")

    @classmethod
    def parse(cls, text: str) -> Self:
        """`KIND/KEY`, split at the last slash. Raises InvalidRequest."""
        kind, slash, key = text.rpartition("/")
        if not slash:
            raise InvalidRequest(f"{text!r} is not KIND/KEY")
        return cls(kind, key)

    @staticmethod
    def from_wire(value: Any) -> Actor:
        """From `{"kind", "key"}`. Raises InvalidRequest."""
        if not isinstance(value, dict):
            raise InvalidRequest("an actor is an object with kind and key")
        kind, key = value.get("kind"), value.get("key")  # pyright: ignore[reportUnknownMemberType]
        if not isinstance(kind, str) or not isinstance(key, str):
            raise InvalidRequest("an actor is an object with kind and key")
        return actor_named(kind, key)

    def to_wire(self) -> dict[str, str]:
        return {"kind": self.kind, "key": self.key}

    def __str__(self) -> str:
        return f"{self.kind}/{self.key}"

    @property
    def operator_key(self) -> str | None:
        """The key of the operator this actor belongs to: itself, or the owner of `operator/<key>/<role>`."""
        if self.kind == OPERATOR:
            return self.key
        head, _, rest = self.kind.partition("/")
        return rest.split("/", 1)[0] if head == OPERATOR and rest else None


@lru_cache(maxsize=8192)
def actor_named(kind: str, key: str) -> Actor:
    """As `Actor(kind, key)`; the same few come again and again."""
    return Actor(kind, key)
