"""The manifest of an app (`lineloop.app.v1`; `lineup.app.v1` is read too; spec/protocol.md §7.7).

Decides what an app may say about itself. Whether the app is trusted, fits this Runtime or may be enabled is
decided by the device.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lineloop.kit import json as codec
from lineloop.protocol.errors import ErrorCode, FieldError, InvalidRequest, LoopError
from lineloop.protocol.json_rules import is_deeper_than, validation_errors
from lineloop.protocol.schemas import check_schema
from lineloop.protocol.tools import AppScope, ToolDescriptor, check_model_names

MAX_MANIFEST_BYTES = 1024 * 1024
MAX_MANIFEST_DEPTH = 64
MAX_TOOLS = 128

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_.-]{0,62}$")]
Feature = Annotated[str, Field(pattern=r"^[a-z][a-z0-9.-]{0,62}$")]
Version = Annotated[str, Field(pattern=r"^\d{1,6}\.\d{1,6}\.\d{1,6}(-[0-9A-Za-z.-]{1,32})?$")]
_SEGMENT = r"[A-Za-z0-9_-][A-Za-z0-9._-]*"
BundlePath = Annotated[str, Field(pattern=rf"^{_SEGMENT}(/{_SEGMENT})*$", max_length=200)]


class ManifestFormat(StrEnum):
    LINELOOP = "lineloop.app.v1"
    LINEUP = "lineup.app.v1"


class SessionScope(StrEnum):
    """Whether later launches reuse the conversation's sub-session, or each gets its own."""

    PER_CONVERSATION = "per_conversation"
    PER_LAUNCH = "per_launch"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class RuntimeSdk(_Part):
    api_version: Annotated[str, Field(pattern=r"^\d{1,4}$")]
    required_features: tuple[Feature, ...] = ()
    optional_features: tuple[Feature, ...] = ()


class Entrypoint(_Part):
    id: Name
    kind: Literal["default", "contextual"]
    default_eligible: bool = False


class AgentSubscription(_Part):
    """`type` is an envelope type, or a group of them with `.*` at its end."""

    type: Annotated[str, Field(pattern=r"^lineup(\.[a-z]+)+(\.\*)?$", max_length=64)]
    scope: Literal["conversation", "instance"]


class UiAction(_Part):
    name: Name
    schema_: Annotated[dict[str, Any], Field(alias="schema")]
    needs_gesture: bool = False
    writes: bool = False


class Mutation(_Part):
    name: Name
    params_schema: dict[str, Any]


class SurfaceEvent(_Part):
    name: Name
    schema_: Annotated[dict[str, Any], Field(alias="schema")]


class CapabilityUse(_Part):
    name: Annotated[str, Field(pattern=r"^[a-z]+(\.[a-z_]+){1,2}$")]
    purpose: Annotated[str, Field(min_length=1, max_length=300)]


class Surface(_Part):
    entry: BundlePath
    csp_mode: Literal["strict", "compat"] = "strict"


class ManifestTool(ToolDescriptor):
    """A tool as its manifest writes it: the app_scope comes from the manifest, unknown fields are errors.

    `writes` says that the tool changes session data; `surface` that its handler needs a page.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    writes: bool = False
    surface: bool = False

    def descriptor(self) -> ToolDescriptor:
        """What is published to agents: without the app's internal facts."""
        return ToolDescriptor.model_validate(self.model_dump(exclude={"writes", "surface"}))


class AppManifest(_Part):
    """What an app says about itself. `seq` only grows; `logic` is the file of its logic container."""

    format: ManifestFormat
    app_scope: AppScope
    version: Version
    title: Annotated[str, Field(min_length=1, max_length=80)]
    publisher_key_id: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    seq: Annotated[int, Field(ge=0, le=2**53 - 1)] = 0
    runtime_sdk: RuntimeSdk
    session: SessionScope = SessionScope.PER_CONVERSATION
    entrypoints: Annotated[tuple[Entrypoint, ...], Field(min_length=1, max_length=32)]
    agent_subscriptions: Annotated[tuple[AgentSubscription, ...], Field(max_length=64)] = ()
    ui_actions: Annotated[tuple[UiAction, ...], Field(max_length=128)] = ()
    mutations: Annotated[tuple[Mutation, ...], Field(max_length=128)] = ()
    events: Annotated[tuple[SurfaceEvent, ...], Field(max_length=64)] = ()
    capabilities: Annotated[tuple[CapabilityUse, ...], Field(max_length=32)] = ()
    tools: Annotated[tuple[ManifestTool, ...], Field(max_length=MAX_TOOLS)] = ()
    surface: Surface | None = None
    logic: BundlePath | None = None
    icon: BundlePath | None = None

    def descriptors(self) -> tuple[ToolDescriptor, ...]:
        """The tools as agents see them."""
        return tuple(tool.descriptor() for tool in self.tools)

    def to_wire(self) -> dict[str, Any]:
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


