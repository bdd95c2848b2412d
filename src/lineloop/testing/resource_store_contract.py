"""What every ResourceStore must do: a suite to be run over each of them.

Subclass `ResourceStoreContract` in a test module and give it a fixture `store`, and `cut_log` when the store
can be made to forget its watch log. Needs pytest with the anyio plugin.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any, cast

import pytest

from lineloop.control.resources import Resource
from lineloop.control.store import ResourceStore, WatchEvent, WatchType
from lineloop.kit.clock import SystemClock, with_timeout
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import LoopError

KIND = "Sample"
_WAIT_SECONDS = 5.0


def sample(name: str, **metadata: Any) -> Resource:
    """A resource of the kind `Sample`."""
    return {
        "apiVersion": "test.lineloop.dev/v1",
        "kind": KIND,
        "metadata": {"name": name, **metadata},
        "spec": {"size": 1, "parts": {"a": 1, "b": 2}},
    }


async def refused(code: ErrorCode, attempt: Callable[[], Any]) -> LoopError:
    """The error of an attempt that must fail with `code`."""
    with pytest.raises(LoopError) as caught:
        await attempt()
    assert caught.value.code == code
    return caught.value


class Watcher:
    """Reads a watch event by event, bookmarks left out unless asked for."""

    def __init__(self, events: AsyncIterator[WatchEvent]) -> None:
        self._events = events

    async def next(self) -> tuple[str, str, str]:
        """(type, name, resourceVersion) of the next change."""
        while True:
            event = await with_timeout(SystemClock(), _WAIT_SECONDS, anext(self._events))
            if event.type is not WatchType.BOOKMARK:
                metadata = event.resource["metadata"]
                return str(event.type), metadata["name"], metadata["resourceVersion"]

    async def next_change(self) -> tuple[str, str]:
        return (await self.next())[:2]


class ResourceStoreContract:
    """One test per promise (spec/protocol.md §9, requirement ids K25 to K30)."""

    async def cut_log(self, store: ResourceStore) -> bool:  # noqa: ARG002 (for the subclass)
        """Make the store forget its watch log; False when this store cannot be made to."""
        return False

    @pytest.mark.requirement("K25")
    async def test_a_created_resource_has_identity_version_and_generation(self, store: ResourceStore) -> None:
        created = await store.create(sample("one", labels={"team": "a"}))
        metadata = created["metadata"]
        assert metadata["generation"] == 1
        assert metadata["uid"] and metadata["resourceVersion"] and metadata["creationTimestamp"]
        assert created == await store.get(KIND, "one")
        again = await refused(ErrorCode.RESOURCE_CONFLICT, lambda: store.create(sample("one")))
        assert again.status == 409
        await refused(ErrorCode.RESOURCE_NOT_FOUND, lambda: store.get(KIND, "two"))
        await refused(ErrorCode.RESOURCE_NOT_FOUND, lambda: store.get(KIND, "one", namespace="elsewhere"))

    @pytest.mark.requirement("K25")
    async def test_the_generation_grows_with_the_spec_and_only_then(self, store: ResourceStore) -> None:
        first = await store.create(sample("one"))
        labelled = await store.patch(KIND, "one", {"metadata": {"labels": {"team": "a"}}})
        changed = await store.patch(KIND, "one", {"spec": {"parts": {"a": None, "c": 3}}})
        told = await store.patch_status(KIND, "one", {"phase": "Ready"})
        assert [one["metadata"]["generation"] for one in (first, labelled, changed, told)] == [1, 1, 2, 2]
        assert told["spec"] == {"size": 1, "parts": {"b": 2, "c": 3}}
        assert told["status"] == {"phase": "Ready"}
        versions = [one["metadata"]["resourceVersion"] for one in (first, labelled, changed, told)]
        assert len(set(versions)) == 4

    @pytest.mark.requirement("K25")
    async def test_spec_and_status_are_written_by_different_verbs(self, store: ResourceStore) -> None:
        await store.create(sample("one"))
        await store.patch_status(KIND, "one", {"phase": "Ready"})
        patched = await store.patch(KIND, "one", {"status": {"phase": "Broken"}, "spec": {"size": 2}})
        assert (patched["status"], patched["spec"]["size"]) == ({"phase": "Ready"}, 2)

    @pytest.mark.requirement("K25")
    async def test_a_patch_that_changes_nothing_makes_no_version(self, store: ResourceStore) -> None:
        first = await store.create(sample("one"))
        assert await store.patch(KIND, "one", {"spec": {"size": 1}}) == first

    @pytest.mark.requirement("K26")
    async def test_a_stale_version_is_a_conflict_and_changes_nothing(self, store: ResourceStore) -> None:
        first = await store.create(sample("one"))
        stale = first["metadata"]["resourceVersion"]
        current = await store.patch(KIND, "one", {"spec": {"size": 2}}, resource_version=stale)
        for attempt in (
            lambda: store.patch(KIND, "one", {"spec": {"size": 3}}, resource_version=stale),
            lambda: store.patch_status(KIND, "one", {"phase": "x"}, resource_version=stale),
            lambda: store.delete(KIND, "one", resource_version=stale),
        ):
            await refused(ErrorCode.RESOURCE_CONFLICT, attempt)
        assert await store.get(KIND, "one") == current

    @pytest.mark.requirement("K26")
    @pytest.mark.parametrize(
        "broken",
        [
            {"kind": KIND, "metadata": {}},
            {"kind": KIND, "metadata": {"name": "No Such Name"}},
            {"kind": "", "metadata": {"name": "one"}},
            {"kind": KIND, "metadata": {"name": "one"}, "spec": [1]},
            {"kind": KIND, "metadata": {"name": "one", "labels": {"a": 1}}},
            {"kind": KIND, "metadata": {"name": "one", "ownerReferences": [{"uid": "x"}]}},
        ],
    )
    async def test_what_is_no_resource_is_refused_and_not_stored(
        self, store: ResourceStore, broken: Resource
    ) -> None:
        await refused(ErrorCode.INVALID_RESOURCE, lambda: store.create(broken))
        assert (await store.list(KIND)).items == []

    @pytest.mark.requirement("K27")
    async def test_a_list_selects_by_namespace_and_labels(self, store: ResourceStore) -> None:
        await store.create(sample("one", labels={"team": "a", "size": "s"}))
        await store.create(sample("two", labels={"team": "b"}))
        await store.create(sample("one", namespace="other", labels={"team": "a"}))

        async def names(**selection: Any) -> list[str]:
            listed = await store.list(KIND, **selection)
            return [f"{one['metadata']['namespace']}/{one['metadata']['name']}" for one in listed.items]

        assert await names() == ["default/one", "default/two", "other/one"]
        assert await names(namespace="default") == ["default/one", "default/two"]
        assert await names(labels={"team": "a"}) == ["default/one", "other/one"]
        assert await names(labels={"team": "a", "size": "s"}) == ["default/one"]

    @pytest.mark.requirement("K28")
    async def test_a_finalizer_holds_the_deletion_until_it_is_taken_off(self, store: ResourceStore) -> None:
        await store.create(sample("one", finalizers=["test/clean", "test/more"]))
        await store.delete(KIND, "one")
        await store.delete(KIND, "one")
        held = await store.get(KIND, "one")
        assert held["metadata"]["deletionTimestamp"]
        more: Resource = {"metadata": {"finalizers": ["test/clean", "test/more", "test/late"]}}
        await refused(ErrorCode.INVALID_RESOURCE, lambda: store.patch(KIND, "one", more))
        await store.patch(KIND, "one", {"metadata": {"finalizers": ["test/more"]}})
        await store.get(KIND, "one")
        await store.patch(KIND, "one", {"metadata": {"finalizers": None}})
        await refused(ErrorCode.RESOURCE_NOT_FOUND, lambda: store.get(KIND, "one"))

    @pytest.mark.requirement("K28")
    async def test_what_is_owned_goes_with_its_last_owner(self, store: ResourceStore) -> None:
        async def owned(name: str, *owners: Resource, **metadata: Any) -> Resource:
            references = [
                {
                    "apiVersion": owner["apiVersion"],
                    "kind": KIND,
                    "name": owner["metadata"]["name"],
                    "uid": owner["metadata"]["uid"],
                }
                for owner in owners
            ]
            return await store.create(sample(name, ownerReferences=references, **metadata))

        one, two = await store.create(sample("one")), await store.create(sample("two"))
        child = await owned("child", one)
        await owned("grandchild", child)
        await owned("shared", one, two)
        await owned("held", one, finalizers=["test/clean"])
        await store.delete(KIND, "one")
        names = {resource["metadata"]["name"] for resource in (await store.list(KIND)).items}
        assert names == {"two", "shared", "held"}
        assert (await store.get(KIND, "held"))["metadata"]["deletionTimestamp"]
        await store.delete(KIND, "two")
        await refused(ErrorCode.RESOURCE_NOT_FOUND, lambda: store.get(KIND, "shared"))

    @pytest.mark.requirement("K29")
    async def test_a_watch_continues_a_list_without_a_gap(self, store: ResourceStore) -> None:
        await store.create(sample("before"))
        listed = await store.list(KIND)
        await store.create(sample("one"))
        watch = store.watch(KIND, resource_version=listed.resource_version)
        async with aclosing(cast(Any, watch)):
            watcher = Watcher(watch)
            assert await watcher.next_change() == ("ADDED", "one")
            await store.patch(KIND, "before", {"spec": {"size": 2}})
            assert await watcher.next_change() == ("MODIFIED", "before")
            await store.delete(KIND, "one")
            assert await watcher.next_change() == ("DELETED", "one")

    @pytest.mark.requirement("K29")
    async def test_a_watch_can_be_continued_from_any_event(self, store: ResourceStore) -> None:
        start = (await store.list(KIND)).resource_version
        for name in ("one", "two", "three"):
            await store.create(sample(name))
        seen: list[str] = []
        version = start
        for _ in range(3):
            watch = store.watch(KIND, resource_version=version)
            async with aclosing(cast(Any, watch)):
                _, name, version = await Watcher(watch).next()
                seen.append(name)
        assert seen == ["one", "two", "three"]

    @pytest.mark.requirement("K29")
    async def test_a_selecting_watch_sees_arrivals_and_departures(self, store: ResourceStore) -> None:
        await store.create(sample("one", labels={"team": "a"}))
        await store.create(sample("two", labels={"team": "b"}))
        start = (await store.list(KIND)).resource_version
        watch = store.watch(KIND, resource_version=start, labels={"team": "a"}, namespace="default")
        async with aclosing(cast(Any, watch)):
            watcher = Watcher(watch)
            await store.patch(KIND, "two", {"metadata": {"labels": {"team": "a"}}})
            assert await watcher.next_change() == ("ADDED", "two")
            await store.patch(KIND, "one", {"metadata": {"labels": {"team": "b"}}})
            assert await watcher.next_change() == ("DELETED", "one")
            await store.create(sample("three", labels={"team": "a"}, namespace="other"))
            await store.patch(KIND, "two", {"spec": {"size": 5}})
            assert await watcher.next_change() == ("MODIFIED", "two")

    @pytest.mark.requirement("K30")
    async def test_a_watch_from_before_the_log_is_told_to_list_again(self, store: ResourceStore) -> None:
        old = (await store.list(KIND)).resource_version
        await store.create(sample("one"))
        await store.create(sample("two"))
        if not await self.cut_log(store):
            pytest.skip("this store cannot be made to forget its log")
        watch = store.watch(KIND, resource_version=old)
        expired = await refused(ErrorCode.RESOURCE_EXPIRED, lambda: anext(watch))
        assert expired.status == 410
        fresh = await store.list(KIND)
        assert len(fresh.items) == 2
        again = store.watch(KIND, resource_version=fresh.resource_version)
        async with aclosing(cast(Any, again)):
            await store.delete(KIND, "one")
            assert await Watcher(again).next_change() == ("DELETED", "one")
