"""How the device stands with its server, in the words that people are shown.

Decides the words; when the state changes is the Runtime's affair.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from lineloop.kit.records import record
from lineloop.protocol.machines import RuntimeState

ConnectionWord = Literal["connecting", "online", "catching_up", "offline"]

_WORDS: dict[RuntimeState, ConnectionWord] = {
    RuntimeState.SYNCHRONIZING: "catching_up",
    RuntimeState.ONLINE: "online",
    RuntimeState.OFFLINE_DEGRADED: "offline",
}


@record
class Connection:
    """`since_ms`: UTC milliseconds when it became so."""

    state: ConnectionWord
    since_ms: int


class ConnectionStatus:
    """The connection now, and who wants to hear of changes. Listeners must not block."""

    def __init__(self, now_ms: int) -> None:
        self._now = Connection("connecting", now_ms)
        self._listeners: list[Callable[[], None]] = []

    @property
    def now(self) -> Connection:
        return self._now

    def moved(self, state: RuntimeState, at_ms: int) -> None:
        """The Runtime is in another state."""
        word = _WORDS.get(state, "connecting")
        if word != self._now.state:
            self._now = Connection(word, at_ms)
            for listener in tuple(self._listeners):
                listener()

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Tells `listener` after every change. Returns how to stop."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None
