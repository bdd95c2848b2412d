"""The answers of the chat app: conversations, messages, calls, what the person says.

Decides which request leads where. What is kept and sent is the person's side; how it is told, the feeds.
"""

from __future__ import annotations

from typing import Any

from lineloop.device.bridge.session_bridge import Request
from lineloop.device.core_apps.port import SessionParts
from lineloop.device.core_apps.state_feed import States


class ChatSession:
    """One open session of the chat app."""

    def __init__(self, session: SessionParts) -> None:
        self._parts = session.parts
        self._model = session.model
        self._outgoing = session.outgoing
        self._states = States(session.outgoing, self.state)
        self._stops = [self._parts.connection.subscribe(self._states.changed)]

    @property
    def requests(self) -> dict[str, Request]:
        return dict(self._states.requests)

    async def state(self) -> dict[str, Any]:
        """The connection, the person, conversations and recipients, the default model."""
        person = self._parts.person
        return {
            "connection": self._parts.connection.now(),
            "person": None if person is None else person.to_wire(),
            "model": self._model(),
        }

    def model_changed(self) -> None:
        self._states.changed()

    def close(self) -> None:
        for stop in self._stops:
            stop()
        self._states.close()
