"""What the Runtime core may ask of an app session, whatever runs the app (design: containers).

Decides the shapes that cross between the core (calls, activations) and the containers (processes that run
an app's handlers). Leaves to others: when an app is started, how long a call may take, what is stored and
what an agent is told. A container reports; it never writes a fact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from lineloop.kit.records import record
from lineloop.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from pathlib import Path

    from lineloop.device.decide.inbox import MessageRefused
    from lineloop.protocol.manifest import AppManifest
    from lineloop.protocol.tools import ToolDescriptor

StartFailure = Literal["app_start_failed", "no_container", "sdk_incompatible"]


@record
class InstalledApp:
    """One app of the registry as everybody else sees it; immutable, a change makes a new one.

    `directory` holds the app's files; None for an app without files. `logic` is the DOM-free script with the
    handlers; None when the app has none. `digest` is the sha256 of the content (hex): equal
    digest, equal app. `unavailable` is why an installed app is not in any inventory (a code), or None.
    """

    app_scope: str
    version: str
    kind: Literal["core", "installed"]
    enabled: bool
    manifest: AppManifest = field(compare=False)
    tools: tuple[ToolDescriptor, ...] = field(compare=False)
    digest: str
    directory: Path | None = None
    logic: Path | None = None
    unavailable: str | None = None

    @property
    def startable(self) -> bool:
        """Whether new instances and calls are allowed."""
        return self.enabled and self.unavailable is None

    def tool(self, method: str, contract_version: str) -> ToolDescriptor | None:
        """The declared tool, or None."""
        for tool in self.tools:
            if tool.method == method and tool.contract_version == contract_version:
                return tool
        return None


@record
class SessionContext:
    """Who an app session is. Comes from the Runtime, never from a payload; an app cannot forge it.

    One container belongs to one (app_scope, app_session_id); `instance_id` and `activation_id` say for which
    start it was made.
    """

    app_scope: str
    app_session_id: str
    conversation_id: str
    app_version: str
    instance_id: str | None = None
    activation_id: str | None = None


@record
class Invocation:
    """One call for a handler; `params` already satisfy the tool's input schema."""

    call_id: str
    method: str
    contract_version: str
    params: dict[str, Any]


@record
class Completed:
    """The handler returned `result` (any JSON value; the core checks it against the output schema)."""

    result: Any


@record
class Failed:
    """The handler did not return. `message` is public, at most 500 characters.

    code and reason: handler_failed with `threw | time_limit | memory_limit | crashed | output_invalid |
    not_registered`; cancelled when `cancel` won; what an app passes to `context.fail(...)` arrives as
    handler_failed with reason `app`.
    """

    code: ErrorCode
    message: str
    reason: str | None = None
    detail: dict[str, Any] = field(default_factory=dict[str, Any])


@record
class Open:
    """An interactive handler left the call open; the end comes later through `ContainerEvents.closed`."""


Outcome = Completed | Failed | Open


class ContainerFailed(Exception):
    """The app session could not be made ready; `reason` goes to every waiting call."""

    def __init__(self, reason: StartFailure, message: str) -> None:
        super().__init__(message)
        self.reason: StartFailure = reason
        self.message = message


class ContainerEvents(Protocol):
    """What a container tells the core; called on the event loop, must not block and must not raise."""

    def progress(self, session: SessionContext, call_id: str, number: int, value: Any) -> None:
        """A handler reported progress; `number` counts from 1 within the call."""
        ...

    def closed(self, session: SessionContext, call_id: str, outcome: Completed | Failed) -> None:
        """The app ended a call that it had left open."""
        ...

    def exited(self, session: SessionContext, reason: str) -> None:
        """The container is gone without having been asked to. Its calls in flight have already got their
        `Failed(handler_failed, reason="crashed")`; calls left open have to be ended by the core."""
        ...


class Container(Protocol):
    """One running app session."""

    @property
    def session(self) -> SessionContext: ...

    @property
    def alive(self) -> bool: ...

    async def start(self, app: InstalledApp, session: SessionContext) -> None:
        """Returns when the handlers are registered and match the manifest. Raises ContainerFailed."""
        ...

    async def invoke(self, call: Invocation) -> Outcome:
        """Runs one handler; never raises for what the app does. Calls may overlap."""
        ...

    async def cancel(self, call_id: str) -> None:
        """Asks the app to stop a call: a call in flight ends `Failed(cancelled)` unless its result won."""
        ...

    async def close(self) -> None:
        """Ends the session; calls in flight end `Failed(handler_failed, reason="crashed")`. Idempotent."""
        ...


class Containers(Protocol):
    """All running app sessions of a device (implemented by ContainerPool)."""

    async def ensure(self, app: InstalledApp, session: SessionContext) -> Container:
        """The ready container of this session: the running one, or a new one. Raises ContainerFailed."""
        ...

    def running(self, app_scope: str, app_session_id: str) -> Container | None:
        """The ready container, without starting one."""
        ...

    async def stop(self, app_scope: str, app_session_id: str) -> None:
        """Closes one session (closing, suspend)."""
        ...

    async def stop_app(self, app_scope: str) -> None:
        """Closes every session of an app (disable, remove, update)."""
        ...

    async def close(self) -> None:
        """Closes everything."""
        ...


OnRegistryChanged = Callable[[Any, "RegistryChanged"], None]
"""`(tx, change)`: runs inside the registry's own transaction, so that inventory, ended calls and the app's
state are one commit."""


@record
class RegistryChanged:
    """One committed change of the registry, handed to the core inside the same transaction.

    `change`: `installed | enabled | disabled | updated | removed`. `apps` is the whole registry as it is
    after the change, by app_scope. `refused` are the inbox messages that the app will not answer any more:
    the core answers each with its code.
    """

    change: Literal["installed", "enabled", "disabled", "updated", "removed"]
    app_scope: str
    apps: Mapping[str, InstalledApp]
    refused: tuple[MessageRefused, ...] = ()
