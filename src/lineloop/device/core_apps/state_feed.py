"""A core app's state: told whole, and only when it differs from what was told last."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from lineloop.device.bridge.frames import encode
from lineloop.device.bridge.session_bridge import Request
from lineloop.device.core_apps.outgoing import Outgoing
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import LoopError

MAX_STATE_SUBSCRIPTIONS = 8

Compose = Callable[[], Awaitable[dict[str, Any]]]


class StateFeed:
    """One `state.subscribe`. The first rendering always tells."""

    def __init__(self, subscription: str, compose: Compose) -> None:
        self._subscription = subscription
        self._compose = compose
        self._told: str | None = None

    async def frames(self) -> AsyncGenerator[str, None]:
        frame = encode("state.changed", {"subscription": self._subscription, "state": await self._compose()})
        if frame != self._told:
            self._told = frame
            yield frame

    def failed(self) -> None:
        self._told = None


class States:
    """`state.get`, `state.subscribe` and `state.unsubscribe` of one session.

    `on_watched` is called once, when somebody subscribes first.
    """

    def __init__(
        self, outgoing: Outgoing, compose: Compose, on_watched: Callable[[], None] | None = None
    ) -> None:
        self._outgoing = outgoing
        self._compose = compose
        self._on_watched = on_watched
        self._feeds: dict[str, StateFeed] = {}

    @property
    def requests(self) -> dict[str, Request]:
        return {
            "state.get": self._get,
            "state.subscribe": self._subscribe,
            "state.unsubscribe": self._unsubscribe,
        }

    def changed(self) -> None:
        """Something of the state may be different."""
        for feed in self._feeds.values():
            self._outgoing.mark(feed)

    def close(self) -> None:
        for feed in self._feeds.values():
            self._outgoing.forget(feed)
        self._feeds.clear()

    async def _get(self, _: dict[str, Any]) -> dict[str, Any]:
        return await self._compose()

    async def _subscribe(self, payload: dict[str, Any]) -> dict[str, Any]:
        name = payload["subscription"]
        if name in self._feeds:
            raise LoopError("this subscription exists", code=ErrorCode.BRIDGE_INVALID)
        if len(self._feeds) >= MAX_STATE_SUBSCRIPTIONS:
            raise LoopError("too many subscriptions", code=ErrorCode.LIMIT_EXCEEDED)
        self._feeds[name] = StateFeed(name, self._compose)
        if self._on_watched is not None:
            self._on_watched()
            self._on_watched = None
        self._outgoing.mark(self._feeds[name])
        return {"subscription": name}

    async def _unsubscribe(self, payload: dict[str, Any]) -> dict[str, Any]:
        feed = self._feeds.pop(payload["subscription"], None)
        if feed is not None:
            self._outgoing.forget(feed)
        return {}
