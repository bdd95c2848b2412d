"""Resources in the server's own database (the embedded default).

Decides how a watch follows the log: woken in process right after the commit, backed by a slow sweep for what
other processes write. The rules of resources are in `resources`, the statements in `resource_tables`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from lineloop.control.resources import (
    DEFAULT_NAMESPACE,
    Resource,
    ResourceKey,
    check_version,
    decide_create,
    decide_delete,
    decide_patch,
    decide_replace,
    decide_status,
    invalid,
    is_gone,
    key_of,
    labels_of,
    owner_uids,
    selects,
    uid_of,
    version_of,
    without_owner,
)
from lineloop.control.store import Labels, ResourceList, WatchEvent, WatchType
from lineloop.control.stores import resource_tables as tables
from lineloop.control.stores.resource_tables import DDL, Logged
from lineloop.kit.clock import Clock, rfc3339, with_timeout
from lineloop.kit.database import Database, DatabaseCorrupt, DatabaseError, QueueFull, Tx
from lineloop.kit.ids import Ids
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import Conflict, LoopError, NotFound, Overloaded, StorageUnavailable

__all__ = ["DDL", "SqlStore"]

T = TypeVar("T")

_KEEP_EVENTS = 10_000
_CUT_EVERY = 256
_LABEL = "control.resource"


class SqlStore:
    """A ResourceStore over a Database whose schema has `DDL`.

    The `…_in` methods are the same verbs inside a job of the caller's own, and share its transaction.
    `sweep_seconds`: how soon a watch sees what another process wrote. `bookmark_seconds`: how often a quiet
    watch says that it lives. The log keeps about `keep_events` changes.
    """

    def __init__(
        self,
        db: Database,
        clock: Clock,
        ids: Ids,
        *,
        sweep_seconds: float = 1.0,
        bookmark_seconds: float = 10.0,
        keep_events: int = _KEEP_EVENTS,
    ) -> None:
        self._db = db
        self._clock = clock
        self._ids = ids
        self._sweep_seconds = sweep_seconds
        self._bookmark_seconds = bookmark_seconds
        self._keep_events = keep_events
        self._watches: dict[str, set[asyncio.Event]] = {}

    async def get(self, kind: str, name: str, *, namespace: str = DEFAULT_NAMESPACE) -> Resource:
        return await self._read(lambda tx: self.get_in(tx, kind, name, namespace=namespace))

    async def list(
        self, kind: str, *, namespace: str | None = None, labels: Labels | None = None
    ) -> ResourceList:
        def job(tx: Tx) -> ResourceList:
            items = [one for one in tables.load_kind(tx, kind, namespace) if selects(labels, labels_of(one))]
            return ResourceList(items, str(tables.versions(tx).newest))

        return await self._read(job)

    async def create(self, resource: Resource) -> Resource:
        return await self._write(lambda tx: self.create_in(tx, resource))

    async def patch(
        self,
        kind: str,
        name: str,
        patch: Mapping[str, Any],
        *,
        namespace: str = DEFAULT_NAMESPACE,
        resource_version: str | None = None,
    ) -> Resource:
        key = ResourceKey(kind, namespace, name)
        return await self._write(lambda tx: self.patch_in(tx, key, patch, resource_version))

    async def patch_status(
        self,
        kind: str,
        name: str,
        status: Mapping[str, Any],
        *,
        namespace: str = DEFAULT_NAMESPACE,
        resource_version: str | None = None,
    ) -> Resource:
        key = ResourceKey(kind, namespace, name)
        return await self._write(lambda tx: self.patch_status_in(tx, key, status, resource_version))

    async def delete(
        self,
        kind: str,
        name: str,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        resource_version: str | None = None,
    ) -> None:
        key = ResourceKey(kind, namespace, name)
        await self._write(lambda tx: self.delete_in(tx, key, resource_version))

    def get_in(self, tx: Tx, kind: str, name: str, *, namespace: str = DEFAULT_NAMESPACE) -> Resource:
        """As `get`."""
        return _found(tables.load(tx, ResourceKey(kind, namespace, name)), kind, name)

    def create_in(self, tx: Tx, resource: Mapping[str, Any]) -> Resource:
        """As `create`."""
        tables.lock(tx)
        key = key_of(resource)
        if tables.load(tx, key) is not None:
            raise Conflict(f"{key.kind} {key.name} exists already", code=ErrorCode.RESOURCE_CONFLICT)
        first = decide_create(resource, uid=self._ids.uuid7(), created_at=rfc3339(self._clock.now_ms()))
        owners = owner_uids(first)
        if owners and not tables.exists_any(tx, owners):
            raise invalid("none of the owners exists", "/metadata/ownerReferences")
        created = tables.insert(tx, key, first)
        self._changed(tx, key, created)
        return created

    def patch_in(
        self, tx: Tx, key: ResourceKey, patch: Mapping[str, Any], resource_version: str | None = None
    ) -> Resource:
        """As `patch`; a version in the patch's metadata counts like `resource_version`."""
        expected = resource_version or (patch.get("metadata") or {}).get("resourceVersion")
        return self._change(tx, key, expected, lambda before: decide_patch(before, patch))

    def patch_status_in(
        self, tx: Tx, key: ResourceKey, status: Mapping[str, Any], resource_version: str | None = None
    ) -> Resource:
        """As `patch_status`."""
        return self._change(tx, key, resource_version, lambda before: decide_status(before, status))

    def apply_in(self, tx: Tx, resource: Mapping[str, Any]) -> Resource:
        """Create the resource, or replace its spec, status and given metadata; equal content changes
        nothing.
        """
        tables.lock(tx)
        key = key_of(resource)
        before = tables.load(tx, key)
        if before is None:
            return self.create_in(tx, resource)
        return self._store(tx, key, before, decide_replace(before, resource))

    def delete_in(self, tx: Tx, key: ResourceKey, resource_version: str | None = None) -> None:
        """As `delete`."""
        tables.lock(tx)
        before = _found(tables.load(tx, key), key.kind, key.name)
        check_version(before, resource_version)
        after = decide_delete(before, deleted_at=rfc3339(self._clock.now_ms()))
        if after is None:
            self._remove(tx, key, before)
        else:
            self._store(tx, key, before, after)

    async def compact(self, keep_events: int = 0) -> None:
        """Cut the watch log down to the newest `keep_events` versions; slower watches must list again."""
        await self._write(lambda tx: tables.cut_log(tx, tables.versions(tx).newest - keep_events))

    async def watch(
        self,
        kind: str,
        *,
        resource_version: str,
        namespace: str | None = None,
        labels: Labels | None = None,
    ) -> AsyncIterator[WatchEvent]:
        seen = _parse_version(resource_version)
        wake = asyncio.Event()
        watches = self._watches.setdefault(kind, set())
        watches.add(wake)
        told_at = self._clock.monotonic()
        try:
            while True:
                wake.clear()
                after = seen
                events, seen = await self._read(
                    lambda tx, after=after: _events(tx, kind, namespace, labels, after)
                )
                now = self._clock.monotonic()
                if not events and now - told_at >= self._bookmark_seconds:
                    events = [WatchEvent(WatchType.BOOKMARK, _bookmark(kind, seen))]
                for event in events:
                    told_at = now
                    yield event
                if not wake.is_set():
                    with suppress(TimeoutError):
                        await with_timeout(self._clock, self._sweep_seconds, wake.wait())
        finally:
            watches.discard(wake)

    def _change(
        self, tx: Tx, key: ResourceKey, expected: str | None, decide: Callable[[Resource], Resource]
    ) -> Resource:
        tables.lock(tx)
        before = _found(tables.load(tx, key), key.kind, key.name)
        check_version(before, expected)
        return self._store(tx, key, before, decide(before))

    def _store(self, tx: Tx, key: ResourceKey, before: Resource, after: Resource) -> Resource:
        if after == before:
            return before
        if is_gone(after):
            self._remove(tx, key, after)
            return after
        stored = tables.update(tx, key, before, after)
        self._changed(tx, key, stored)
        return stored

    def _remove(self, tx: Tx, key: ResourceKey, resource: Resource) -> None:
        """Remove a resource, then what nobody owns any more, breadth first."""
        going = [(key, resource)]
        while going:
            key, resource = going.pop(0)
            tables.remove(tx, key, resource)
            self._changed(tx, key, resource)
            for owned in tables.load_owned(tx, uid_of(resource)):
                owned_key = key_of(owned)
                remaining = without_owner(owned, uid_of(resource))
                if tables.exists_any(tx, owner_uids(remaining)):
                    self._store(tx, owned_key, owned, remaining)
                    continue
                after = decide_delete(owned, deleted_at=rfc3339(self._clock.now_ms()))
                if after is None:
                    going.append((owned_key, owned))
                else:
                    self._store(tx, owned_key, owned, after)

    def _changed(self, tx: Tx, key: ResourceKey, resource: Resource) -> None:
        newest = int(resource["metadata"]["resourceVersion"])
        if newest % _CUT_EVERY == 0 and newest > self._keep_events:
            tables.cut_log(tx, newest - self._keep_events)
        tx.after_commit(lambda: self._wake(key.kind))

    def _wake(self, kind: str) -> None:
        for wake in self._watches.get(kind, ()):
            wake.set()

    async def _read(self, job: Callable[[Tx], T]) -> T:
        try:
            return await self._db.read(job)
        except DatabaseError as error:
            raise _coded(error) from error

    async def _write(self, job: Callable[[Tx], T]) -> T:
        try:
            return await self._db.write(job, label=_LABEL)
        except DatabaseError as error:
            raise _coded(error) from error


