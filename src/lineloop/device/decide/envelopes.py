"""Composes what the device says to agents (design: runtime 3.8; shapes: protocol.envelopes).

Decides where an answer goes and how it is carried. Answers name calls, apps, stages and times; never
instances, sub-sessions or operations.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from lineloop.kit.records import record
from lineloop.protocol.actors import Actor
from lineloop.protocol.content import envelope_content
from lineloop.protocol.envelopes import FromDevice


@lru_cache(maxsize=16)
def wire_time(ms: int) -> str:
    """UTC milliseconds as RFC 3339, for example 2026-01-02T03:04:05.678Z."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


# An agent is named in every answer to it, and there are few of them.
_actor = lru_cache(maxsize=1_024)(Actor.parse)


@record
class Address:
    """Where an answer goes: to one agent, in one conversation, as the reply to one message and its
    envelope.
    """

    agent: str
    conversation_id: str
    app_scope: str
    reply_to_id: str | None = None
    envelope_id: str | None = None


@record
class Moment:
    """The time of a decision and who decides: one device."""

    now: int
    device: Actor


def head_of(moment: Moment, address: Address, envelope_id: str) -> FromDevice:
    """The head of an outbound envelope."""
    return FromDevice(
        id=envelope_id,
        timestamp=wire_time(moment.now),
        device_key=moment.device.key,
        agent=_actor(address.agent),
        conversation_id=address.conversation_id,
        app_scope=address.app_scope,
        reply_to=address.envelope_id,
    )


def compose_message(address: Address, key: str, envelope: dict[str, Any]) -> dict[str, Any]:
    """The speak item that carries an envelope to its agent."""
    message: dict[str, Any] = {
        "conversation_id": address.conversation_id,
        "key": key,
        "target": _actor(address.agent).to_wire(),
        "content": envelope_content(envelope),
    }
    if address.reply_to_id is not None:
        message["reply_to_id"] = address.reply_to_id
    return message
