"""A host that a test plays: it confirms at once, late, twice, never, or something else than was asked.

Decides nothing of its own; `manner` and the methods say what the person and the display do.
"""

from __future__ import annotations

from enum import StrEnum

from lineloop.device.decide.intents import IntentKind
from lineloop.device.host.port import ConsentSheet, HostReports, Showing, Stage


class Manner(StrEnum):
    """How the display answers a request to show an app."""

    AT_ONCE = "at_once"
    WHEN_TOLD = "when_told"
    TWICE = "twice"
    OTHER_INSTANCE = "other_instance"


class SimulatedHost:
    """Implements Host. `showings`, `closed` and `sheets` are what it was asked, in order."""

    def __init__(self, manner: Manner = Manner.AT_ONCE, *, session_id: str = "hst_simulated") -> None:
        self.manner = manner
        self.session_id = session_id
        self.reports: HostReports | None = None
        self.showings: list[Showing] = []
        self.closed: list[str] = []
        self.sheets: list[ConsentSheet] = []
        self.withdrawn: list[str] = []
        self.projected: list[str | None] = []
        self.connected = True

    @property
    def features(self) -> frozenset[str]:
        return frozenset()

    @property
    def told(self) -> HostReports:
        assert self.reports is not None, "the host has not been started"
        return self.reports

    async def start(self, stage: Stage) -> None:
        self.reports = stage.reports
        if self.connected:
            await stage.reports.session_opened(self.session_id)

    async def show(self, showing: Showing) -> None:
        self.showings.append(showing)
        match self.manner:
            case Manner.AT_ONCE:
                await self.confirm(showing)
            case Manner.TWICE:
                await self.confirm(showing)
                await self.confirm(showing)
            case Manner.OTHER_INSTANCE:
                await self.confirm(showing, instance_id="ins_of_another_app")
            case Manner.WHEN_TOLD:
                pass

    async def confirm(
        self, showing: Showing | None = None, *, instance_id: str | None = None, generation: int | None = None
    ) -> bool:
        """Confirms a showing (the last one), with whatever the test wants to be different about it."""
        showing = showing or self.showings[-1]
        return await self.told.foreground_confirmed(
            self.session_id,
            instance_id or showing.instance_id,
            showing.activation_id,
            generation if generation is not None else showing.generation,
        )

    async def person(self, kind: IntentKind, conversation_id: str, instance_id: str | None = None) -> None:
        """The person or the system does something around an app."""
        await self.told.reported(self.session_id, kind, conversation_id, instance_id)

    async def close(self, instance_id: str) -> None:
        self.closed.append(instance_id)

    async def ask_consent(self, sheet: ConsentSheet) -> None:
        self.sheets.append(sheet)

    async def answer_consent(self, *, allowed: bool) -> None:
        """The person answers the last sheet."""
        await self.told.consent_answered(self.sheets[-1].call_ref, allowed=allowed)

    async def withdraw_consent(self, call_ref: str) -> None:
        self.withdrawn.append(call_ref)

    async def project(self, instance_id: str | None) -> None:
        self.projected.append(instance_id)

    async def stop(self) -> None:
        self.reports = None
