"""What the person's conversations look like to the chat app: messages become `lineup.content.*` envelopes.

Decides which messages a person is shown and in which type. Traffic between programs (envelopes, inventories)
is none of it.
"""

from __future__ import annotations

from typing import Any, cast

from lineloop.protocol.actors import HARNESS, OPERATOR, RUNTIME, USER, Actor
from lineloop.protocol.content import ASK_BLOCK, CONFIRM_BLOCK, Purpose
from lineloop.protocol.envelopes import EnvelopeType, SenderKind
from lineloop.protocol.messages import Message

CHAT = "chat"


TITLE_CHARS = 60


def is_shown(purpose: str) -> bool:
    """Whether a person's history holds messages of this purpose."""
    return purpose not in (Purpose.ENVELOPE, Purpose.INVENTORY)


def counts_as_unread(message: Message, person: Actor) -> bool:
    """Whether a message that was not seen yet waits for the person: what they said themselves does not."""
    return message.speaker != person


def title_from(text: str) -> str:
    """The first words of a text, on one line, at most TITLE_CHARS characters."""
    line = " ".join(text[: TITLE_CHARS * 4].split())
    if len(line) <= TITLE_CHARS:
        return line
    head = line[: TITLE_CHARS - 1]
    words = head.rsplit(" ", 1)[0] if " " in head[TITLE_CHARS // 2 :] else head
    return f"{words}…"


def is_addressable(actor: Actor) -> bool:
    """Whether a person may choose to speak to the actor: an operator or a harness, not a role or a run."""
    if actor.kind == HARNESS:
        return not actor.key.startswith("run-")
    return actor.kind == OPERATOR


def content_envelope(message: Message, root_id: str) -> dict[str, Any]:
    """The envelope for the chat app: who speaks, in which conversation, and the content as it stands."""
    return {
        "v": 1,
        "id": f"{message.id}/{message.revision}",
        "type": str(content_type(message)),
        "timestamp": message.updated_at,
        "sender": {"kind": str(_sender_kind(message.actor)), "id": str(message.actor)},
        "target": {"kind": "app", "app_scope": CHAT},
        "scope": {"app_scope": CHAT, "conversation_id": root_id},
        "payload": {
            "message_id": message.id,
            "conversation_id": message.conversation_id,
            "ordinal": message.ordinal,
            "purpose": str(message.purpose),
            "status": str(message.status),
            "reply_to_id": message.reply_to_id,
            "text": message.text,
            "content": message.content,
        },
    }


def content_type(message: Message) -> EnvelopeType:
    """A question by its card (choice, confirm, input), everything else as text with its blocks."""
    if message.purpose is not Purpose.QUESTION:
        return EnvelopeType.CONTENT_TEXT
    for block in cast("list[dict[str, Any]]", message.content.get("blocks") or []):
        if block.get("type") == CONFIRM_BLOCK:
            return EnvelopeType.INTERACTION_CONFIRM
        if block.get("type") == ASK_BLOCK:
            return EnvelopeType.INTERACTION_CHOICE if block.get("choices") else EnvelopeType.INTERACTION_INPUT
    return EnvelopeType.INTERACTION_INPUT


def _sender_kind(actor: Actor) -> SenderKind:
    head = actor.kind.split("/", 1)[0]
    kinds = {USER: SenderKind.USER, RUNTIME: SenderKind.RUNTIME, OPERATOR: SenderKind.AGENT}
    return kinds.get(head, SenderKind.AGENT)
