"""What deciders look at: rows of the device's tables as immutable values, loaded by key inside one job.

Decides nothing. A decider gets these values, the time and fresh ids, and answers facts and effects; it never
reads more than it was given.
"""

from __future__ import annotations

from dataclasses import field, fields
from operator import attrgetter
from typing import Any, Protocol

from lineloop.kit import json
from lineloop.kit.records import record
from lineloop.protocol.tools import ToolDescriptor, ToolKey


class IdSource(Protocol):
    """Fresh ids, handed to every decider from outside so that the same input gives the same facts."""

    def make(self, prefix: str) -> str: ...


@record
class AppDescription:
    """An app's part of an inventory, as wire values and as their canonical bytes, made once per app.

    `tools` holds (key, wire, bytes) in key order.
    """

    wire: dict[str, Any]
    canonical: bytes
    tools: tuple[tuple[ToolKey, dict[str, Any], bytes], ...]


@record
class App:
    """An app of the registry. `has_handlers` = some tool is delivered to the app session (needs a container).

    `unavailable` is the coded reason why an installed app offers nothing, or None.
    """

    app_scope: str
    version: str
    title: str
    enabled: bool
    unavailable: str | None
    per_launch: bool
    has_handlers: bool
    tools: dict[tuple[str, str], ToolDescriptor]
    description: AppDescription = field(compare=False)

    def tool(self, key: ToolKey) -> ToolDescriptor | None:
        return self.tools.get((key.method, key.contract_version))

    def has_method(self, method: str) -> bool:
        return any(name == method for name, _ in self.tools)


@record
class Call:
    """One accepted tool call. `params` and `outcome` are JSON text; `sequence` counts answers to the
    agent; `ended_by` is the entry through which its end came.
    """

    ref: str
    agent: str
    conversation_id: str
    call_id: str
    key: ToolKey
    params: str
    inventory_revision: str
    message_id: str
    envelope_id: str
    state: str
    call_model: str
    app_session_id: str | None
    activation_id: str | None
    operation_id: str | None
    sequence: int
    progress: int
    deadline_at: int | None
    timeout_ms: int
    outcome: str | None
    error_code: str | None
    accepted_at: int
    dispatched_at: int | None
    ended_at: int | None
    trace: str | None = None
    ended_by: str | None = None
    arrival: int = 0

    @property
    def ended(self) -> bool:
        return self.ended_at is not None

    @property
    def emptied(self) -> bool:
        """Whether retention took what was asked and answered; `params` is then a digest (calls.py)."""
        return self.params.startswith('"')

    @property
    def arguments(self) -> dict[str, Any]:
        """What was asked for; nothing when that is no longer kept."""
        return {} if self.emptied else json.loads(self.params)

    def changed(self, **changes: Any) -> Call:
        """As dataclasses.replace, which takes several times as long for so many fields."""
        values: list[Any] = list(_values_of_call(self))
        for name, value in changes.items():
            values[_CALL_FIELDS[name]] = value
        return Call(*values)


_CALL_FIELDS = {one.name: at for at, one in enumerate(fields(Call))}  # pyright: ignore[reportArgumentType]
_values_of_call = attrgetter(*_CALL_FIELDS)


@record
class Instance:
    """One running app. `generation` counts showings; the host confirms exactly one of them."""

    instance_id: str
    app_session_id: str
    app_scope: str
    app_version: str
    conversation_id: str
    state: str
    generation: int
    confirmed_generation: int | None
    reason: str | None
    started_at: int
    ended_at: int | None

    @property
    def confirmed(self) -> bool:
        """Whether the host has confirmed that this is what the person sees now."""
        return self.state == "foreground" and self.confirmed_generation == self.generation


@record
class Activation:
    """One start of an app. `waits_for`: container (handlers registered) or foreground (apps without
    handlers).
    """

    activation_id: str
    instance_id: str
    app_session_id: str
    conversation_id: str
    app_scope: str
    state: str
    waits_for: str
    reason: str | None
    deadline_at: int
    started_at: int
    ended_at: int | None


@record
class Operation:
    """One business execution with a deadline. `state` is active or its outcome; `ends_at` never moves."""

    operation_id: str
    execution: str
    app_scope: str
    conversation_id: str
    app_session_id: str
    instance_id: str
    call_ref: str
    state: str
    on_leave: str
    duration_ms: int
    started_at: int
    ends_at: int
    ended_at: int | None
    elapsed_ms: int | None
    reason: str | None


@record
class Session:
    """Everything live about one app in one conversation.

    `queue`: live calls attached to the sub-session, in arrival order, at most as many as one job handles.
    `focus`: the conversation's stack, foreground last; `front`: the instance in front over all conversations.
    `running_command`: a command is with the app now.
    """

    conversation_id: str
    app_scope: str
    app_session_id: str | None = None
    instance: Instance | None = None
    activation: Activation | None = None
    operation: Operation | None = None
    queue: tuple[Call, ...] = ()
    focus: tuple[str, ...] = ()
    front: str | None = None
    running_command: bool = False

    @property
    def starting(self) -> bool:
        return self.activation is not None and self.activation.state == "starting"

    @property
    def in_front(self) -> bool:
        """Whether this is what the host was asked to show last, confirmed or not."""
        return self.instance is not None and self.front == self.instance.instance_id

    @property
    def ready(self) -> bool:
        return self.instance is not None and self.activation is not None and self.activation.state == "ready"


@record
class Limits:
    """Times the Runtime itself sets, in milliseconds."""

    activation_timeout_ms: int = 15_000
    default_tool_timeout_ms: int = 30_000
    max_live_calls_per_agent: int = 20_000


@record
class View:
    """What one agent sees in one conversation: the inventory's revision and the tools in it."""

    revision: str
    tools: frozenset[ToolKey] = field(default_factory=frozenset[ToolKey])
