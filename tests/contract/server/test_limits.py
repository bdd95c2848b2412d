"""How much one credential may ask for: requests a second, by token, person and address."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest
from tests.contract.server.calls import get, speak

from lineloop.server.settings import Rates
from lineloop.testing.server_world import server_world

SLOW = Rates(token=2, person=1, stranger=1, burst_seconds=3)


def assert_limited(answer: httpx.Response, maximum: float) -> None:
    assert (answer.status_code, answer.json()["code"]) == (429, "rate_limited")
    context = answer.json()["context"]
    assert (context["limit"], context["max"]) == ("requests_per_second", maximum)
    assert int(answer.headers["retry-after"]) == -(-context["retry_after_ms"] // 1000)
    assert answer.json()["retryable"]


@pytest.mark.requirement("P27")
async def test_a_token_that_asks_too_often_waits_and_others_do_not(tmp_path: Path) -> None:
    async with server_world(tmp_path, rates=SLOW) as world:
        quick, other = await world.actor("operator/quick"), await world.actor("operator/other")
        for _ in range(6):
            await get(quick, "/conversations")
        assert_limited(await quick.get("/v1/conversations"), 2)
        assert_limited(await quick.post("/v1/conversations", json={}), 2)
        assert_limited(await quick.post("/v1/conversations/none/messages", json={"key": "k", "text": "x"}), 2)
        await get(other, "/conversations")
        for _ in range(20):
            await get(world.http, "/conversations")
        assert (await get(world.http, "/conversations"))["items"] == []
        await world.advance(1)
        for _ in range(2):
            await get(quick, "/conversations")
        assert_limited(await quick.get("/v1/conversations"), 2)


@pytest.mark.requirement("P27")
async def test_a_person_has_one_measure_whichever_way_they_come(tmp_path: Path) -> None:
    async with server_world(tmp_path, rates=SLOW, trusted_user_header="x-auth-user") as world:
        ann, again, bob = (world.client({"x-auth-user": who}) for who in ("ann", "ann", "bob"))
        for client in (ann, again, ann):
            await get(client, "/conversations")
        for client in (ann, again):
            assert_limited(await client.get("/v1/conversations"), 1)
        await get(bob, "/conversations")


@pytest.mark.requirement("P27")
async def test_who_has_no_credential_is_told_so_only_so_often(tmp_path: Path) -> None:
    async with server_world(tmp_path, rates=SLOW) as world:
        guess = world.client({"authorization": "Bearer guess"})
        for _ in range(3):
            await get(guess, "/conversations", status=401)
        assert_limited(await guess.get("/v1/conversations"), 1)
        assert_limited(await world.client().get("/v1/conversations"), 1)
        # Who has one comes from the same address and is not held up.
        await get(await world.actor("operator/echo"), "/conversations")
        await get(guess, "/../healthz")


@pytest.mark.requirement("P27")
async def test_a_link_that_is_too_quick_is_heard_later_and_loses_nothing(tmp_path: Path) -> None:
    async with server_world(tmp_path, rates=SLOW) as world:
        root = await world.conversation()
        await world.invite(root, "operator/quick")
        link = await world.link("operator/quick")
        await link.receive()

        async def write() -> None:
            for frame in range(4):
                items = [
                    {"conversation_id": root, "key": f"{frame}.{item}", "text": "x"} for item in range(3)
                ]
                await link.send({"id": frame, "speak": items})

        writing = asyncio.ensure_future(write())
        await world.advance(0.5)
        assert not writing.done()
        await world.advance(10)
        await writing
        said = (await get(world.http, f"/conversations/{root}/messages"))["items"]
        assert [one["key"] for one in said] == [f"{frame}.{item}" for frame in range(4) for item in range(3)]
        await link.close()


@pytest.mark.requirement("P27")
async def test_without_a_limit_nothing_is_counted(tmp_path: Path) -> None:
    none = Rates(token=None, person=None, stranger=None)
    async with server_world(tmp_path, rates=none) as world:
        root = await world.conversation()
        await world.invite(root, "operator/quick")
        quick, stranger = await world.actor("operator/quick"), world.client()
        for number in range(50):
            await speak(quick, root, f"{number}")
            await get(stranger, "/conversations", status=401)
