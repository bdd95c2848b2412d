"""The envelope between agents and a device: its checks and its builders (spec/protocol.md §7).

Decides what a well-formed envelope is and what an agent may put in one: the protocol step of the inbound
chain. Identity, order, visibility and everything that needs stored state are later steps and belong to the
device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal, NamedTuple, NoReturn, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lineloop.kit import json as codec
from lineloop.kit.records import record
from lineloop.protocol.actors import Actor
from lineloop.protocol.errors import ErrorCode, FieldError, LoopError
from lineloop.protocol.json_rules import is_deeper_than, validation_errors
from lineloop.protocol.tools import RUNTIME_SCOPE, AppScope, ContractVersion, Method, ToolKey

ENVELOPE_VERSION = 1
MAX_ENVELOPE_BYTES = 256 * 1024
MAX_ENVELOPE_DEPTH = 64


class EnvelopeType(StrEnum):
    """Every type of this version (§7.2)."""

    CONTENT_TEXT = "lineup.content.text"
    CONTENT_IMAGE = "lineup.content.image"
    CONTENT_AUDIO = "lineup.content.audio"
    CONTENT_LINK = "lineup.content.link"
    CONTENT_ARTIFACT = "lineup.content.artifact"
    AGENT_PRESENCE = "lineup.agent.presence"
    AGENT_STATUS = "lineup.agent.status"
    AGENT_TASK = "lineup.agent.task"
    AGENT_PROGRESS = "lineup.agent.progress"
    INTERACTION_CHOICE = "lineup.interaction.choice"
    INTERACTION_CONFIRM = "lineup.interaction.confirm"
    INTERACTION_INPUT = "lineup.interaction.input"
    INTERACTION_FORM = "lineup.interaction.form"
    TOOL_INVOKE = "lineup.tool.invoke"
    TOOL_ACCEPTED = "lineup.tool.accepted"
    TOOL_PROGRESS = "lineup.tool.progress"
    TOOL_RESULT = "lineup.tool.result"
    TOOL_ERROR = "lineup.tool.error"
    TOOL_CANCEL = "lineup.tool.cancel"
    APP_STATE_PATCH = "lineup.app.state.patch"
    APP_EVENT = "lineup.app.event"
    APP_OPEN = "lineup.app.open"
    APP_CLOSE = "lineup.app.close"
    APP_LIFECYCLE = "lineup.app.lifecycle"
    CAPABILITY_REQUEST = "lineup.capability.request"
    CAPABILITY_RESULT = "lineup.capability.result"
    RUNTIME_INVENTORY = "lineup.runtime.inventory"
    RUNTIME_CONNECTION = "lineup.runtime.connection"
    RUNTIME_REGISTRY = "lineup.runtime.registry"
    RUNTIME_POLICY = "lineup.runtime.policy"
    RUNTIME_ERROR = "lineup.runtime.error"


_T = EnvelopeType
FROM_AGENT = frozenset(
    {
        *(
            kind
            for kind in _T
            if kind.startswith(("lineup.content.", "lineup.agent.", "lineup.interaction."))
        ),
        _T.TOOL_INVOKE,
        _T.TOOL_CANCEL,
        _T.APP_STATE_PATCH,
        _T.RUNTIME_INVENTORY,
    }
)
"""The types that an agent may send. An agent opens or closes nothing and answers no call."""

TERMINAL_TYPES = frozenset({_T.TOOL_RESULT, _T.TOOL_ERROR})


class Stage(StrEnum):
    """What a receipt reports. Receipts are not results (§7.6)."""

    ACCEPTED = "accepted"
    STARTING = "starting"
    ACTIVATION_READY = "activation_ready"
    ACTIVATION_FAILED = "activation_failed"
    ACTIVATION_CANCELLED = "activation_cancelled"
    STARTED = "started"
    PROGRESS = "progress"


class SenderKind(StrEnum):
    AGENT = "agent"
    RUNTIME = "runtime"
    APP = "app"
    USER = "user"
    HOST = "host"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


Id = Annotated[str, Field(min_length=1, max_length=256)]


class Sender(_Part):
    kind: SenderKind
    id: Id


class EnvelopeTarget(_Part):
    """`agent` is the target kind of what a device sends to an agent; `id` is then the agent's actor."""

    kind: Literal["runtime", "app", "agent"]
    app_scope: AppScope
    id: Id | None = None
    instance_id: Id | None = None


class Scope(_Part):
    app_scope: AppScope
    conversation_id: Id
    instance_id: Id | None = None
    operation_id: Id | None = None


