"""People whom an administrator makes: an invitation, a browser, and the end of both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.contract.server.calls import get, speak, wire
from tests.contract.server.stream_reader import viewer

from lineloop.server.commit import people as commit_people
from lineloop.testing.server_world import ServerWorld, server_world


async def invited(world: ServerWorld, key: str | None = None, status: int = 201) -> dict[str, Any]:
    answer = await world.http.post("/v1/users", json={} if key is None else {"key": key})
    assert answer.status_code == status, answer.text
    assert answer.headers["cache-control"] == "no-store"
    return answer.json()


async def signed_in(world: ServerWorld, code: str) -> httpx.AsyncClient:
    """A browser of its own that was let in with the code, sending the secret with every request."""
    browser = world.client()
    answer = await browser.post("/v1/session", json={"code": code})
    assert answer.status_code == 200, answer.text
    browser.headers["x-lineloop-secret"] = answer.json()["secret"]
    return browser


async def refused(browser: httpx.AsyncClient, **body: Any) -> str:
    answer = await browser.post("/v1/session", json=body)
    assert answer.status_code >= 400
    assert "set-cookie" not in answer.headers
    return answer.json()["code"]


@pytest.mark.requirement("P29")
async def test_an_invitation_lets_one_person_in_once(world: ServerWorld) -> None:
    made = await invited(world, "ann")
    assert (made["key"], made["signed_in"]) == ("ann", False)
    browser = await signed_in(world, made["code"])
    assert await get(browser, "/session") == {"user": wire("user/ann"), "secret": None}
    root = (await browser.post("/v1/conversations", json={})).json()
    assert root["owner"] == wire("user/ann")
    assert await refused(world.client(), code=made["code"]) == "unauthorized"
    lines = {one["key"]: one for one in (await get(world.http, "/users"))["items"]}
    assert (lines["ann"]["signed_in"], lines["ann"]["invited_until"]) == (True, None)
    assert "code" not in str(lines)
    page = await get(world.http, "/users", limit=1)
    assert [one["key"] for one in page["items"]] == ["ann"]
    assert [one["key"] for one in (await get(world.http, "/users", after=page["next"]))["items"]] == ["local"]


@pytest.mark.requirement("P29")
async def test_an_invitation_ends_with_its_time_and_with_the_next_one(
    world: ServerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert commit_people.INVITATION_MS == 24 * 3600 * 1000
    monkeypatch.setattr(commit_people, "INVITATION_MS", 10_000)
    first = (await invited(world, "ann"))["code"]
    second = (await invited(world, "ann", 200))["code"]
    assert await refused(world.client(), code=first) == "unauthorized"
    await world.advance(10)
    assert await refused(world.client(), code=second) == "unauthorized"
    third = (await invited(world, "ann", 200))["code"]
    await world.restart()
    await world.advance(9)
    await signed_in(world, third)


@pytest.mark.requirement("P29")
async def test_another_browser_takes_the_place_of_the_first(world: ServerWorld) -> None:
    first = await signed_in(world, (await invited(world, "ann"))["code"])
    root = (await first.post("/v1/conversations", json={})).json()["id"]
    again = await invited(world, "ann", 200)
    await get(first, "/session")
    async with viewer(first, root) as reader:
        await reader.until("ping")
        second = await signed_in(world, again["code"])
        with pytest.raises(StopAsyncIteration):
            while True:
                await reader.next()
    assert (await get(first, "/session", status=401))["code"] == "unauthorized"
    assert [one["id"] for one in (await get(second, "/conversations"))["items"]] == [root]


@pytest.mark.requirement("P29")
async def test_a_removed_person_has_no_way_in_and_what_they_said_stays(world: ServerWorld) -> None:
    ann = await signed_in(world, (await invited(world, "ann"))["code"])
    root = (await ann.post("/v1/conversations", json={})).json()["id"]
    await speak(ann, root, "hello")
    token = await world.actor("user/ann")
    waiting = await invited(world, "ann", 200)
    async with viewer(ann, root) as reader, viewer(token, root) as other:
        await reader.until("ping")
        await other.until("ping")
        assert (await world.http.delete("/v1/users/ann")).status_code == 204
        for one in (reader, other):
            with pytest.raises(StopAsyncIteration):
                while True:
                    await one.next()
    for client in (ann, token):
        assert (await get(client, "/conversations", status=401))["code"] == "unauthorized"
    assert await refused(world.client(), code=waiting["code"]) == "unauthorized"
    assert [one["key"] for one in (await get(world.http, "/users"))["items"]] == ["local"]
    missing = await world.http.delete("/v1/users/ann")
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
    back = await signed_in(world, (await invited(world, "ann", 200))["code"])
    assert [one["id"] for one in (await get(back, "/conversations"))["items"]] == [root]


@pytest.mark.requirement("P29")
async def test_a_removed_person_is_not_let_in_by_the_hosts_proxy_either(tmp_path: Path) -> None:
    async with server_world(tmp_path, trusted_user_header="x-auth-user") as world:
        ann, nobody, two = (
            world.client([("x-auth-user", name) for name in names])  # pyright: ignore[reportArgumentType]
            for names in (("ann",), ("*",), ("ann", "bob"))
        )
        await get(ann, "/conversations")
        for client in (nobody, two):
            assert (await get(client, "/conversations", status=401))["code"] == "unauthorized"
        code = (await invited(world, "ann"))["code"]
        assert await refused(world.client(), code=code) == "forbidden"
        assert (await world.http.delete("/v1/users/ann")).status_code == 204
        assert (await get(ann, "/conversations", status=401))["code"] == "unauthorized"


@pytest.mark.requirement("P29")
async def test_only_an_administrator_makes_lists_and_removes_people(world: ServerWorld) -> None:
    for who in ("user/local", "operator/echo"):
        client = await world.actor(who)
        for answer in (
            await client.post("/v1/users", json={"key": "eve"}),
            await client.get("/v1/users"),
            await client.delete("/v1/users/local"),
        ):
            assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert [one["key"] for one in (await get(world.http, "/users"))["items"]] == ["local"]


@pytest.mark.requirement("P29")
@pytest.mark.parametrize("key", ["", "a/b", "x" * 129, "a\u0000b", "*", "a*", 7, ["a"], "local"])
async def test_a_person_who_cannot_be_is_refused_and_nobody_is_made(world: ServerWorld, key: object) -> None:
    answer = await world.http.post("/v1/users", json={"key": key})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert (await world.http.delete("/v1/users/local")).status_code == 422
    for body in ({}, {"code": ""}, {"code": 7}, {"code": "x", "user": "ann"}, {"code": "x" * 257}):
        assert await refused(world.client(), **body) in ("invalid_request", "unknown_field")
    assert await refused(world.client(), code="lli_guess") == "unauthorized"
    assert [one["key"] for one in (await get(world.http, "/users"))["items"]] == ["local"]
