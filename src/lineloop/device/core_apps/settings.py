"""The answers of the settings app: what this installation is, and what its audit knows.

Decides what of the device a person is shown: where its data lies, never a credential.
"""

from __future__ import annotations

from typing import Any

import lineloop
from lineloop.device.bridge.session_bridge import Request
from lineloop.device.core_apps.port import SessionParts
from lineloop.device.core_apps.state_feed import States
from lineloop.device.migrations import HEAD

MAX_STORIES = 200
WANTED = ("call_id", "app_scope", "conversation_id")


class SettingsSession:
    """One open session of the settings app."""

    def __init__(self, session: SessionParts) -> None:
        self._parts = session.parts
        self._model = session.model
        self._states = States(session.outgoing, self.state)
        self._stop = self._parts.connection.subscribe(self._states.changed)

    @property
    def requests(self) -> dict[str, Request]:
        return {**self._states.requests, "audit.list": self._audit}

    async def state(self) -> dict[str, Any]:
        """`{"device", "person", "model", "connection", "versions", "place"}`."""
        person, place = self._parts.person, self._parts.place
        return {
            "device": {"key": self._parts.foundation.runtime_id},
            "person": None if person is None else person.to_wire(),
            "model": self._model(),
            "connection": self._parts.connection.now(),
            "versions": {"lineloop": lineloop.__version__, "device_schema": HEAD},
            "place": place.to_wire(),
        }

    def model_changed(self) -> None:
        self._states.changed()

    def close(self) -> None:
        self._stop()
        self._states.close()

    async def _audit(self, payload: dict[str, Any]) -> dict[str, Any]:
        """The newest stories that match, oldest first; `more` says that there are older ones."""
        limit = min(max(payload.get("limit", 50), 1), MAX_STORIES)
        wanted = {name: payload[name] for name in WANTED if name in payload}
        stories = await self._parts.audit(**wanted)
        return {"stories": stories[-limit:], "more": len(stories) > limit}
