"""First entry: what a remote agent sends. Identity comes from the message, never from the payload.

Decides which message is an agent's request to this device and what is wrong with it up to the protocol step;
builds `Invoke`, and nobody else does. What stored state says about it is decided in the commit.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

from lineloop.device.decide.calls import Invoke
from lineloop.device.decide.plan import Failure
from lineloop.kit import json
from lineloop.kit.records import record
from lineloop.protocol.actors import Actor
from lineloop.protocol.envelopes import EnvelopeType, RuntimeEnvelope, check_carrier, check_envelope
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import LoopError
from lineloop.protocol.messages import Message
from lineloop.protocol.tools import RUNTIME_SCOPE

SOURCE = "agent_tool"


@record
class CancelRequest:
    """An agent wants its call to end."""

    app_scope: str
    call_id: str


@record
class InventoryRequest:
    """An agent asks what it may call."""


@record
class AppMessage:
    """A checked envelope for an app's inbox."""

    envelope: RuntimeEnvelope


@record
class Refused:
    """An envelope that failed the protocol step; scope and call_id as far as they could be read."""

    failure: Failure
    app_scope: str
    call_id: str | None


AgentRequest = Invoke | CancelRequest | InventoryRequest | AppMessage | Refused


def read_request(message: Message, device: Actor, counters: Counter[str]) -> AgentRequest | None:
    """What an agent asks of this device with a message; None when it is nothing for the device.

    `counters` counts refusals by code.
    """
    if message.target != device or not message.purpose.carries_envelope:
        return None
    raw = message.envelope
    try:
        if message.speaker.operator_key is None:
            raise LoopError("only agents send envelopes to a device", code=ErrorCode.PERMISSION_DENIED)
        envelope = check_envelope(raw, from_agent=True)
        check_carrier(envelope, speaker=message.speaker, root_conversation_id=message.conversation_id)
    except LoopError as error:
        counters[str(error.code)] += 1
        failure = Failure(error.code, message=error.message, detail=error.detail, errors=error.errors)
        return Refused(failure, _read_scope(raw), _read_call_id(raw))
    match envelope.type:
        case EnvelopeType.TOOL_INVOKE:
            return _invoke(message, envelope)
        case EnvelopeType.TOOL_CANCEL:
            call_id = envelope.correlation.call_id if envelope.correlation is not None else None
            return CancelRequest(envelope.scope.app_scope, call_id or "")
        case EnvelopeType.RUNTIME_INVENTORY:
            return InventoryRequest()
        case _:
            return AppMessage(envelope)


def envelope_id(message: Message) -> str:
    """The id of the envelope that a message carries, as far as it can be read."""
    raw = message.envelope
    value = raw.get("id") if raw is not None else None
    return value if isinstance(value, str) else ""


def _invoke(message: Message, envelope: RuntimeEnvelope) -> Invoke:
    call = envelope.invocation()
    return Invoke(
        agent=str(message.speaker),
        conversation_id=message.conversation_id,
        call_id=call.call_id,
        key=call.key,
        params=call.params,
        params_text=json.dumps(call.params),
        inventory_revision=call.inventory_revision,
        message_id=message.id,
        envelope_id=envelope.id,
        trace=json.dumps(envelope.trace) if envelope.trace is not None else None,
    )


def _read_scope(raw: Any) -> str:
    for part in ("scope", "target"):
        fields: Any = cast("dict[str, Any]", raw).get(part) if isinstance(raw, dict) else None
        scope: Any = cast("dict[str, Any]", fields).get("app_scope") if isinstance(fields, dict) else None
        if isinstance(scope, str) and scope.strip():
            return scope[:63]
    return RUNTIME_SCOPE


def _read_call_id(raw: Any) -> str | None:
    fields: Any = cast("dict[str, Any]", raw).get("correlation") if isinstance(raw, dict) else None
    call_id: Any = cast("dict[str, Any]", fields).get("call_id") if isinstance(fields, dict) else None
    return call_id[:256] if isinstance(call_id, str) and call_id else None
