"""A host without a display: a launch is confirmed as foreground at once, nothing is rendered.

Nobody can agree to a risky call here, so consent sheets stay unanswered until the call's time is over.
"""

from __future__ import annotations

from lineloop.device.host.port import ConsentSheet, HostReports, Showing, Stage
from lineloop.kit.ids import Ids


class HeadlessHost:
    """Implements Host."""

    def __init__(self, ids: Ids) -> None:
        self._session_id = ids.make("hst")
        self._reports: HostReports | None = None

    @property
    def features(self) -> frozenset[str]:
        return frozenset()

    async def start(self, stage: Stage) -> None:
        self._reports = stage.reports
        await stage.reports.session_opened(self._session_id)

    async def show(self, showing: Showing) -> None:
        if self._reports is not None:
            await self._reports.foreground_confirmed(
                self._session_id, showing.instance_id, showing.activation_id, showing.generation
            )

    async def close(self, instance_id: str) -> None:
        """There is no surface to take away."""

    async def ask_consent(self, sheet: ConsentSheet) -> None:
        """There is nobody to ask."""

    async def withdraw_consent(self, call_ref: str) -> None:
        """Nothing was asked."""

    async def project(self, instance_id: str | None) -> None:
        """Nothing is shown."""

    async def stop(self) -> None:
        self._reports = None
