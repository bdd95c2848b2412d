"""How the device stands with its server, in the words that people see.

Decides what four facts (the link, whether the person's streams have caught up, what waits to be sent, since
when) come to. What is done about a lost connection belongs to the link and the streams.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any

from lineloop.kit.clock import Clock, rfc3339

Count = Callable[[], int]
Listener = Callable[[], None]


class ConnectionState(StrEnum):
    """CATCHING_UP: connected, but what happened meanwhile is still arriving."""

    CONNECTING = "connecting"
    ONLINE = "online"
    CATCHING_UP = "catching_up"
    OFFLINE = "offline"


class Connection:
    """The one connection of a device, as pages show it. Listeners are called on the loop after a change."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._link = ConnectionState.CONNECTING
        self._behind = False
        self._reason: str | None = None
        self._state = ConnectionState.CONNECTING
        self._since = clock.now_ms()
        self._counts: list[Count] = []
        self._listeners: list[Listener] = []
        self._waited = False

    @property
    def state(self) -> ConnectionState:
        return self._state

    @property
    def waiting(self) -> int:
        """How many messages, of the person and of the device, the server does not have yet."""
        return sum(count() for count in self._counts)

    def now(self) -> dict[str, Any]:
        """`{"state", "waiting", "since", "reason"}`; `since` is RFC 3339, `reason` the code with which the
        server refuses this device, or None.
        """
        waiting = self.waiting
        self._waited = waiting > 0
        return {
            "state": str(self._state),
            "waiting": waiting,
            "since": rfc3339(self._since),
            "reason": self._reason,
        }

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Calls `listener` after every change. Returns how to stop."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    def count(self, count: Count) -> None:
        """Adds something that waits for the server."""
        self._counts.append(count)

    def link_is(self, link: ConnectionState) -> None:
        """The link's word: connecting, online or offline."""
        self._link = link
        self._settle()

    def refused_with(self, reason: str | None) -> None:
        """The server was reached and refuses the device with this code; None: it does not (any more)."""
        if reason != self._reason:
            self._reason = reason
            self._tell()

    def streams_are(self, *, behind: bool) -> None:
        """Whether some followed conversation has not caught up."""
        self._behind = behind
        self._settle()

    def waiting_changed(self) -> None:
        """Something was queued or sent. While online that is passing: told is only that nothing waits any
        more, when something was told to.
        """
        if self._state is not ConnectionState.ONLINE or (self._waited and not self.waiting):
            self._tell()

    def _settle(self) -> None:
        behind = self._link is ConnectionState.ONLINE and self._behind
        state = ConnectionState.CATCHING_UP if behind else self._link
        if state is not self._state:
            self._state = state
            self._since = self._clock.now_ms()
            self._tell()

    def _tell(self) -> None:
        for listener in tuple(self._listeners):
            listener()
