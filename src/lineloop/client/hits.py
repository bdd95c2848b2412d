"""What a search finds, as the client hands it on (spec/protocol.md §5.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lineloop.kit.records import record
from lineloop.protocol.actors import Actor
from lineloop.protocol.errors import InvalidRequest
from lineloop.protocol.messages import Purpose


@record
class SnippetPart:
    """A piece of the text around a hit; `hit` when it is what was searched for."""

    text: str
    hit: bool


@record
class Hit:
    """A message that was found. `root_id` and `conversation_name` are of its root conversation."""

    message_id: str
    conversation_id: str
    root_id: str
    conversation_name: str
    archived: bool
    actor: Actor
    purpose: Purpose
    ordinal: int
    created_at: str
    snippet: Sequence[SnippetPart]

    @property
    def text(self) -> str:
        """The text around the hit."""
        return "".join(part.text for part in self.snippet)

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> Hit:
        """Raises InvalidRequest."""
        try:
            return cls(
                message_id=wire["message_id"],
                conversation_id=wire["conversation_id"],
                root_id=wire["root_id"],
                conversation_name=wire["conversation_name"],
                archived=wire["archived"],
                actor=Actor.from_wire(wire["actor"]),
                purpose=Purpose(wire["purpose"]),
                ordinal=wire["ordinal"],
                created_at=wire["created_at"],
                snippet=[SnippetPart(part["text"], part["hit"]) for part in wire["snippet"]],
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidRequest(f"this is not a hit: {error}") from error
