"""Agent Tools: their descriptors, names and the inventory that publishes them (spec/protocol.md §7.4, §7.5).

Decides what a descriptor may say and how an inventory is identified. Which tools an agent sees is decided by
the device; how a call travels is in envelopes.py.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, NamedTuple, Self, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from lineloop.kit import json as codec
from lineloop.kit.records import record
from lineloop.protocol.errors import InvalidRequest, LoopError
from lineloop.protocol.json_rules import validation_errors

APP_SCOPE_PATTERN = r"^[a-z][a-z0-9-]{0,62}$"
METHOD_PATTERN = r"^[a-z][a-z0-9_]{0,62}(\.[a-z][a-z0-9_]{0,62}){0,3}$"
VERSION_PATTERN = r"^[0-9A-Za-z.-]{1,32}$"
MAX_TIMEOUT_MS = 7 * 24 * 3600 * 1000

AppScope = Annotated[str, Field(pattern=APP_SCOPE_PATTERN)]
Method = Annotated[str, Field(pattern=METHOD_PATTERN, max_length=128)]
ContractVersion = Annotated[str, Field(pattern=VERSION_PATTERN)]

RUNTIME_SCOPE = "runtime"
CORE_SCOPES = frozenset({"chat", "app-registry", "settings"})
# Names that people would take for the Runtime itself.
RESERVED_SCOPES = CORE_SCOPES | {RUNTIME_SCOPE, "lineloop", "lineup", "system"}
GLOBAL_CONVERSATION = "runtime:global"


class CallModel(StrEnum):
    QUERY = "query"
    COMMAND = "command"
    INTERACTIVE = "interactive"
    OPERATION = "operation"


class Delivery(StrEnum):
    MINIAPP_SDK = "miniapp_sdk"
    RUNTIME = "runtime"


class ActivationRequirement(StrEnum):
    APP_READY = "app_ready"
    FOREGROUND_REQUIRED = "foreground_required"
    ACTIVATION_NOT_REQUIRED = "activation_not_required"


class Idempotency(StrEnum):
    CALL_ID = "call_id"
    NONE = "none"


class Risk(StrEnum):
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class OnLeave(StrEnum):
    INTERRUPT = "interrupt"
    CONTINUE = "continue"


class ToolKey(NamedTuple):
    """What identifies a tool. A structure, never a joined string."""

    app_scope: str
    method: str
    contract_version: str


class DurationUnit(StrEnum):
    MS = "ms"
    SECONDS = "seconds"
    MINUTES = "minutes"
    HOURS = "hours"


_UNIT_MS = {
    DurationUnit.MS: 1,
    DurationUnit.SECONDS: 1_000,
    DurationUnit.MINUTES: 60_000,
    DurationUnit.HOURS: 3_600_000,
}


class DurationFrom(BaseModel):
    """The parameter that holds a duration, and its unit."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    param: Annotated[str, Field(min_length=1, max_length=64)]
    unit: DurationUnit

    def duration_ms(self, params: Mapping[str, Any]) -> int:
        """The duration that the call asks for. Raises InvalidRequest when the parameter holds no number."""
        value = params.get(self.param)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise InvalidRequest("the duration is a number", pointer=f"/{self.param}")
        return round(value * _UNIT_MS[self.unit])


