"""What the Runtime asks of whatever shows apps to the person, and what that reports back.

Decides the shapes only. A host reports facts and intents; what they mean for calls and operations the Runtime
decides (design: runtime 3.1, 3.5).
"""

from __future__ import annotations

from typing import Any, Protocol

from lineloop.device.decide.intents import IntentKind
from lineloop.kit.records import record


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
    """What the person is asked about a risky call."""

    call_ref: str
    conversation_id: str
    agent: str
    app_scope: str
    app_title: str
    tool_title: str
    risk: str
    params: dict[str, Any]


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

    async def consent_answered(self, call_ref: str, *, allowed: bool) -> None: ...


class Host(Protocol):
    """A display, or what stands for one. Requests are idempotent; they may come again after a restart."""

    @property
    def features(self) -> frozenset[str]:
        """Names of the capabilities that this host supports."""
        ...

    async def start(self, reports: HostReports) -> None: ...

    async def show(self, showing: Showing) -> None:
        """Bring an instance to the foreground; confirm when the person sees it."""
        ...

    async def close(self, instance_id: str) -> None:
        """Take an instance's surface away; chat or what lies below it comes back."""
        ...

    async def ask_consent(self, sheet: ConsentSheet) -> None: ...

    async def withdraw_consent(self, call_ref: str) -> None: ...

    async def project(self, instance_id: str) -> None:
        """What the surface of an instance shows has changed; read it anew."""
        ...

    async def stop(self) -> None: ...