_LINEUP_CALL_MODELS = {"direct": "command", "interactive": "interactive", "operation": "operation"}


def parse_manifest(raw: bytes | str | Mapping[str, Any]) -> AppManifest:
    """The manifest in `raw` (JSON text or its value).

    Raises LoopError `manifest_invalid` naming each place.
    """
    value = _value_of(raw)
    if not isinstance(value, dict):
        raise _invalid([{"pointer": "", "message": "a manifest is an object"}])
    if is_deeper_than(value, MAX_MANIFEST_DEPTH):
        raise _invalid([{"pointer": "", "message": "nested too deeply"}])
    try:
        manifest = AppManifest.model_validate(_with_tools_completed(cast("dict[str, Any]", value)))
    except ValidationError as error:
        raise _invalid(validation_errors(error)) from error
    _check_rules(manifest)
    return manifest


def _value_of(raw: bytes | str | Mapping[str, Any]) -> Any:
    if isinstance(raw, Mapping):
        return dict(raw)
    if len(raw) > MAX_MANIFEST_BYTES:
        raise _invalid([{"pointer": "", "message": f"larger than {MAX_MANIFEST_BYTES} bytes"}])
    try:
        return codec.strict_loads(raw)
    except ValueError as error:
        raise _invalid([{"pointer": "", "message": f"not JSON: {error}"}]) from error


def _with_tools_completed(value: dict[str, Any]) -> dict[str, Any]:
    """Each tool gets its app's scope; a `lineup.app.v1` tool also the words that its `handling` stood for."""
    tools = value.get("tools")
    if not isinstance(tools, list):
        return value
    lineup = value.get("format") == ManifestFormat.LINEUP
    completed = dict(value)
    completed["tools"] = [
        _completed_tool(cast("dict[str, Any]", tool), value.get("app_scope"), lineup=lineup)
        if isinstance(tool, dict)
        else tool
        for tool in cast("list[Any]", tools)
    ]
    if lineup:
        completed.setdefault("title", value.get("app_scope"))
    return completed


def _completed_tool(tool: dict[str, Any], app_scope: Any, *, lineup: bool) -> dict[str, Any]:
    completed = {"app_scope": app_scope, **tool}
    if lineup:
        handling = completed.pop("handling", "direct")
        completed.setdefault("call_model", _LINEUP_CALL_MODELS.get(handling, handling))
        completed.setdefault("title", tool.get("method"))
    return completed


def _check_rules(manifest: AppManifest) -> None:
    errors: list[FieldError] = []
    for index, tool in enumerate(manifest.tools):
        if tool.app_scope != manifest.app_scope:
            errors.append({"pointer": f"/tools/{index}/app_scope", "message": "a tool belongs to its app"})
        errors += _schema_errors(tool.input_schema, f"/tools/{index}/input_schema")
        errors += _schema_errors(tool.output_schema, f"/tools/{index}/output_schema")
    for index, action in enumerate(manifest.ui_actions):
        errors += _schema_errors(action.schema_, f"/ui_actions/{index}/schema")
    for index, mutation in enumerate(manifest.mutations):
        errors += _schema_errors(mutation.params_schema, f"/mutations/{index}/params_schema")
    for index, event in enumerate(manifest.events):
        errors += _schema_errors(event.schema_, f"/events/{index}/schema")
    for field, names in (
        ("entrypoints", [one.id for one in manifest.entrypoints]),
        ("ui_actions", [one.name for one in manifest.ui_actions]),
        ("mutations", [one.name for one in manifest.mutations]),
        ("events", [one.name for one in manifest.events]),
        ("capabilities", [one.name for one in manifest.capabilities]),
        ("tools", [f"{one.method}@{one.contract_version}" for one in manifest.tools]),
    ):
        for index, name in enumerate(names):
            if name in names[:index]:
                errors.append({"pointer": f"/{field}/{index}", "message": f"{name!r} is declared twice"})
    try:
        check_model_names(manifest.tools)
    except InvalidRequest as error:
        errors += error.errors
    if errors:
        raise _invalid(errors)


def _schema_errors(schema: Mapping[str, Any], pointer: str) -> list[FieldError]:
    try:
        check_schema(schema, pointer)
    except InvalidRequest as error:
        return error.errors
    return []


def _invalid(errors: list[FieldError]) -> LoopError:
    return LoopError(
        f"the manifest is not valid: {errors[0]['pointer'] or '/'}: {errors[0]['message']}",
        code=ErrorCode.MANIFEST_INVALID,
        errors=errors,
    )
