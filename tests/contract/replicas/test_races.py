"""Who comes first at the lock of a root conversation decides, whichever server asks: taking somebody out,
naming and archiving against what is said at the same moment.

A stranger holds the lock until both wait for it, and PostgreSQL serves those who wait in the order in which
they came. The servers' upkeep waits at the same lock and may be taken for one of them, so a race is run until
it went the way that the test is about; whichever way it went, it has to make sense.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import httpx
import psycopg
import pytest
from tests.contract.server.calls import get, speak, wire
from tests.contract.wakeup.replicas import Pair, pair

from lineloop.kit.postgres.transaction import lock_number

ECHO = "operator/echo"
# Of this database: other tests have theirs on the same server.
WAITING = """
  SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
RACES = 20
REGISTERED = "SELECT display_name FROM actors WHERE kind = 'operator' AND key = 'echo'"
Call = Callable[[], Awaitable[httpx.Response]]


@pytest.fixture
async def two(postgres_url: str) -> AsyncGenerator[Pair]:
    async with pair(postgres_url, sweep_seconds=5.0) as both:
        yield both


class Gate:
    """Holds the lock of a root conversation, lets calls come up to it, and lets them through."""

    def __init__(self, url: str, root: str) -> None:
        self._url, self._number = url, lock_number(root)

    async def through(self, *calls: Call) -> list[httpx.Response]:
        async with await psycopg.AsyncConnection.connect(self._url, autocommit=True) as connection:
            await connection.execute("SELECT pg_advisory_lock(%s)", (self._number,))
            running: list[asyncio.Task[httpx.Response]] = []
            for count, call in enumerate(calls, start=1):
                running.append(asyncio.ensure_future(call()))  # type: ignore[arg-type]
                await self._until_waiting(connection, count)
            await connection.execute("SELECT pg_advisory_unlock(%s)", (self._number,))
            return [await one for one in running]

    async def _until_waiting(self, connection: psycopg.AsyncConnection[Any], count: int) -> None:
        async with asyncio.timeout(5):
            while True:
                row = await (await connection.execute(WAITING)).fetchone()
                if row is not None and row[0] >= count:
                    return
                await asyncio.sleep(0.002)


async def new_root(two: Pair) -> str:
    """Both servers have seen echo speak: they remember that it takes part."""
    answer = await two.a.http.post("/v1/conversations", json={"name": "test"})
    root: str = answer.json()["id"]
    await speak(two.a.http, root, "first", target=ECHO)
    for place in (two.a, two.b):
        await speak(place.http, root, f"seen {id(place)}", actor=ECHO)
    return root


async def until_it_went(wanted: bool, race: Callable[[], Awaitable[bool]]) -> None:
    """Runs `race` in new conversations until it says that it went the wanted way."""
    for _ in range(RACES):
        if await race() is wanted:
            return
    raise AssertionError(f"never the wanted way in {RACES} races")


def told(place: Any, root: str, kind: str) -> Call:
    """Something of echo, through this server."""
    here = f"/v1/conversations/{root}"
    question = {"kind": "confirm", "effect_key": "q", "text": "Sure?", "timeout_ms": 60_000}
    paths: dict[str, tuple[str, dict[str, Any]]] = {
        "stream": (f"{here}/messages", {"key": "s", "stream": True, "actor": wire(ECHO)}),
        "message": (f"{here}/messages", {"key": "m", "text": "late", "actor": wire(ECHO)}),
        "question": (f"{here}/questions", {**question, "actor": wire(ECHO), "to": wire("user/local")}),
    }
    path, body = paths[kind]
    return lambda: place.http.post(path, json=body)


def taken_out(place: Any, root: str) -> Call:
    return lambda: place.http.delete(f"/v1/conversations/{root}/participants/{ECHO}")