class Correlation(_Part):
    reply_to: Id | None = None
    call_id: Id | None = None
    inventory_revision: Id | None = None
    sequence: Annotated[int, Field(ge=0)] | None = None


class RuntimeEnvelope(_Part):
    """One envelope (§7.1). `timestamp` is RFC 3339 UTC; `trace` is a W3C trace context."""

    v: Literal[1]
    id: Id
    type: EnvelopeType
    timestamp: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z$")]
    sender: Sender
    target: EnvelopeTarget
    scope: Scope
    correlation: Correlation | None = None
    payload: Any
    trace: dict[Literal["traceparent", "tracestate"], Annotated[str, Field(max_length=512)]] | None = None

    def invocation(self) -> Invocation:
        """The call that a `lineup.tool.invoke` asks for.

        Raises LoopError `envelope_invalid` for other types.
        """
        if self.type is not EnvelopeType.TOOL_INVOKE or self.correlation is None:
            _invalid("this envelope invokes no tool", "/type")
        payload = cast("dict[str, Any]", self.payload)
        return Invocation(
            key=ToolKey(payload["app_scope"], payload["method"], payload["contract_version"]),
            params=payload["params"],
            call_id=self.correlation.call_id or "",
            inventory_revision=self.correlation.inventory_revision or "",
        )


Envelope = RuntimeEnvelope


class Invocation(NamedTuple):
    """What a `lineup.tool.invoke` asks for."""

    key: ToolKey
    params: dict[str, Any]
    call_id: str
    inventory_revision: str


class _InvokePayload(_Part):
    app_scope: AppScope
    method: Method
    contract_version: ContractVersion
    params: dict[str, Any]


class _CancelPayload(_Part):
    app_scope: AppScope | None = None
    reason: Annotated[str, Field(max_length=500)] | None = None


class _InventoryRequestPayload(_Part):
    known_revision: Id | None = None


_PAYLOADS: dict[EnvelopeType, Callable[[Any], object]] = {
    _T.TOOL_INVOKE: _InvokePayload.model_validate,
    _T.TOOL_CANCEL: _CancelPayload.model_validate,
    _T.RUNTIME_INVENTORY: _InventoryRequestPayload.model_validate,
}
_TYPES: frozenset[str] = frozenset(EnvelopeType)
_NAMED_BY_RUNTIME_ONLY = ("instance_id", "operation_id", "app_session_id")


def check_envelope(raw: Any, *, from_agent: bool) -> RuntimeEnvelope:
    """The protocol step (§7.3): version, scopes, type, size, depth, schema; from an agent also its limits.

    Raises LoopError, each refusal with its own code: `envelope_invalid`, `envelope_version_unsupported`,
    `scope_missing`, `envelope_type_unknown`, `envelope_too_deep`, `envelope_too_large`, `scope_forbidden`,
    `scope_mismatch`.
    """
    if not isinstance(raw, dict):
        _invalid("an envelope is an object", "")
    envelope = cast("dict[str, Any]", raw)
    version = envelope.get("v")
    if type(version) is not int or version != ENVELOPE_VERSION:
        _refuse(ErrorCode.ENVELOPE_VERSION_UNSUPPORTED, "the envelope version is not 1", "/v")
    _check_scopes_present(envelope)
    _check_type(envelope, from_agent=from_agent)
    text = _text_of(envelope)
    if is_deeper_than(envelope, MAX_ENVELOPE_DEPTH, text):
        _refuse(ErrorCode.ENVELOPE_TOO_DEEP, f"nested more than {MAX_ENVELOPE_DEPTH} levels", "")
    _check_size(text)
    if from_agent:
        _check_agent_names_nothing(envelope)
    try:
        checked = RuntimeEnvelope.model_validate(envelope)
    except ValidationError as error:
        raise _schema_error(validation_errors(error)) from error
    if from_agent:
        _check_agent_envelope(checked)
    return checked


def check_carrier(envelope: RuntimeEnvelope, *, speaker: Actor, root_conversation_id: str) -> None:
    """The envelope must say what its message says: same speaker, same root conversation.

    Raises LoopError `scope_mismatch`.
    """
    if envelope.sender.id != str(speaker):
        _refuse(ErrorCode.SCOPE_MISMATCH, "the sender is not the message's speaker", "/sender/id")
    if envelope.scope.conversation_id != root_conversation_id:
        _refuse(
            ErrorCode.SCOPE_MISMATCH, "the scope is not the message's conversation", "/scope/conversation_id"
        )


