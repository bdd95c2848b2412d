"""Every fault site of care, people and upkeep, in every mode that a test in one process can survive, and with
kill -9: the story ends the same, and each site is really reached.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
from tests.faults.server.test_sites import insist

from lineloop.kit.faults import Faults
from lineloop.protocol.errors import LoopError
from lineloop.protocol.fault_sites import FaultSite
from lineloop.server.commit.context import CommitLimits
from lineloop.server.settings import Retention
from lineloop.server.upkeep.deadlines import SilentStreams
from lineloop.testing.server_world import ServerWorld, server_world

T = TypeVar("T")
BOB = {"kind": "user", "key": "bob"}
MINUTE = 1 / (24 * 60)
KEPT = Retention(messages=MINUTE, envelopes=MINUTE, runs=MINUTE, ledger=MINUTE)
CALLED = ("care", "read", "blob", "invite", "remove", "people")
UPKEEP = ("index", "retention", "blob_sweep", "silent", "refusals")
FILES = ("keep", "removal")
SITES = [
    *(FaultSite(f"server.{path}.{side}_commit") for path in CALLED + UPKEEP for side in ("before", "after")),
    *(FaultSite(f"server.blob_file.{side}_{path}") for path in FILES for side in ("before", "after")),
]


async def again(work: Callable[[], Awaitable[T]]) -> T:
    """As a sweep does: what failed is done by the next one."""
    for _ in range(3):
        try:
            return await work()
        except LoopError as error:
            assert error.code in ("fault_injected", "connection_lost", "storage_unavailable"), error
    raise AssertionError("the fault did not pass")


async def upload(client: httpx.AsyncClient, content: bytes) -> dict[str, Any]:
    for _ in range(3):
        answer = await client.post("/v1/blobs", content=content)
        if answer.status_code == 201:
            return answer.json()
        assert answer.status_code in (500, 503), answer.text
    raise AssertionError("the fault did not pass")


async def upkeep(world: ServerWorld) -> None:
    server, care = world.server, world.server.care
    silent = SilentStreams(server.commits, world.clock)
    await again(silent.end_silent)
    await again(lambda: server.refusals.write(server.commits))
    await again(care.retention.sweep)
    await again(care.blobs.sweep)
    await again(care.blobs.sweep)  # what the first one left in its place


async def story(world: ServerWorld) -> tuple[str, str]:
    """(conversation, hash of what is attached). An old message and a blob that nobody has go on the way."""
    root: str = (await insist(world.http, "POST", "/conversations", {"key": "story"}))["id"]
    here = f"/conversations/{root}"
    await insist(world.http, "POST", f"{here}/messages", {"key": "old", "text": "old"})
    await insist(world.http, "POST", f"{here}/messages", {"key": "quiet", "stream": True})
    await upload(world.http, b"nobody has this")
    await world.http.get("/v1/conversations/con_none")
    await world.advance(61)
    await again(lambda: world.server.care.indexing.index(root))
    await upkeep(world)
    blob = await upload(world.http, b"attached")
    block = {"id": "file", "type": "attachment", "name": "needle.bin", **blob}
    content = {"version": "1.1", "biz": "chat", "meta": {}, "blocks": [block]}
    await insist(world.http, "POST", f"{here}/messages", {"key": "new", "content": content})
    await insist(world.http, "PATCH", here, {"name": "named", "archived": True})
    await insist(world.http, "PUT", f"{here}/read", {"ordinal": 3})
    await insist(world.http, "POST", "/users", {"key": "bob"})
    await insist(world.http, "POST", "/users", {"key": "carl"})
    await insist(world.http, "DELETE", "/users/carl")
    for _ in range(2):
        await insist(world.http, "POST", f"{here}/participants", BOB)
    await insist(world.http, "DELETE", f"{here}/participants/user/bob")
    await again(lambda: world.server.care.indexing.index(root))
    return root, blob["hash"]


async def check(world: ServerWorld, root: str, attached: str) -> None:
    card = await insist(world.http, "GET", f"/conversations/{root}")
    assert (card["name"], card["archived_at"] is not None, card["read_ordinal"]) == ("named", True, 3)
    items = (await insist(world.http, "GET", f"/conversations/{root}/messages"))["items"]
    [new] = [one for one in items if one["key"] == "new"]
    ordinals = [one["ordinal"] for one in items]
    assert sorted(set(ordinals)) == ordinals
    assert (await world.http.get(f"/v1/blobs/{attached}")).content == b"attached"
    found = await insist(world.http, "GET", "/messages/search?q=needle")
    assert [one["message_id"] for one in found["items"]] == [new["id"]]
    people = (await insist(world.http, "GET", "/users"))["items"]
    assert {one["key"] for one in people} >= {"bob"}
    assert "carl" not in {one["key"] for one in people}
    members = (await insist(world.http, "GET", f"/conversations/{root}/participants"))["items"]
    assert [one["key"] for one in members] == ["local"]
    refused = (await insist(world.http, "GET", "/refusals"))["items"]
    assert "conversation_not_found" in {one["code"] for one in refused}


def small_world(folder: Path, faults: Faults) -> AbstractAsyncContextManager[ServerWorld]:
    """Everything is kept for a minute, attachments without a message for a second."""
    return server_world(
        folder,
        faults=faults,
        retention=KEPT,
        blobs=folder / "blobs",
        blob_grace_seconds=1.0,
        limits=CommitLimits(silent_stream_ms=30_000),
    )


def plan(mode: str) -> str:
    return ",".join(f"{site}:{mode}" for site in SITES if site.endswith(".after_commit"))


@pytest.mark.requirement("SV5")
@pytest.mark.parametrize(
    "faulty",
    [*(f"{site}:raise" for site in SITES), plan("lost_ack"), plan("duplicate")],
    ids=lambda it: it[:40],
)
async def test_care_and_upkeep_end_the_same_whatever_breaks_on_the_way(tmp_path: Path, faulty: str) -> None:
    faults = Faults(FaultSite, faulty)
    async with small_world(tmp_path, faults) as world:
        root, attached = await story(world)
        assert all(faults.reached[one.split(":")[0]] for one in faulty.split(","))
        await world.restart(faults=Faults.none())
        await check(world, root, attached)
        assert len([one for one in (tmp_path / "blobs").rglob("*") if one.is_file()]) == 1


def told_and_killed(folder: Path, site: str) -> None:
    """In a process of its own: the story, up to the site."""

    async def tell() -> None:
        async with small_world(folder, Faults(FaultSite, f"{site}:kill")) as world:
            await story(world)

    asyncio.run(tell())


@pytest.mark.sqlite
@pytest.mark.slow
@pytest.mark.requirement("SV5")
@pytest.mark.parametrize("site", SITES)
async def test_care_and_upkeep_end_the_same_after_kill_9(tmp_path: Path, site: FaultSite) -> None:
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload([__name__])  # a process then costs less than its story
    victim = processes.Process(target=told_and_killed, args=(tmp_path, str(site)))
    victim.start()
    await asyncio.to_thread(victim.join)
    assert victim.exitcode == -signal.SIGKILL
    async with small_world(tmp_path, Faults.none()) as world:
        root, attached = await story(world)
        await world.advance(10)
        await again(world.server.care.blobs.sweep)
        await check(world, root, attached)
        assert len([one for one in (tmp_path / "blobs").rglob("*") if one.is_file()]) == 1
