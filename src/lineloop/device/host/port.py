"""What the Runtime asks of whatever shows apps to the person, and what that reports back.

Decides the shapes only. A host reports facts and intents; what they mean for calls and operations the Runtime
decides (design: runtime 3.1, 3.5).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from lineloop.device.apps import AppRegistry
from lineloop.device.commit_inbox import AppInbox
from lineloop.device.commit_session_data import SessionData
from lineloop.device.connection import Connection
from lineloop.device.decide.intents import IntentKind
from lineloop.device.decide.startup import StartEntry
from lineloop.device.decide.state import Operation
from lineloop.device.entries.ui_action import UiActionEntry
from lineloop.device.foundation import Foundation
from lineloop.device.models import ModelChoice
from lineloop.kit.records import record
from lineloop.protocol.actors import Actor


@record
class Showing:
    """One request to make an instance the foreground. A confirmation repeats all of it."""

    conversation_id: str
    app_scope: str
    instance_id: str
    activation_id: str
    generation: int


@record
class ConsentSheet:
    """What the person is asked about a risky call. `publisher` is the key id that the app is signed with."""

    call_ref: str
    conversation_id: str
    agent: str
    app_scope: str
    app_title: str
    tool_title: str
    risk: str
    params: dict[str, Any]
    publisher: str | None = None

    def to_wire(self) -> dict[str, Any]:
        return {
            "call_ref": self.call_ref,
            "conversation_id": self.conversation_id,
            "agent": self.agent,
            "app_scope": self.app_scope,
            "app_title": self.app_title,
            "publisher": self.publisher,
            "tool_title": self.tool_title,
            "risk": self.risk,
            "params": self.params,
        }


class HostReports(Protocol):
    """What a host tells the Runtime. Each returns after the commit; raises when it could not be stored."""

    async def session_opened(self, host_session_id: str) -> None: ...

    async def foreground_confirmed(
        self, host_session_id: str, instance_id: str, activation_id: str, generation: int
    ) -> bool: ...

    async def reported(
        self,
        host_session_id: str,
        kind: IntentKind,
        conversation_id: str,
        instance_id: str | None = None,
    ) -> None: ...

    async def app_chosen(self, host_session_id: str, app_scope: str, conversation_id: str) -> str:
        """The person opens an app themselves; the instance that will be shown. Raises LoopError."""
        ...

    async def begun(
        self, host_session_id: str, app_scope: str | None, conversation_id: str | None
    ) -> StartEntry:
        """A page begins, perhaps with what a link asks for. Raises LoopError."""
        ...

    async def consent_answered(self, call_ref: str, *, allowed: bool) -> None: ...

    async def surface_stopped(self, host_session_id: str, instance_id: str, reason: str) -> None:
        """A surface was taken away for what it did, or because it broke."""
        ...


class CoreSession(Protocol):
    """One open session of a core app; `receive` takes its frames."""

    def receive(self, text: str) -> None: ...

    def close(self) -> None: ...


class OpenCore(Protocol):
    """Opens a session of a core app. Raises LoopError app_not_installed."""

    def __call__(
        self, app_scope: str, send: Callable[[str], None], *, drained: Callable[[], Awaitable[None]]
    ) -> CoreSession: ...


class Export(Protocol):
    """A conversation as one document, in parts. Raises LoopError on entering, ConnectionLost later on."""

    def __call__(
        self, conversation_id: str, export_format: str
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]: ...


@record
class Stage:
    """What a started host works with. `reports` is all that a host without pages needs.

    `elapsed_ms` tells how long an operation has run by the monotonic clock. `models` is None on a device that
    cannot choose them; `knows_conversation` and `export` on one without the person's conversations.
    """

    reports: HostReports
    foundation: Foundation
    registry: AppRegistry
    session_data: SessionData
    inbox: AppInbox
    ui_actions: UiActionEntry
    connection: Connection
    open_core: OpenCore
    elapsed_ms: Callable[[Operation], int]
    person: Actor | None = None
    models: ModelChoice | None = None
    knows_conversation: Callable[[str], Awaitable[bool]] | None = None
    export: Export | None = None


class Host(Protocol):
    """A display, or what stands for one. Requests are idempotent; they may come again after a restart."""

    @property
    def features(self) -> frozenset[str]:
        """Names of the capabilities that this host supports."""
        ...

    async def start(self, stage: Stage) -> None: ...

    async def show(self, showing: Showing) -> None:
        """Bring an instance to the foreground; confirm when the person sees it."""
        ...

    async def close(self, instance_id: str) -> None:
        """Take an instance's surface away, in the time that it asks for, but not for long; chat or what lies
        below it comes back.
        """
        ...

    async def ask_consent(self, sheet: ConsentSheet) -> None: ...

    async def withdraw_consent(self, call_ref: str) -> None: ...

    async def project(self, instance_id: str | None) -> None:
        """What an instance shows, or (None) what is shown of all of them, has changed; read it anew."""
        ...

    async def stop(self) -> None: ...