async def was_removed_first(
    two: Pair, root: str, kind: str, said: httpx.Response, removed: httpx.Response
) -> bool:
    """Either it was refused and nothing of it is there, or it was said and is ended by the removal."""
    assert removed.status_code == 204
    stored = (await get(two.a.http, f"/conversations/{root}/messages", purpose="all"))["items"]
    assert {one["status"] for one in stored} <= {"completed", "failed"}
    if said.status_code == 403:
        assert (said.json()["code"], len(stored)) == ("not_participant", 3)
        return True
    assert (said.status_code, len(stored)) == (201, 4)
    if kind == "stream":
        assert stored[-1]["content"]["meta"]["error"]["code"] == "writer_gone"
    if kind == "question":
        question = await get(two.b.http, f"/questions/{said.json()['id']}")
        assert (question["state"], question["reason"]) == ("failure", "participant_removed")
    return False


@pytest.mark.requirement("SV6", "P22")
@pytest.mark.parametrize("removed_first", [True, False])
@pytest.mark.parametrize("kind", ["message", "stream", "question"])
async def test_a_removal_and_what_is_said_on_the_other_server_come_one_after_the_other(
    two: Pair, postgres_url: str, kind: str, removed_first: bool
) -> None:
    async def race() -> bool:
        root = await new_root(two)
        gate = Gate(postgres_url, root)
        if removed_first:
            removed, said = await gate.through(taken_out(two.a, root), told(two.b, root, kind))
        else:
            said, removed = await gate.through(told(two.b, root, kind), taken_out(two.a, root))
        return await was_removed_first(two, root, kind, said, removed)

    await until_it_went(removed_first, race)


@pytest.mark.requirement("SV6", "C3")
@pytest.mark.parametrize("archived_first", [True, False])
async def test_a_conversation_is_archived_exactly_when_that_came_last(
    two: Pair, postgres_url: str, archived_first: bool
) -> None:
    async def race() -> bool:
        root = await new_root(two)

        def archive() -> Awaitable[httpx.Response]:
            body = {"archived": True, "name": "renamed"}
            return two.a.http.patch(f"/v1/conversations/{root}", json=body)

        said = told(two.b, root, "message")
        calls: list[Call] = [archive, said] if archived_first else [said, archive]
        assert {one.status_code for one in await Gate(postgres_url, root).through(*calls)} == {200, 201}
        cards = [await get(place.http, f"/conversations/{root}") for place in (two.a, two.b)]
        assert cards[0]["archived_at"] == cards[1]["archived_at"]
        assert [(card["name"], card["last_ordinal"]) for card in cards] == [("renamed", 4)] * 2
        # What was said last brings an archived conversation back.
        return cards[0]["archived_at"] is None

    await until_it_went(archived_first, race)


@pytest.mark.requirement("L9", "L133")
async def test_servers_renew_one_registration_and_use_it_again_after_it_ran_out(
    two: Pair, postgres_url: str
) -> None:
    async def live() -> list[list[str]]:
        found = [await get(place.http, "/actors") for place in (two.a, two.b)]
        return [[f"{one['kind']}/{one['key']}" for one in answer["items"]] for answer in found]

    async def register(place: Any, name: str) -> httpx.Response:
        body = {"display_name": name, "lease_ms": 30_000}
        return await place.http.put(f"/v1/actors/{ECHO}", json=body)

    async def rows(change: str) -> list[Any]:
        async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as connection:
            await connection.execute(change.encode())
            return await (await connection.execute(REGISTERED)).fetchall()

    answers = await asyncio.gather(*(register(place, "Echo") for place in (two.a, two.b) for _ in range(4)))
    assert {one.status_code for one in answers} == {200}
    assert await live() == [[ECHO], [ECHO]]
    assert await rows("UPDATE actors SET lease_until = 0 WHERE kind = 'operator'") == [("Echo",)]
    assert await live() == [[], []]
    assert (await register(two.b, "Echo again")).status_code == 200
    assert await live() == [[ECHO], [ECHO]]
    assert await rows("SELECT 1") == [("Echo again",)]