def _events(
    tx: Tx, kind: str, namespace: str | None, labels: Labels | None, after: int
) -> tuple[list[WatchEvent], int]:
    """What a watch that has seen `after` is told now, and what it has seen then: one snapshot."""
    newest, compacted = tables.versions(tx)
    if after < compacted or after > newest:
        raise LoopError(
            f"the watch log does not reach version {after}; list again", code=ErrorCode.RESOURCE_EXPIRED
        )
    log = tables.changes(tx, kind, namespace, after) if newest > after else []
    by_key: dict[ResourceKey, list[Logged]] = {}
    for line in log:
        by_key.setdefault(line.key, []).append(line)
    events: list[WatchEvent] = []
    for key, lines in by_key.items():
        present = tables.load(tx, key) if lines[-1].deleted is None else None
        events.extend(_told(lines, present, labels))
    # Whoever stops in between continues from the version of the last event; nothing older may follow.
    events.sort(key=lambda event: int(version_of(event.resource)))
    return events, newest


def _told(lines: list[Logged], present: Resource | None, labels: Labels | None) -> list[WatchEvent]:
    """The changes of one resource as a selector sees them: where it went away, and what it is now."""
    events: list[WatchEvent] = []
    before = lines[0].labels_before
    known = before is not None and selects(labels, before)
    last = present or lines[-1].deleted or {}
    for line, following in zip(lines, [*lines[1:], None], strict=True):
        if not known:
            break
        if line.deleted is not None:
            stays = False
        else:
            after = following.labels_before if following is not None else labels_of(last)
            stays = selects(labels, after or {})
        if not stays:
            gone = line.deleted or last
            metadata = {**gone["metadata"], "resourceVersion": str(line.version)}
            events.append(WatchEvent(WatchType.DELETED, {**gone, "metadata": metadata}))
            known = False
    if present is not None and selects(labels, labels_of(present)):
        events.append(WatchEvent(WatchType.MODIFIED if known else WatchType.ADDED, present))
    return events


def _bookmark(kind: str, version: int) -> Resource:
    return {"kind": kind, "metadata": {"resourceVersion": str(version)}}


def _parse_version(text: str) -> int:
    if not text.isdecimal():
        raise invalid("resource_version must come from a list or a watch", "/resource_version")
    return int(text)


def _found(resource: Resource | None, kind: str, name: str) -> Resource:
    if resource is None:
        raise NotFound(f"there is no {kind} {name}", code=ErrorCode.RESOURCE_NOT_FOUND)
    return resource


def _coded(error: DatabaseError) -> LoopError:
    if isinstance(error, QueueFull):
        return Overloaded(str(error))
    if isinstance(error, DatabaseCorrupt):
        return LoopError(str(error), code=ErrorCode.STORAGE_CORRUPT)
    return StorageUnavailable(str(error))
