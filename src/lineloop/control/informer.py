"""A local copy of one kind, kept true by list and watch.

Decides when to list again: at the start, when the log no longer reaches back, when a watch stays silent.
Whatever was missed in between comes out as one change from the old to the present state.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, cast

import structlog

from lineloop.control.resources import Resource, ResourceKey, key_of, uid_of, version_of
from lineloop.control.store import Labels, ResourceStore, WatchEvent, WatchType
from lineloop.kit.backoff import Backoff
from lineloop.kit.clock import Clock, with_timeout
from lineloop.kit.records import record
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import LoopError

_log = structlog.get_logger(__name__)


@record
class Change:
    """From what the cache had to what it has: `old` None = appeared, `new` None = gone."""

    key: ResourceKey
    old: Resource | None
    new: Resource | None


@dataclass(slots=True)
class InformerCounters:
    """How the copy was kept so far."""

    lists: int = 0
    events: int = 0
    expired: int = 0
    errors: int = 0
    silences: int = 0


class Informer:
    """Keeps `cache` for one kind and tells `handlers` about every change, in order, on the loop.

    A watch that says nothing for `inactivity_seconds`, not even a bookmark, is taken for dead.
    """

    def __init__(
        self,
        store: ResourceStore,
        kind: str,
        clock: Clock,
        *,
        namespace: str | None = None,
        labels: Labels | None = None,
        inactivity_seconds: float = 60.0,
        backoff: Backoff | None = None,
    ) -> None:
        self.kind = kind
        self.cache: dict[ResourceKey, Resource] = {}
        self.handlers: list[Callable[[Change], None]] = []
        self.synced = asyncio.Event()
        self.counters = InformerCounters()
        self._store = store
        self._clock = clock
        self._namespace = namespace
        self._labels = labels
        self._inactivity_seconds = inactivity_seconds
        self._backoff = backoff or Backoff(0.1, 2.0, 30.0)

    async def run(self) -> None:
        """Follow the store until cancelled; no failure of the store ends it."""
        failures = 0
        version: str | None = None
        while True:
            try:
                if version is None:
                    version = await self._list()
                async for reached in self._follow(version):
                    version = reached
                    failures = 0
            except TimeoutError:
                self.counters.silences += 1
                version = None
            except LoopError as error:
                if error.code == ErrorCode.RESOURCE_EXPIRED:
                    self.counters.expired += 1
                    version = None
                    if not failures:
                        # Once at once; if that does not help, with growing patience.
                        failures = 1
                        continue
                failures = await self._wait(failures, error)
            except Exception as error:
                failures = await self._wait(failures, error)

    async def _wait(self, failures: int, error: Exception) -> int:
        self.counters.errors += 1
        delay = self._backoff.delay(failures)
        _log.warning("watch_failed", kind=self.kind, error=repr(error), retry_seconds=round(delay, 3))
        await self._clock.sleep(delay)
        return failures + 1

    async def _list(self) -> str:
        listed = await self._store.list(self.kind, namespace=self._namespace, labels=self._labels)
        self.counters.lists += 1
        present = {key_of(resource): resource for resource in listed.items}
        for key in [key for key in self.cache if key not in present]:
            self._set(key, None)
        for key, resource in present.items():
            self._set(key, resource)
        self.synced.set()
        return listed.resource_version

    async def _follow(self, version: str) -> AsyncIterator[str]:
        """Yield the version reached after each event."""
        watch = self._store.watch(
            self.kind, resource_version=version, namespace=self._namespace, labels=self._labels
        )
        async with aclosing(cast(Any, watch)):
            while True:
                event: WatchEvent = await with_timeout(self._clock, self._inactivity_seconds, anext(watch))
                self.counters.events += 1
                if event.type is not WatchType.BOOKMARK:
                    gone = event.type is WatchType.DELETED
                    self._set(key_of(event.resource), None if gone else event.resource)
                yield version_of(event.resource)

    def _set(self, key: ResourceKey, new: Resource | None) -> None:
        old = self.cache.get(key)
        if new is None:
            if old is None:
                return
            del self.cache[key]
            self._tell(Change(key, old, None))
            return
        if old is not None and version_of(old) == version_of(new):
            return
        self.cache[key] = new
        if old is not None and uid_of(old) != uid_of(new):
            # Another object took the name while nobody looked.
            self._tell(Change(key, old, None))
            old = None
        self._tell(Change(key, old, new))

    def _tell(self, change: Change) -> None:
        for handler in self.handlers:
            try:
                handler(change)
            except Exception:
                _log.exception("change_handler_failed", kind=self.kind, key=change.key)
