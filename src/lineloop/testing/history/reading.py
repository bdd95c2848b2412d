"""What the server has in the end, as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lineloop.kit.records import record
from lineloop.protocol.machines import MessageStatus


@record
class Stored:
    """A message as it is read at the end. Actors are written `KIND/KEY`."""

    id: str
    conversation_id: str
    actor: str
    key: str
    target: str | None
    reply_to_id: str | None
    purpose: str
    status: str
    revision: int
    ordinal: int
    offset: int | None
    content: Mapping[str, Any]

    @property
    def is_ended(self) -> bool:
        return self.status != MessageStatus.STREAMING

    def is_for(self, actor: str) -> bool:
        """Whether it goes to the actor's inbox when it ends: targeted at it, or said to all by another."""
        return self.target == actor or (self.target is None and self.actor != actor)


@record
class StoredQuestion:
    id: str
    state: str
    value: str | None


@record
class Cursor:
    """One consumer; `end_offset` is the last offset that is deliverable to it."""

    conversation_id: str
    actor: str
    position: int
    committed: int
    end_offset: int


@dataclass(slots=True)
class Reading:
    """`roots` tells the root of each conversation below one. `logs` are patches by message in order of seq,
    where the recorder can read the stored log itself; `runs` are phases by id.
    """

    messages: Sequence[Stored] = ()
    questions: Sequence[StoredQuestion] = ()
    cursors: Sequence[Cursor] = ()
    roots: Mapping[str, str] = field(default_factory=dict[str, str])
    logs: Mapping[str, Sequence[Mapping[str, Any]]] = field(
        default_factory=dict[str, Sequence[Mapping[str, Any]]]
    )
    runs: Mapping[str, str] = field(default_factory=dict[str, str])

    def by_id(self) -> dict[str, Stored]:
        return {message.id: message for message in self.messages}


def stored_message(wire: Mapping[str, Any]) -> Stored:
    """From a message on the wire."""
    return Stored(
        id=wire["id"],
        conversation_id=wire["conversation_id"],
        actor=actor_text(wire["actor"]),
        key=wire["key"],
        target=actor_text(wire["target"]) if wire["target"] else None,
        reply_to_id=wire["reply_to_id"],
        purpose=wire["purpose"],
        status=wire["status"],
        revision=wire["revision"],
        ordinal=wire["ordinal"],
        offset=wire["offset"],
        content=wire["content"],
    )


def actor_text(wire: Mapping[str, str]) -> str:
    return f"{wire['kind']}/{wire['key']}"
