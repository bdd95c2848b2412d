"""Rows as the server's rooms hand them to each other: plain values, no SQL, no HTTP.

Decides how a stored message becomes wire JSON: its content travels as the stored text, so that neither a poll
nor a push parses or renders it again. Leaves reading and writing rows to `store`, rules to `decide`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from lineloop.kit import json
from lineloop.kit.clock import rfc3339
from lineloop.kit.records import record
from lineloop.protocol.actors import OPERATOR, Actor
from lineloop.protocol.messages import ConversationInfo, Message, MessageStatus, Purpose


@lru_cache(maxsize=8192)
def stored_actor(kind: str, key: str) -> Actor:
    """The actor of a row; its name was judged when it was stored, and the same few come again and again."""
    return Actor(kind, key)


@record
class Conversation:
    """A conversation and its counters. `change` counts on roots, and only they are archived.

    `membership` moves whenever somebody is taken out of its root conversation.
    """

    id: str
    name: str
    owner: Actor
    parent_id: str | None
    root_id: str
    last_ordinal: int
    last_offset: int
    change: int
    created_at: int
    archived_at: int | None = None
    membership: int = 0

    @property
    def is_root(self) -> bool:
        return self.parent_id is None

    @property
    def is_archived(self) -> bool:
        return self.archived_at is not None

    def changed(self, **fields: Any) -> Conversation:
        return replace(self, **fields)

    def to_info(self, *, said_at: int | None, read: ReadState | None) -> ConversationInfo:
        """As routes answer it. `said_at`: when the last message was created; `read`: of the person asking."""
        return ConversationInfo(
            id=self.id,
            name=self.name,
            owner=self.owner,
            parent_id=self.parent_id,
            created_at=rfc3339(self.created_at),
            archived_at=rfc3339(self.archived_at) if self.archived_at is not None else None,
            last_ordinal=self.last_ordinal,
            updated_at=rfc3339(self.created_at if said_at is None else said_at),
            read_ordinal=read.ordinal if read else None,
            unread=read.unread if read else None,
        )


@record
class ReadState:
    """How far a person has read, an ordinal, and how many messages of others lie beyond it."""

    ordinal: int
    unread: int


@record
class Consumer:
    """The cursor of one actor in one conversation; all numbers are offsets."""

    conversation_id: str
    kind: str
    key: str
    process_conversation_id: str | None
    end_offset: int
    wake_offset: int
    position: int
    committed: int

    @property
    def actor(self) -> Actor:
        return stored_actor(self.kind, self.key)


@dataclass(slots=True)
class StoredMessage:
    """A message with its content as JSON text. Times are UTC milliseconds; an absent target is two empty
    strings.

    Treat it as immutable: it is shared between all who receive it.
    """

    id: str
    conversation_id: str
    root_id: str
    actor_kind: str
    actor_key: str
    target_kind: str
    target_key: str
    key: str
    reply_to_id: str | None
    purpose: Purpose
    status: MessageStatus
    revision: int
    ordinal: int
    offset: int | None
    change: int
    run_id: str | None
    on_behalf_kind: str | None
    on_behalf_key: str | None
    call_id: str | None
    created_at: int
    updated_at: int
    content_json: str
    _json: str | None = field(default=None, repr=False, compare=False)
    _wire: dict[str, Any] | None = field(default=None, repr=False, compare=False)

    @property
    def actor(self) -> Actor:
        return stored_actor(self.actor_kind, self.actor_key)

    @property
    def target(self) -> Actor | None:
        return stored_actor(self.target_kind, self.target_key) if self.target_kind else None

    @property
    def on_behalf_of(self) -> Actor | None:
        if self.on_behalf_kind is None or self.on_behalf_key is None:
            return None
        return stored_actor(self.on_behalf_kind, self.on_behalf_key)

    @property
    def content(self) -> dict[str, Any]:
        """The parsed content. Shared: never change it in place."""
        return self.to_wire()["content"]

    def to_wire(self) -> dict[str, Any]:
        """The wire message as a value, parsed once and shared: never change it in place."""
        if self._wire is None:
            self._wire = json.loads(self.to_json())
        assert self._wire is not None
        return self._wire

    def to_message(self) -> Message:
        return Message.from_wire(self.to_wire())

    def to_json(self) -> str:
        """The wire message as JSON text (spec/protocol.md §2.1), rendered once for all receivers."""
        if self._json is None:
            self._json = self._rendered()
        return self._json

    def _rendered(self) -> str:
        created = _stamp(self.created_at)
        updated = created if self.updated_at == self.created_at else _stamp(self.updated_at)
        target = _actor_json(self.target_kind, self.target_key) if self.target_kind else "null"
        reply = json.quoted(self.reply_to_id) if self.reply_to_id is not None else "null"
        behalf = ""
        if self.on_behalf_kind is not None and self.on_behalf_key is not None:
            behalf = f',"on_behalf_of":{_actor_json(self.on_behalf_kind, self.on_behalf_key)}'
        run = "" if self.run_id is None else f',"run_id":"{self.run_id}"'
        return (
            f'{{"id":"{self.id}","conversation_id":"{self.conversation_id}",'
            f'"actor":{_actor_json(self.actor_kind, self.actor_key)},"target":{target},'
            f'"key":{json.quoted(self.key)},"reply_to_id":{reply},"purpose":"{self.purpose}",'
            f'"status":"{self.status}","revision":{self.revision},"ordinal":{self.ordinal},'
            f'"offset":{"null" if self.offset is None else self.offset},"content":{self.content_json},'
            f'"created_at":"{created}","updated_at":"{updated}","change":{self.change}{behalf}{run}}}'
        )

    def changed(self, **fields: Any) -> StoredMessage:
        """A copy with other fields; what was rendered is not carried over."""
        return replace(self, **fields, _json=None, _wire=None)


@lru_cache(maxsize=64)
def _second(seconds: int) -> str:
    return rfc3339(seconds * 1000)[:-4]


def _stamp(ms: int) -> str:
    """rfc3339, remembering the second: most messages that are rendered together share it."""
    return f"{_second(ms // 1000)}{ms % 1000:03d}Z"


@lru_cache(maxsize=8192)
def _actor_json(kind: str, key: str) -> str:
    return f'{{"kind":{json.quoted(kind)},"key":{json.quoted(key)}}}'


def is_operator(kind: str) -> bool:
    """Whether actors of this kind act for an operator: the operator itself or one of its roles."""
    return kind == OPERATOR or kind.startswith(f"{OPERATOR}/")


@record
class QuestionRow:
    """A stored question. `facts`: kind, text, choices, allow_other, labels, deadline_at (ms), state, value,
    reason, answer_id. `asker` and `person` are (kind, key).
    """

    id: str
    conversation_id: str
    root_id: str
    asker: tuple[str, str]
    person: tuple[str, str]
    digest: str
    facts: dict[str, Any]
