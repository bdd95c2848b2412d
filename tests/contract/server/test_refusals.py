"""What was refused to whom: noted, bounded, without a word of what was sent, for an administrator."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.contract.server.calls import Json, get, speak

from lineloop.server.http import refusals
from lineloop.server.settings import Rates
from lineloop.testing.server_world import ServerWorld, server_world

SECRET = "a-word-that-nobody-may-keep"


async def noted(world: ServerWorld) -> list[Json]:
    await world.advance(1)
    return (await get(world.http, "/refusals"))["items"]


async def lines(world: ServerWorld) -> set[tuple[str, str, str]]:
    return {(one["code"], one["action"], one["actor"]) for one in await noted(world)}


@pytest.mark.requirement("P30")
async def test_what_was_refused_to_whom_is_told_to_an_administrator_only(world: ServerWorld) -> None:
    root = await world.conversation()
    nosy, reader = await world.actor("operator/nosy"), await world.actor("operator/reader", ["read"])
    await get(nosy, f"/conversations/{root}", status=404)
    await speak(nosy, root, "k", SECRET, status=404)
    await speak(nosy, root, "k", SECRET, status=403, actor="user/local")
    await speak(reader, root, "k", SECRET, status=403)
    for client in (nosy, reader):
        refused = await client.get("/v1/refusals")
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert await lines(world) == {
        ("conversation_not_found", "get_conversation", "operator/nosy"),
        ("conversation_not_found", "speak", "operator/nosy"),
        ("forbidden", "speak", "operator/nosy"),
        ("forbidden", "speak", "operator/reader"),
        ("forbidden", "list_refusals", "operator/nosy"),
        ("forbidden", "list_refusals", "operator/reader"),
    }
    tokens = {one["id"] for one in (await get(world.http, "/tokens"))["items"]}
    assert {one["credential"] for one in await noted(world)} == tokens


@pytest.mark.requirement("P30")
async def test_strangers_foreign_names_and_rates_are_noted_by_address(tmp_path: Path) -> None:
    rates = Rates(token=1, stranger=2, burst_seconds=1)
    async with server_world(tmp_path, rates=rates) as world:
        stranger = world.client({"authorization": f"Bearer {SECRET}"})
        for _ in range(2):
            await get(stranger, "/conversations", status=401)
        await get(stranger, "/conversations", status=429)
        quick = await world.actor("operator/quick")
        await get(quick, "/conversations")
        await get(quick, "/conversations", status=429)
        await get(world.client({"host": f"{SECRET}.test"}), "/conversations", status=421)
        await get(world.client({"origin": f"http://{SECRET}.test"}), "/conversations", status=403)
        found = {(one["code"], one["action"], one["count"], one["peer"]) for one in await noted(world)}
        assert found == {
            ("unauthorized", "list_conversations", 2, "127.0.0.1"),
            ("rate_limited", "list_conversations", 1, "127.0.0.1"),
            ("rate_limited", "list_conversations", 1, ""),
            ("host_not_allowed", "none", 1, "127.0.0.1"),
            ("origin_not_allowed", "none", 1, "127.0.0.1"),
        }


@pytest.mark.requirement("P30")
async def test_items_of_a_link_are_noted(world: ServerWorld) -> None:
    root = await world.conversation()
    link = await world.link("operator/nosy")
    await link.receive()
    item = {"conversation_id": root, "text": SECRET}
    await link.send({"id": 1, "speak": [{**item, "key": "a"}, {**item, "key": "b"}]})
    await link.receive()
    (line,) = await noted(world)
    assert (line["code"], line["action"], line["count"]) == ("conversation_not_found", "link", 2)
    await link.close()


@pytest.mark.requirement("P30")
async def test_nothing_of_what_was_sent_is_kept(world: ServerWorld) -> None:
    root = await world.conversation()
    nosy = await world.actor("operator/nosy")
    stranger = world.client({"authorization": f"Bearer {SECRET}", "cookie": f"lineloop_user={SECRET}"})
    await speak(nosy, root, SECRET, SECRET, status=404)
    await get(nosy, f"/conversations/{SECRET}", status=404)
    await get(nosy, f"/messages/{SECRET}", status=404)
    await stranger.get(f"/v1/conversations/{SECRET}?after={SECRET}")
    assert SECRET not in str(await noted(world))


@pytest.mark.requirement("P30")
async def test_equal_refusals_are_one_line_and_the_oldest_lines_go(
    world: ServerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusals, "MAX_ROWS", 3)
    nosy = await world.actor("operator/nosy")
    for _ in range(20):
        await get(nosy, "/conversations/none", status=404)
    (line,) = await noted(world)
    assert line["count"] == 20
    await world.restart()
    for path in ("/messages/none", "/questions/none", "/harness/runs/none"):
        await get(nosy, path, status=404)
        await world.advance(1)
    found = await noted(world)
    assert [one["action"] for one in found] == ["get_run", "get_question", "get_message"]
    first = await get(world.http, "/refusals", limit=2)
    rest = await get(world.http, "/refusals", after=first["next"])
    assert [*first["items"], *rest["items"]] == found
    wrong = await world.http.get("/v1/refusals", params={"after": "x"})
    assert (wrong.status_code, wrong.json()["code"]) == (422, "invalid_request")


@pytest.mark.requirement("P30")
async def test_a_flood_of_different_refusals_holds_no_memory(
    world: ServerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusals, "MAX_WAITING", 2)
    for who in ("a", "b", "c", "d"):
        await get(await world.actor(f"operator/{who}"), "/conversations/none", status=404)
    found = {(one["actor"], one["count"]) for one in await noted(world)}
    assert found == {("operator/a", 1), ("operator/b", 1), ("", 2)}