def _check_scopes_present(envelope: dict[str, Any]) -> None:
    for part, names in (("scope", ("app_scope", "conversation_id")), ("target", ("app_scope",))):
        fields = envelope.get(part)
        for name in names:
            value = cast("dict[str, Any]", fields).get(name) if isinstance(fields, dict) else None
            if not isinstance(value, str) or not value.strip():
                _refuse(ErrorCode.SCOPE_MISSING, f"{part}.{name} is missing", f"/{part}/{name}")


def _check_type(envelope: dict[str, Any], *, from_agent: bool) -> None:
    kind = envelope.get("type")
    if not isinstance(kind, str) or kind not in _TYPES:
        _refuse(ErrorCode.ENVELOPE_TYPE_UNKNOWN, "the envelope type is not known", "/type")
    if from_agent and kind not in FROM_AGENT:
        _refuse(ErrorCode.ENVELOPE_TYPE_UNKNOWN, "an agent does not send this type", "/type")


def _text_of(envelope: dict[str, Any]) -> str | None:
    """None for what is no JSON, or is nested so deeply that it cannot be written."""
    try:
        text = codec.dumps(envelope)
        text.encode()  # a lone surrogate is no text
    except ValueError:
        return None
    return text


def _check_size(text: str | None) -> None:
    if text is None:
        raise _schema_error([{"pointer": "", "message": "not JSON"}])
    # A character has at most four bytes.
    size_bytes = len(text) if len(text) * 4 <= MAX_ENVELOPE_BYTES else len(text.encode())
    if size_bytes > MAX_ENVELOPE_BYTES:
        raise LoopError(
            f"the envelope is larger than {MAX_ENVELOPE_BYTES} bytes",
            code=ErrorCode.ENVELOPE_TOO_LARGE,
            detail={"limit": "envelope_bytes", "max": MAX_ENVELOPE_BYTES, "actual": size_bytes},
        )


def _check_agent_names_nothing(envelope: dict[str, Any]) -> None:
    for part in ("target", "scope", "correlation", "payload"):
        fields = envelope.get(part)
        if not isinstance(fields, dict):
            continue
        for name in _NAMED_BY_RUNTIME_ONLY:
            if name in cast("dict[str, Any]", fields):
                _refuse(ErrorCode.SCOPE_FORBIDDEN, f"an agent never names {name}", f"/{part}/{name}")


def _check_agent_envelope(envelope: RuntimeEnvelope) -> None:
    if envelope.sender.kind is not SenderKind.AGENT:
        _refuse(ErrorCode.SCOPE_MISMATCH, "an agent sends as an agent", "/sender/kind")
    if envelope.target.kind == "agent":
        _refuse(ErrorCode.SCOPE_MISMATCH, "an agent's envelope goes to a runtime or an app", "/target/kind")
    scopes = [envelope.target.app_scope, envelope.scope.app_scope]
    check_payload = _PAYLOADS.get(envelope.type)
    if check_payload is not None:
        try:
            check_payload(envelope.payload)
        except ValidationError as error:
            raise _schema_error(validation_errors(error, "/payload")) from error
        named = cast("dict[str, Any]", envelope.payload).get("app_scope")
        if named is not None:
            scopes.append(named)
    if len(set(scopes)) != 1:
        _refuse(ErrorCode.SCOPE_MISMATCH, "the app_scopes of the envelope differ", "/scope/app_scope")
    correlation = envelope.correlation
    if envelope.type in (_T.TOOL_INVOKE, _T.TOOL_CANCEL) and (correlation is None or not correlation.call_id):
        _invalid("a call has a call_id", "/correlation/call_id")
    if envelope.type is _T.TOOL_INVOKE and (correlation is None or not correlation.inventory_revision):
        _invalid("a call names the inventory revision it saw", "/correlation/inventory_revision")


def _schema_error(errors: list[FieldError]) -> LoopError:
    return LoopError("the envelope breaks its schema", code=ErrorCode.ENVELOPE_INVALID, errors=errors)


def _invalid(message: str, pointer: str) -> NoReturn:
    _refuse(ErrorCode.ENVELOPE_INVALID, message, pointer)


def _refuse(code: ErrorCode, message: str, pointer: str) -> NoReturn:
    raise LoopError(message, code=code, pointer=pointer)


# --- builders -----------------------------------------------------------------------------------------------


@record
class FromAgent:
    """The head of an envelope that `agent` sends in `conversation_id` (the root conversation)."""

    id: str
    timestamp: str
    agent: Actor
    conversation_id: str


@record
class FromDevice:
    """The head of an envelope that the device `device_key` sends to `agent` about one app.

    `reply_to` is the id of the envelope that is answered, if one is.
    """

    id: str
    timestamp: str
    device_key: str
    agent: Actor
    conversation_id: str
    app_scope: str
    reply_to: str | None = None


