"""The informer's copy is true again after whatever happened to the watch."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from lineloop.control.informer import Change, Informer
from lineloop.control.resources import Resource
from lineloop.control.store import ResourceList, WatchEvent
from lineloop.control.stores.sql import SqlStore
from lineloop.kit.backoff import Backoff
from lineloop.kit.tasks import Tasks
from lineloop.protocol.errors import ConnectionLost
from lineloop.testing import FakeClock, until
from lineloop.testing.resource_store_contract import KIND, sample


class BrokenStore:
    """A store whose list and watch can be made to fail or to fall silent."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self.fail_lists = 0
        self.break_watches = asyncio.Event()
        self.silent = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def list(self, kind: str, **selection: Any) -> ResourceList:
        if self.fail_lists:
            self.fail_lists -= 1
            raise ConnectionLost("no list")
        return await self._store.list(kind, **selection)

    async def watch(self, kind: str, **selection: Any) -> AsyncIterator[WatchEvent]:
        async for event in self._store.watch(kind, **selection):
            if self.break_watches.is_set():
                raise ConnectionLost("no watch")
            if self.silent:
                await asyncio.get_running_loop().create_future()
            yield event


class Follower:
    """An informer, and what it told."""

    def __init__(self, store: Any, clock: FakeClock) -> None:
        backoff = Backoff(0.1, 2.0, 30.0, 0.2, random.Random(1))
        self.informer = Informer(store, KIND, clock, inactivity_seconds=60.0, backoff=backoff)
        self.changes: list[tuple[str, str]] = []
        self.informer.handlers.append(self._hear)

    def _hear(self, change: Change) -> None:
        what = "gone" if change.new is None else "new" if change.old is None else "changed"
        self.changes.append((what, change.key.name))

    def cached(self) -> Mapping[str, Resource]:
        return {key.name: resource for key, resource in self.informer.cache.items()}


@pytest.fixture
def broken(sql_store: SqlStore) -> BrokenStore:
    return BrokenStore(sql_store)


@pytest.fixture
def follower(broken: BrokenStore, clock: FakeClock) -> Follower:
    return Follower(broken, clock)


@pytest.fixture
async def running(follower: Follower, clock: FakeClock) -> AsyncIterator[Follower]:
    async with Tasks("test") as tasks:
        tasks.spawn(follower.informer.run(), name="informer")
        yield follower


@pytest.mark.requirement("K32")
async def test_the_cache_follows_the_store(running: Follower, sql_store: SqlStore, clock: FakeClock) -> None:
    await asyncio.wait_for(running.informer.synced.wait(), 5)
    await sql_store.create(sample("one"))
    await until(lambda: running.changes == [("new", "one")])
    await sql_store.patch(KIND, "one", {"spec": {"size": 2}})
    await until(lambda: running.changes[1:] == [("changed", "one")])
    assert running.cached()["one"]["spec"]["size"] == 2
    await sql_store.delete(KIND, "one")
    await until(lambda: running.changes[2:] == [("gone", "one")])
    assert running.cached() == {}
    assert running.informer.counters.lists == 1


@pytest.mark.requirement("K32")
async def test_a_cut_log_leads_to_a_list_that_tells_only_what_differs(
    running: Follower, sql_store: SqlStore, broken: BrokenStore, clock: FakeClock
) -> None:
    for name in ("kept", "changed", "gone"):
        await sql_store.create(sample(name))
    await until(lambda: len(running.changes) == 3)
    broken.break_watches.set()
    await sql_store.patch(KIND, "changed", {"spec": {"size": 2}})
    await until(lambda: running.informer.counters.errors == 1)
    broken.break_watches.clear()
    await sql_store.delete(KIND, "gone")
    await sql_store.create(sample("new"))
    await sql_store.compact()
    await clock.advance(1)
    await until(lambda: running.informer.counters.expired == 1)
    await until(lambda: len(running.changes) == 6)
    assert sorted(running.changes[3:]) == [("changed", "changed"), ("gone", "gone"), ("new", "new")]
    assert sorted(running.cached()) == ["changed", "kept", "new"]


@pytest.mark.requirement("K32")
async def test_a_broken_watch_is_resumed_where_it_was(
    running: Follower, sql_store: SqlStore, broken: BrokenStore, clock: FakeClock
) -> None:
    await sql_store.create(sample("one"))
    await until(lambda: running.changes)
    broken.break_watches.set()
    await sql_store.create(sample("two"))
    await until(lambda: running.informer.counters.errors == 1)
    broken.break_watches.clear()
    await clock.advance(1)
    await until(lambda: running.changes[1:] == [("new", "two")])
    assert running.informer.counters.lists == 1


@pytest.mark.requirement("K32")
async def test_failing_lists_are_tried_again_with_growing_patience(
    follower: Follower, broken: BrokenStore, sql_store: SqlStore, clock: FakeClock
) -> None:
    await sql_store.create(sample("one"))
    broken.fail_lists = 4
    async with Tasks("test") as tasks:
        tasks.spawn(follower.informer.run(), name="informer")
        await until(lambda: follower.informer.counters.errors == 1)
        await clock.advance(0.05)
        assert follower.informer.counters.errors == 1
        await clock.advance(0.5)
        assert follower.informer.counters.errors < 4
        await clock.advance(10)
        await until(lambda: follower.changes == [("new", "one")])


@pytest.mark.requirement("K32")
async def test_a_silent_watch_is_taken_for_dead(
    running: Follower, sql_store: SqlStore, broken: BrokenStore, clock: FakeClock
) -> None:
    await asyncio.wait_for(running.informer.synced.wait(), 5)
    await clock.advance(300)
    assert running.informer.counters.silences == 0, "bookmarks are a sign of life"
    broken.silent = True
    await sql_store.create(sample("one"))
    await clock.advance(30)
    assert running.changes == []
    broken.silent = False
    await clock.advance(60)
    await until(lambda: running.changes == [("new", "one")])
    assert running.informer.counters.silences == 1
