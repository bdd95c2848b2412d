"""Which changes of a Conversation lead to a turn: the predicate, behind informer and queue, over /apis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from lineloop.control.controller import Controller, Manager, Request
from lineloop.control.store import WatchType
from lineloop.control.stores.server import ServerStore
from lineloop.kit import json
from lineloop.protocol.actors import Actor
from lineloop.protocol.errors import ConnectionLost, LoopError, NotFound
from lineloop.protocol.resources import CONVERSATION_KIND, conversation_predicate
from lineloop.testing import FakeClock, until

ECHO = Actor("operator", "echo")
OTHER = Actor("operator", "other")


def resource(
    version: int, *, end: int = 0, committed: int = 0, position: int = 0, workspace: str = "w1", **more: Any
) -> dict[str, Any]:
    participants = [{"kind": "operator", "key": "echo", "conversationID": workspace, "endOffset": end}]
    consumers = [{"kind": "operator", "key": "echo", "position": position, "committed": committed}]
    if "other_end" in more:
        participants.append({**OTHER.to_wire(), "conversationID": "w2", "endOffset": more["other_end"]})
    return {
        "metadata": {"name": "c1", "namespace": "default", "uid": "u1", "resourceVersion": str(version)},
        "spec": {"participants": participants},
        "status": {"consumers": consumers},
    }


class Apis:
    """The far end of /apis: documents by path, and watch lines from a queue."""

    def __init__(self) -> None:
        self.documents: dict[str, list[dict[str, Any] | LoopError]] = {}
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.told: asyncio.Queue[str | None] = asyncio.Queue()

    async def document(self, path: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        self.asked.append((path, {name: value for name, value in (params or {}).items() if value}))
        answers = self.documents[path]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, LoopError):
            raise answer
        return answer

    @asynccontextmanager
    async def lines(
        self, path: str, params: Mapping[str, Any] | None = None
    ) -> AsyncGenerator[AsyncIterator[str], None]:
        self.asked.append((path, {name: value for name, value in (params or {}).items() if value}))
        yield self._lines()

    async def _lines(self) -> AsyncGenerator[str, None]:
        while (line := await self.told.get()) is not None:
            yield line

    def tell(self, type_: str, item: dict[str, Any]) -> None:
        self.told.put_nowait(json.dumps({"type": type_, "object": item}))


ALL = "/apis/loop.lineloop.dev/v1alpha1/conversations"


class Woken:
    """A manager over /apis that notes which conversations would get a turn."""

    def __init__(self, *items: dict[str, Any]) -> None:
        self.apis = Apis()
        self.apis.documents[ALL] = [{"metadata": {"resourceVersion": "10"}, "items": list(items)}]
        self.requests: list[str] = []
        self.clock = FakeClock()
        self.manager = Manager(ServerStore(self.apis), self.clock)
        self.manager.add(
            Controller(
                for_=CONVERSATION_KIND,
                reconcile=self._reconcile,
                predicates=[conversation_predicate(ECHO)],
                name="echo",
            )
        )

    async def _reconcile(self, request: Request) -> None:
        self.requests.append(request.name)

    async def begin(self) -> None:
        await self.manager.start()
        await self.manager.wait_synced()
        await self.clock.settle()

    async def changed(self, item: dict[str, Any]) -> int:
        """How many turns the change causes."""
        before = len(self.requests)
        self.apis.tell("MODIFIED", item)
        await self.clock.settle()
        return len(self.requests) - before


@pytest.fixture
async def woken() -> AsyncGenerator[list[Woken], None]:
    made: list[Woken] = []
    yield made
    for one in made:
        await one.manager.stop()


async def begun(woken: list[Woken], *items: dict[str, Any]) -> Woken:
    one = Woken(*items)
    woken.append(one)
    await one.begin()
    return one


@pytest.mark.requirement("L58")
async def test_start_up_wakes_for_uncommitted_input_and_only_for_that(woken: list[Woken]) -> None:
    assert (await begun(woken, resource(1, end=5, committed=2))).requests == ["c1"]
    assert (await begun(woken, resource(1, end=5, committed=5))).requests == []


@pytest.mark.requirement("L58")
async def test_new_input_and_a_commit_that_leaves_some_wake_and_nothing_else_does(
    woken: list[Woken],
) -> None:
    one = await begun(woken, resource(1, end=0))
    assert await one.changed(resource(2, end=5)) == 1
    assert await one.changed(resource(3, end=5, position=5)) == 0
    assert await one.changed(resource(4, end=5, position=5, committed=3)) == 1
    assert await one.changed(resource(5, end=5, position=5, committed=5)) == 0
    assert await one.changed(resource(6, end=5, position=5, committed=5, other_end=9)) == 0


@pytest.mark.requirement("L59")
async def test_the_workspace_becoming_known_with_a_backlog_wakes(woken: list[Woken]) -> None:
    one = await begun(woken, resource(1, end=5, workspace=""))
    woken_before = len(one.requests)
    assert await one.changed(resource(2, end=5, workspace="w1")) == 1
    assert len(one.requests) == woken_before + 1


async def test_a_hint_from_elsewhere_wakes_without_any_change(woken: list[Woken]) -> None:
    one = await begun(woken, resource(1))
    one.manager.enqueue("echo", Request(CONVERSATION_KIND, "c2"))
    one.manager.enqueue("nobody", Request(CONVERSATION_KIND, "c3"))
    await until(lambda: one.requests == ["c2"])


async def test_a_watch_that_ends_is_followed_again_and_nothing_is_missed(woken: list[Woken]) -> None:
    one = await begun(woken, resource(1))
    one.apis.told.put_nowait(None)
    await one.clock.advance(1.0)
    assert await one.changed(resource(2, end=5)) == 1
    watches = [params["resourceVersion"] for _, params in one.apis.asked if params.get("watch")]
    assert watches == ["10", "10"]


async def test_an_expired_watch_lists_again(woken: list[Woken]) -> None:
    one = await begun(woken, resource(1))
    one.apis.documents[ALL] = [{"metadata": {"resourceVersion": "20"}, "items": [resource(15, end=5)]}]
    one.apis.tell("ERROR", {"kind": "Status", "code": 410, "message": "too old"})
    await until(lambda: one.requests == ["c1"])


async def test_a_list_follows_its_pages_and_fills_in_what_items_leave_out() -> None:
    apis = Apis()
    apis.documents[ALL] = [
        {"metadata": {"resourceVersion": "7", "continue": "more"}, "items": [resource(1)]},
        {"metadata": {"resourceVersion": "7"}, "items": [resource(2)]},
    ]
    listed = await ServerStore(apis).list(CONVERSATION_KIND, labels={"a": "b"})
    assert listed.resource_version == "7"
    assert [item["kind"] for item in listed.items] == ["Conversation", "Conversation"]
    assert apis.asked[1] == (ALL, {"labelSelector": "a=b", "continue": "more"})


async def test_one_resource_is_read_by_name_and_a_missing_one_has_its_code() -> None:
    apis = Apis()
    path = "/apis/loop.lineloop.dev/v1alpha1/namespaces/default/conversations/c1"
    apis.documents[path] = [resource(1), NotFound("no")]
    store = ServerStore(apis)
    assert (await store.get(CONVERSATION_KIND, "c1"))["metadata"]["name"] == "c1"
    with pytest.raises(NotFound) as caught:
        await store.get(CONVERSATION_KIND, "c1")
    assert caught.value.code == "resource_not_found"
    with pytest.raises(NotFound):
        await store.get("Pod", "c1")


async def test_watch_lines_become_events_and_garbage_a_broken_connection() -> None:
    apis = Apis()
    apis.tell("ADDED", resource(1))
    apis.tell("BOOKMARK", {"metadata": {"resourceVersion": "9"}})
    apis.told.put_nowait("not json")
    watch = ServerStore(apis).watch(CONVERSATION_KIND, resource_version="1")
    assert (await anext(watch)).type is WatchType.ADDED
    assert (await anext(watch)).type is WatchType.BOOKMARK
    with pytest.raises(ConnectionLost):
        await anext(watch)


async def test_a_server_store_writes_nothing() -> None:
    store = ServerStore(Apis())
    for attempt in (
        store.create({}),
        store.patch("Conversation", "c1", {}),
        store.patch_status("Conversation", "c1", {}),
        store.delete("Conversation", "c1"),
    ):
        with pytest.raises(LoopError) as caught:
            await attempt
        assert caught.value.code == "method_not_allowed"