def tool_invoke(
    head: FromAgent, key: ToolKey, params: Mapping[str, Any], *, call_id: str, inventory_revision: str
) -> dict[str, Any]:
    """An agent's call of one tool (§7.4)."""
    payload = {
        "app_scope": key.app_scope,
        "method": key.method,
        "contract_version": key.contract_version,
        "params": dict(params),
    }
    correlation = {"call_id": call_id, "inventory_revision": inventory_revision}
    return _from_agent(head, _T.TOOL_INVOKE, key.app_scope, payload, correlation)


def tool_cancel(
    head: FromAgent, *, app_scope: str, call_id: str, reason: str | None = None
) -> dict[str, Any]:
    """An agent's wish that a call should end (§7.6)."""
    payload = {"app_scope": app_scope} | ({"reason": reason} if reason else {})
    return _from_agent(head, _T.TOOL_CANCEL, app_scope, payload, {"call_id": call_id})


def inventory_request(head: FromAgent, *, known_revision: str | None = None) -> dict[str, Any]:
    """An agent's question for the current inventory (§7.5)."""
    payload = {"known_revision": known_revision} if known_revision else {}
    return _from_agent(head, _T.RUNTIME_INVENTORY, RUNTIME_SCOPE, payload, None)


def inventory_envelope(head: FromDevice, payload: Mapping[str, Any]) -> dict[str, Any]:
    """A published inventory; `payload` as of `Inventory.to_payload()` (§7.5)."""
    correlation = {"inventory_revision": payload["revision"]}
    return _from_device(head, _T.RUNTIME_INVENTORY, dict(payload), correlation)


def tool_receipt(
    head: FromDevice, stage: Stage, *, call_id: str, sequence: int, facts: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """A receipt; `facts` are the controlled reason, progress or time facts of its stage (§7.6)."""
    kind = _T.TOOL_ACCEPTED if stage in (Stage.ACCEPTED, Stage.STARTING) else _T.TOOL_PROGRESS
    payload = {"stage": stage.value, "app_scope": head.app_scope, **(facts or {})}
    return _from_device(head, kind, payload, {"call_id": call_id, "sequence": sequence})


def tool_result(
    head: FromDevice, result: Mapping[str, Any], *, call_id: str, sequence: int
) -> dict[str, Any]:
    """The one result of a call (§7.6)."""
    return _from_device(
        head, _T.TOOL_RESULT, {"result": dict(result)}, {"call_id": call_id, "sequence": sequence}
    )


def tool_error(
    head: FromDevice, error: LoopError, *, call_id: str, sequence: int, rejected: bool = False
) -> dict[str, Any]:
    """The one error of a call, or (`rejected`) the refusal of an envelope before it became a call (§7.6).

    What `error.detail` holds (reason, inventory_revision) stands beside the code.
    """
    payload: dict[str, Any] = {**error.detail, "code": str(error.code), "message": error.message}
    payload["retryable"] = error.retryable
    if error.errors:
        payload["errors"] = error.errors
    if rejected:
        payload["rejected"] = True
    return _from_device(head, _T.TOOL_ERROR, payload, {"call_id": call_id, "sequence": sequence})


def _from_agent(
    head: FromAgent,
    kind: EnvelopeType,
    app_scope: str,
    payload: dict[str, Any],
    correlation: dict[str, Any] | None,
) -> dict[str, Any]:
    envelope: dict[str, Any] = {
        "v": ENVELOPE_VERSION,
        "id": head.id,
        "type": kind.value,
        "timestamp": head.timestamp,
        "sender": {"kind": "agent", "id": str(head.agent)},
        "target": {"kind": "runtime", "app_scope": app_scope},
        "scope": {"app_scope": app_scope, "conversation_id": head.conversation_id},
        "payload": payload,
    }
    if correlation is not None:
        envelope["correlation"] = correlation
    return envelope


def _from_device(
    head: FromDevice, kind: EnvelopeType, payload: dict[str, Any], correlation: dict[str, Any]
) -> dict[str, Any]:
    if head.reply_to is not None:
        correlation = {"reply_to": head.reply_to, **correlation}
    return {
        "v": ENVELOPE_VERSION,
        "id": head.id,
        "type": kind.value,
        "timestamp": head.timestamp,
        "sender": {"kind": "runtime", "id": f"runtime/{head.device_key}"},
        "target": {"kind": "agent", "app_scope": head.app_scope, "id": str(head.agent)},
        "scope": {"app_scope": head.app_scope, "conversation_id": head.conversation_id},
        "correlation": correlation,
        "payload": payload,
    }
