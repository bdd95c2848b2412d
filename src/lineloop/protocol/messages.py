"""Messages and conversations as they look on the wire (spec/protocol.md §2).

Decides field names and the words of status and purpose; leaves content to content.py and patches.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

from lineloop.kit.records import record
from lineloop.protocol.actors import Actor
from lineloop.protocol.content import Purpose, content_text, envelope_of
from lineloop.protocol.errors import InvalidRequest
from lineloop.protocol.machines import MessageStatus

__all__ = ["ConversationInfo", "Message", "MessageStatus", "Purpose"]


@record
class Message:
    """One expression by one actor in one conversation (§2.1). Times are RFC 3339 UTC strings.

    `revision` is the seq of the last applied patch (0 = none), `ordinal` the place in order of creation,
    `offset` the place in order of delivery (None while streaming). `on_behalf_of` and `run_id` are set by the
    engine only; `change` is the root conversation's counter at the last change.
    """

    id: str
    conversation_id: str
    actor: Actor
    target: Actor | None
    key: str
    reply_to_id: str | None
    purpose: Purpose
    status: MessageStatus
    revision: int
    ordinal: int
    offset: int | None
    content: dict[str, Any]
    created_at: str
    updated_at: str
    on_behalf_of: Actor | None = None
    change: int = 0
    run_id: str | None = None

    @property
    def text(self) -> str:
        """What a person would read: the text blocks, joined by blank lines."""
        return content_text(self.content)

    @property
    def envelope(self) -> dict[str, Any] | None:
        """The raw envelope that this message carries, if its purpose says that it carries one."""
        return envelope_of(self.content) if self.purpose.carries_envelope else None

    @property
    def speaker(self) -> Actor:
        """Who answers for the message: the actor it was spoken for, else its actor."""
        return self.on_behalf_of or self.actor

    def with_content(self, content: dict[str, Any], revision: int) -> Message:
        return replace(self, content=content, revision=revision)

    def to_wire(self) -> dict[str, Any]:
        wire: dict[str, Any] = {
            "id": self.id,
            "conversation_id": self.conversation_id,
            "actor": self.actor.to_wire(),
            "target": self.target.to_wire() if self.target else None,
            "key": self.key,
            "reply_to_id": self.reply_to_id,
            "purpose": self.purpose.value,
            "status": self.status.value,
            "revision": self.revision,
            "ordinal": self.ordinal,
            "offset": self.offset,
            "content": self.content,
            "created_at": self.created_at,
            "updated_at": self.updated_at,
            "change": self.change,
        }
        if self.on_behalf_of:
            wire["on_behalf_of"] = self.on_behalf_of.to_wire()
        if self.run_id is not None:
            wire["run_id"] = self.run_id
        return wire

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> Self:
        """Fields this version does not know are passed over. Raises InvalidRequest."""
        target, behalf = wire.get("target"), wire.get("on_behalf_of")
        try:
            return cls(
                id=wire["id"],
                conversation_id=wire["conversation_id"],
                actor=Actor.from_wire(wire["actor"]),
                target=Actor.from_wire(target) if target is not None else None,
                key=wire["key"],
                reply_to_id=wire.get("reply_to_id"),
                purpose=Purpose(wire["purpose"]),
                status=MessageStatus(wire["status"]),
                revision=wire["revision"],
                ordinal=wire["ordinal"],
                offset=wire.get("offset"),
                content=wire["content"],
                created_at=wire["created_at"],
                updated_at=wire["updated_at"],
                on_behalf_of=Actor.from_wire(behalf) if behalf is not None else None,
                change=wire.get("change", 0),
                run_id=wire.get("run_id"),
            )
        except (KeyError, ValueError, TypeError) as error:
            raise InvalidRequest(f"this is not a message: {error}") from error


@record
class ConversationInfo:
    """A conversation as routes answer it (§2.4, §2.6). `parent_id` is set on process conversations.

    Times are RFC 3339 UTC strings; `updated_at` is when its last message was created. `last_ordinal` is its
    highest ordinal. `read_ordinal` and `unread` are told to a person; `unread` counts to 200 at most.
    """

    id: str
    name: str
    owner: Actor
    parent_id: str | None
    created_at: str
    archived_at: str | None = None
    last_ordinal: int = 0
    updated_at: str | None = None
    read_ordinal: int | None = None
    unread: int | None = None

    def to_wire(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "name": self.name,
            "owner": self.owner.to_wire(),
            "parent_id": self.parent_id,
            "created_at": self.created_at,
            "archived_at": self.archived_at,
            "last_ordinal": self.last_ordinal,
            "updated_at": self.updated_at,
            "read_ordinal": self.read_ordinal,
            "unread": self.unread,
        }

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> Self:
        """Raises InvalidRequest."""
        try:
            return cls(
                id=wire["id"],
                name=wire.get("name") or "",
                owner=Actor.from_wire(wire["owner"]),
                parent_id=wire.get("parent_id"),
                created_at=wire["created_at"],
                archived_at=wire.get("archived_at"),
                last_ordinal=wire.get("last_ordinal") or 0,
                updated_at=wire.get("updated_at"),
                read_ordinal=wire.get("read_ordinal"),
                unread=wire.get("unread"),
            )
        except (KeyError, TypeError) as error:
            raise InvalidRequest(f"this is not a conversation: {error}") from error
