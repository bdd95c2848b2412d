"""Tokens, people with cookies, registered actors."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.contract.server.calls import get, speak, wire

from lineloop.protocol.errors import LoopError
from lineloop.server.settings import ServerSettings
from lineloop.testing.server_world import ServerWorld, server_world


async def test_a_token_acts_as_its_actor_and_as_that_operators_roles_only(world: ServerWorld) -> None:
    conversation = await world.conversation()
    await world.invite(conversation, "operator/echo")
    echo = await world.actor("operator/echo")
    assert (await speak(echo, conversation, "a"))["actor"] == wire("operator/echo")
    role = await speak(echo, conversation, "b", actor="operator/echo/helper/x")
    assert role["actor"] == wire("operator/echo/helper/x")
    for other in ("operator/other", "user/local", "operator/other/role/x"):
        assert (await speak(echo, conversation, "c", actor=other, status=403))["code"] == "forbidden"


async def test_a_pattern_token_names_its_actor_in_each_request(world: ServerWorld) -> None:
    conversation = await world.conversation()
    await world.invite(conversation, "operator/x")
    any_operator = await world.actor("operator/*")
    assert (await speak(any_operator, conversation, "a", status=422))["code"] == "invalid_request"
    assert (await speak(any_operator, conversation, "a", actor="operator/x"))["actor"] == wire("operator/x")
    assert (await speak(any_operator, conversation, "b", actor="user/x", status=403))["code"] == "forbidden"


async def test_verbs_limit_a_token(world: ServerWorld) -> None:
    conversation = await world.conversation()
    await world.invite(conversation, "operator/reader")
    reader = await world.actor("operator/reader", ["read"])
    await get(reader, f"/conversations/{conversation}")
    assert (await speak(reader, conversation, "a", status=403))["code"] == "forbidden"
    unknown = await world.http.post("/v1/tokens", json={"actor": wire("operator/x"), "verbs": ["fly"]})
    assert unknown.status_code == 422


async def store_verbs(world: ServerWorld, verbs: str) -> None:
    """Writes what no command would write."""
    await world.server.commits.write(lambda tx: tx.run("UPDATE tokens SET verbs = :verbs", {"verbs": verbs}))


async def test_a_token_without_verbs_is_refused_and_a_stored_one_allows_nothing(world: ServerWorld) -> None:
    body = {"actor": wire("operator/echo"), "verbs": []}
    refused = await world.http.post("/v1/tokens", json=body)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")
    for stored in ("", "read,nothing", "?"):
        token = await world.token("operator/echo")
        await store_verbs(world, stored)
        client = world.client({"authorization": f"Bearer {token}"})
        listed = await client.get("/v1/conversations")
        assert listed.status_code == (200 if stored.startswith("read") else 403), stored
        assert (await client.post("/v1/conversations", json={})).json()["code"] == "forbidden"
        with pytest.raises(LoopError) as none:
            await world.server.open_link(token)
        assert none.value.code == "forbidden"
    await get(world.http, "/tokens")


@pytest.mark.requirement("P26")
@pytest.mark.parametrize(
    "stored", ["", "nobody", "/", "user/", "a//b/c", "x" * 300 + "/y", "operator/e\ncho"]
)
async def test_a_stored_token_that_names_nobody_allows_nothing_and_breaks_nothing(
    world: ServerWorld, stored: str
) -> None:
    token, kept = await world.token("operator/echo"), await world.token("operator/kept")
    pattern = "UPDATE tokens SET actor_pattern = :to WHERE actor_pattern = 'operator/echo'"
    await world.server.commits.write(lambda tx: tx.run(pattern, {"to": stored}))
    broken = world.client({"authorization": f"Bearer {token}"})
    assert (await get(broken, "/conversations", status=401))["code"] == "unauthorized"
    with pytest.raises(LoopError) as refused:
        await world.server.open_link(token)
    assert refused.value.code == "unauthorized"
    lines = (await get(world.http, "/tokens"))["items"]
    assert [line["actor"] for line in lines] == [None, wire("operator/kept")]
    await get(world.client({"authorization": f"Bearer {kept}"}), "/conversations")
    assert (await world.http.delete(f"/v1/tokens/{lines[0]['id']}")).status_code == 204


async def test_only_an_admin_makes_lists_and_revokes_tokens(world: ServerWorld) -> None:
    echo = await world.actor("operator/echo")
    refused = await echo.post("/v1/tokens", json={"actor": wire("operator/x")})
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    (line,) = (await get(world.http, "/tokens"))["items"]
    assert line["actor"] == wire("operator/echo")
    assert "token" not in line
    assert (await world.http.delete(f"/v1/tokens/{line['id']}")).status_code == 204
    assert (await get(echo, "/conversations", status=401))["code"] == "unauthorized"
    assert (await get(world.http, "/tokens"))["items"] == []
    assert (await world.http.delete(f"/v1/tokens/{line['id']}")).status_code == 404


@pytest.mark.sqlite
async def test_tokens_are_stored_as_digests_only(world: ServerWorld, tmp_path: Path) -> None:
    token = await world.token("operator/echo")
    await world.server.close()
    stored = await asyncio.to_thread((tmp_path / "server.db").read_bytes)
    assert token.encode() not in stored
    await world.restart()
    assert (await get(world.client({"authorization": f"Bearer {token}"}), "/conversations"))["items"] == []


async def test_a_stranger_becomes_a_person_only_where_sessions_are_open(world: ServerWorld) -> None:
    refused = await world.client().get("/v1/session")
    assert (refused.status_code, refused.json()["code"]) == (401, "unauthorized")


async def test_a_cookie_reads_but_writes_need_the_header_secret_too(tmp_path: Path) -> None:
    settings = ServerSettings(tmp_path / "server.db", open_sessions=True)
    async with server_world(tmp_path, settings=settings) as world:
        browser = world.client()
        session = (await browser.get("/v1/session")).json()
        assert session["user"]["kind"] == "user"
        assert (await browser.get("/v1/session")).json() == {"user": session["user"], "secret": None}
        refused = await browser.post("/v1/conversations", json={})
        assert (refused.status_code, refused.json()["code"]) == (401, "unauthorized")
        secret = {"x-lineloop-secret": session["secret"]}
        made = await browser.post("/v1/conversations", json={}, headers=secret)
        assert (made.status_code, made.json()["owner"]) == (201, session["user"])
        stranger = world.client()
        await stranger.get("/v1/session")
        assert (await get(stranger, "/conversations"))["items"] == []
        assert len((await get(browser, "/conversations"))["items"]) == 1


@pytest.mark.requirement("L12")
async def test_the_public_key_of_a_person_is_no_credential(tmp_path: Path) -> None:
    settings = ServerSettings(tmp_path / "server.db", open_sessions=True)
    async with server_world(tmp_path, settings=settings) as world:
        browser = world.client()
        user = (await browser.get("/v1/session")).json()["user"]
        cookie = browser.cookies["lineloop_user"]
        assert cookie != user["key"]
        same = world.client({"cookie": f"lineloop_user={cookie}"})
        assert (await same.get("/v1/session")).json()["user"] == user
        forger = world.client({"cookie": f"lineloop_user={user['key']}"})
        assert (await get(forger, "/conversations", status=401))["code"] == "unauthorized"


@pytest.mark.requirement("L13")
async def test_a_trusted_identity_counts_whatever_the_body_says(tmp_path: Path) -> None:
    settings = ServerSettings(tmp_path / "server.db", trusted_user_header="x-auth-user")
    async with server_world(tmp_path, settings=settings) as world:
        ann = world.client({"x-auth-user": "ann"})
        conversation = (await ann.post("/v1/conversations", json={})).json()["id"]
        assert (await speak(ann, conversation, "a"))["actor"] == wire("user/ann")
        assert (await speak(ann, conversation, "b", actor="user/bob", status=403))["code"] == "forbidden"


@pytest.mark.requirement("L8", "L9")
async def test_registered_actors_are_listed_while_their_lease_lasts(world: ServerWorld) -> None:
    async def live() -> list[str]:
        return [f"{one['kind']}/{one['key']}" for one in (await get(world.http, "/actors"))["items"]]

    echo = await world.actor("operator/echo")
    body = {"display_name": "Echo", "lease_ms": 30_000}
    for _ in range(2):
        assert (await echo.put("/v1/actors/operator/echo", json=body)).status_code == 200
    harness = await world.http.put("/v1/actors/harness/local", json={**body, "lease_ms": 1_000})
    assert harness.status_code == 200
    assert await live() == ["harness/local", "operator/echo"]
    await world.advance(2)
    assert await live() == ["operator/echo"]
    await world.restart()
    assert await live() == ["operator/echo"]
    await world.advance(30)
    assert await live() == []
    refused = await echo.put("/v1/actors/operator/other", json=body)
    assert refused.status_code == 403
    role = await echo.put("/v1/actors/operator%2Fecho%2Fhelper/x", json=body)
    assert (role.status_code, role.json()["kind"]) == (200, "operator/echo/helper")