class Execution(BaseModel):
    """What a runtime-delivered tool does, by the name of a built-in (`deadline.start`, `deadline.interrupt`).

    `outcomes` are the words of the tool's `outcome`; which of them end an operation is the built-in's affair.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    name: Annotated[str, Field(pattern=METHOD_PATTERN)]
    duration_from: DurationFrom | None = None
    on_leave: OnLeave = OnLeave.INTERRUPT
    outcomes: tuple[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")], ...] = ()


class ToolDescriptor(BaseModel):
    """The non-executable description of one Agent Tool (§7.4). Unknown fields are passed over when read."""

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)

    app_scope: AppScope
    method: Method
    contract_version: ContractVersion
    title: Annotated[str, Field(min_length=1, max_length=128)]
    description: Annotated[str, Field(max_length=4096)] = ""
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]
    call_model: CallModel
    delivery: Delivery = Delivery.MINIAPP_SDK
    execution: Execution | None = None
    activation_requirement: ActivationRequirement = ActivationRequirement.APP_READY
    timeout_ms: Annotated[int, Field(ge=1, le=MAX_TIMEOUT_MS)] = 30_000
    idempotency: Idempotency = Idempotency.CALL_ID
    risk: Risk = Risk.LOW
    capabilities: tuple[str, ...] = ()
    auto_launch: bool = True

    @model_validator(mode="after")
    def _execution_fits_delivery(self) -> Self:
        if (self.delivery is Delivery.RUNTIME) != (self.execution is not None):
            raise ValueError("execution is given for delivery runtime, and only there")
        return self

    @property
    def key(self) -> ToolKey:
        return ToolKey(self.app_scope, self.method, self.contract_version)

    @property
    def model_name(self) -> str:
        return model_name(self.key)

    def to_wire(self) -> dict[str, Any]:
        """Every field that has a value, in one spelling, so that equal tools are equal bytes."""
        return self.model_dump(mode="json", exclude_none=True)

    @classmethod
    def from_wire(cls, wire: Any) -> Self:
        """Raises InvalidRequest with the pointer of each broken place."""
        try:
            return cls.model_validate(wire)
        except ValidationError as error:
            raise InvalidRequest("this is not a tool descriptor", errors=validation_errors(error)) from error


def model_name(key: ToolKey) -> str:
    """The name shown to models: `app_scope__method`, dots as underscores."""
    return f"{key.app_scope}__{key.method.replace('.', '_')}"


def check_model_names(tools: Sequence[ToolDescriptor]) -> None:
    """Raises InvalidRequest when two tools would be shown to a model under one name."""
    seen: dict[str, ToolKey] = {}
    for tool in tools:
        other = seen.setdefault(tool.model_name, tool.key)
        if other != tool.key:
            raise InvalidRequest(f"two tools would both be called {tool.model_name}", pointer="/tools")


def inventory_revision(payload: Mapping[str, Any]) -> str:
    """`inv_` and 16 hex digits: sha256 of the canonical JSON (RFC 8785) of everything but `revision`."""
    facts = {name: value for name, value in payload.items() if name != "revision"}
    return "inv_" + hashlib.sha256(codec.canonical(facts)).hexdigest()[:16]


@record
class Inventory:
    """What a device publishes to one agent in one conversation (§7.5)."""

    revision: str
    tools: tuple[ToolDescriptor, ...]
    apps: tuple[dict[str, Any], ...] = ()
    surfaces: tuple[dict[str, Any], ...] = ()
    capabilities: tuple[Any, ...] = ()

    @classmethod
    def of(
        cls,
        tools: Sequence[ToolDescriptor],
        *,
        apps: Sequence[dict[str, Any]] = (),
        surfaces: Sequence[dict[str, Any]] = (),
        capabilities: Sequence[Any] = (),
    ) -> Self:
        """The inventory of these facts; order does not matter, equal facts give an equal revision."""
        ordered = cls(
            "",
            tuple(sorted(tools, key=lambda tool: tool.key)),
            tuple(sorted(apps, key=_stable)),
            tuple(sorted(surfaces, key=_stable)),
            tuple(sorted(capabilities, key=_stable)),
        )
        return cls(
            inventory_revision(ordered.to_payload()),
            ordered.tools,
            ordered.apps,
            ordered.surfaces,
            ordered.capabilities,
        )

    @classmethod
    def from_payload(cls, payload: Mapping[str, Any]) -> Self:
        """From the payload of a `lineup.runtime.inventory` envelope. Raises InvalidRequest."""
        revision, tools = payload.get("revision"), payload.get("tools")
        if not isinstance(revision, str) or not isinstance(tools, list):
            raise InvalidRequest("an inventory has a revision and tools", pointer="/payload")
        return cls(
            revision,
            tuple(ToolDescriptor.from_wire(tool) for tool in cast("list[Any]", tools)),
            tuple(payload.get("apps") or ()),
            tuple(payload.get("surfaces") or ()),
            tuple(payload.get("capabilities") or ()),
        )

    def to_payload(self) -> dict[str, Any]:
        return {
            "revision": self.revision,
            "tools": [tool.to_wire() for tool in self.tools],
            "apps": list(self.apps),
            "surfaces": list(self.surfaces),
            "capabilities": list(self.capabilities),
        }

    def tool(self, key: ToolKey) -> ToolDescriptor | None:
        return next((tool for tool in self.tools if tool.key == key), None)

    def by_model_name(self, name: str) -> ToolDescriptor | None:
        """The tool that a model means by `name`; of several contract versions the last in order."""
        return next((tool for tool in reversed(self.tools) if tool.model_name == name), None)


def _stable(value: Any) -> bytes:
    try:
        return codec.canonical(value)
    except ValueError as error:
        raise LoopError(f"an inventory holds JSON only: {error}") from error
