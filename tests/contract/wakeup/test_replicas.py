"""Several servers on one database: what one of them accepted reaches who is connected to another.

With a relay and without sweeps, so that only the hints can have told of it; and without a relay, when only
the sweeps can.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.contract.server.calls import (
    append_text,
    emit,
    end,
    get,
    history,
    open_stream,
    set_text,
    speak,
    text_of,
)
from tests.contract.server.stream_reader import Reader, viewer
from tests.contract.wakeup.replicas import Pair, pair
from tests.services.redis import RedisProcess

from lineloop.server.http import questions
from lineloop.server.wakeup.relay import Relay
from lineloop.testing import until

NEVER = 3600.0


WAYS = ("hints", "sweeps")
CARRIERS = ("sqlite redis", "postgres redis", "postgres notify")


@pytest.fixture(params=[f"{carrier} {way}" for carrier in CARRIERS for way in WAYS])
async def two(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[Pair]:
    """By hints without any sweep, or by sweeps while every hint is lost."""
    engine, carrier, way = request.param.split()
    database = request.getfixturevalue("postgres_url") if engine == "postgres" else tmp_path / "server.db"
    settings: dict[str, Any] = {"sweep_seconds": 0.5}
    if carrier == "redis":
        redis: RedisProcess = request.getfixturevalue("redis")
        settings["redis_url"] = redis.url
    if way == "hints":
        settings["sweep_seconds"] = NEVER
        monkeypatch.setattr(questions, "RECHECK_SECONDS", NEVER)
    else:
        monkeypatch.setattr(Relay, "send", lambda *_: None)
    async with pair(database, **settings) as both:
        yield both


async def conversation(both: Pair) -> str:
    answer = await both.a.http.post("/v1/conversations", json={"name": "test"})
    return answer.json()["id"]


async def caught_up(reader: Reader) -> None:
    """The second ping says that everything that there was has been sent."""
    await reader.until("ping")
    await reader.until("ping")


@pytest.mark.requirement("L133", "L134")
async def test_a_viewer_of_one_server_sees_what_is_written_through_another(two: Pair) -> None:
    root = await conversation(two)
    async with viewer(two.b.http, root) as reader:
        await caught_up(reader)
        message = await open_stream(two.a.http, root)
        await emit(two.a.http, message["id"], set_text(1, ""))
        for seq in range(2, 42):
            await emit(two.a.http, message["id"], append_text(seq, f"{seq} "))
        spoken = await speak(two.a.http, root, "one", "hello")
        await end(two.a.http, message["id"], 42)
        while len(reader.messages) < 2 or reader.messages[message["id"]]["status"] == "streaming":
            await reader.next()
        assert reader.messages[spoken["id"]] == spoken
        whole = await get(two.a.http, f"/messages/{message['id']}")
        assert reader.messages[message["id"]]["content"] == whole["content"]
        assert reader.ids == sorted(reader.ids)


@pytest.mark.requirement("L133")
async def test_a_stream_is_continued_through_any_server(two: Pair) -> None:
    root = await conversation(two)
    message = await open_stream(two.a.http, root)
    async with viewer(two.b.http, root) as there, viewer(two.a.http, root) as here:
        await emit(two.a.http, message["id"], set_text(1, "a"))
        await emit(two.b.http, message["id"], append_text(2, "b"))
        await emit(two.a.http, message["id"], append_text(3, "c"))
        await emit(two.b.http, message["id"], append_text(3, "c"))
        await end(two.b.http, message["id"], 4)
        for reader in (here, there):
            while reader.messages.get(message["id"], {}).get("status") != "completed":
                await reader.next()
            assert text_of(reader.messages[message["id"]]) == "abc"


async def test_viewers_of_both_servers_see_everything_that_many_write_through_both_at_once(two: Pair) -> None:
    root = await conversation(two)

    async def speaks(client: httpx.AsyncClient, name: str) -> None:
        for number in range(15):
            await speak(client, root, f"{name}-{number}", name)

    async def streams(client: httpx.AsyncClient, other: httpx.AsyncClient, name: str) -> None:
        message = await open_stream(client, root, name)
        await emit(client, message["id"], set_text(1, ""))
        for seq in range(2, 22):
            await emit(other if seq % 5 == 0 else client, message["id"], append_text(seq, f"{seq} "))
        await end(other, message["id"], 22)

    a, b = two.a.http, two.b.http
    async with viewer(a, root) as here, viewer(b, root) as there:
        await caught_up(here)
        await caught_up(there)
        async with asyncio.TaskGroup() as group:
            for name, client, other in (("a", a, b), ("b", b, a)):
                group.create_task(speaks(client, f"{name}1"))
                group.create_task(speaks(client, f"{name}2"))
                group.create_task(streams(client, other, f"stream-{name}"))
        stored = {one["id"]: one for one in await history(a, root, limit=200)}
        assert len(stored) == 62
        for reader in (here, there):
            while len(reader.messages) < 62 or any(
                m["status"] == "streaming" for m in reader.messages.values()
            ):
                await reader.next()
            assert reader.messages == stored
            assert reader.ids == sorted(reader.ids)


async def test_a_link_to_one_server_is_pushed_what_is_spoken_through_another(two: Pair) -> None:
    root = await conversation(two)
    await speak(two.a.http, root, "first", "0", target="operator/echo")
    link = await two.b.link("operator/echo")
    for number in range(1, 10):
        await speak(two.a.http, root, f"k{number}", str(number), target="operator/echo")
    got: list[str] = []
    async with asyncio.timeout(5):
        while len(got) < 10:
            got += [text_of(message) for message in (await link.receive()).get("deliver", ())]
    assert got == [str(number) for number in range(10)]
    await link.close()


async def test_who_waits_at_one_server_hears_of_an_answer_given_through_another(two: Pair) -> None:
    root = await conversation(two)
    body = {
        "kind": "confirm",
        "effect_key": "q",
        "to": {"kind": "user", "key": "local"},
        "text": "Sure?",
        "timeout_ms": 60_000,
    }
    asked = (await two.a.http.post(f"/v1/conversations/{root}/questions", json=body)).json()
    path = f"/v1/questions/{asked['id']}"
    waiting = asyncio.ensure_future(two.b.http.get(path, params={"wait_ms": 20_000}))
    assert (await get(two.b.http, f"/questions/{asked['id']}"))["state"] == "pending"
    answer = {"reply_to_id": asked["id"], "value": "accepted"}
    given = await two.a.http.post(f"{path}/answer", json=answer)
    assert given.status_code == 200, given.text
    async with asyncio.timeout(3):
        assert (await waiting).json()["state"] == "success"


@pytest.mark.requirement("L129")
async def test_a_redis_that_dies_and_is_emptied_while_a_message_streams_costs_latency_only(
    redis: RedisProcess, tmp_path: Path
) -> None:
    async with pair(tmp_path / "server.db", redis_url=redis.url, sweep_seconds=0.3) as two:
        root = await conversation(two)
        relay = two.b.server.replicas.relay
        assert relay is not None
        async with viewer(two.b.http, root) as reader:
            await caught_up(reader)
            message = await open_stream(two.a.http, root)
            await emit(two.a.http, message["id"], set_text(1, ""))
            seq = 1
            slowest = 0.0
            for harm in (lambda: redis.command("FLUSHALL"), redis.kill, redis.start, redis.kill, redis.start):
                harm()
                for _ in range(30):
                    seq += 1
                    begun = asyncio.get_running_loop().time()
                    await emit(two.a.http, message["id"], append_text(seq, f"{seq} "))
                    slowest = max(slowest, asyncio.get_running_loop().time() - begun)
            await end(two.a.http, message["id"], seq + 1)
            while reader.messages.get(message["id"], {}).get("status") != "completed":
                await reader.next()
            assert text_of(reader.messages[message["id"]]) == "".join(f"{n} " for n in range(2, seq + 1))
            assert slowest < 1.0
            assert reader.ids == sorted(reader.ids)
            await until(lambda: relay.figures.connected, 10)


@pytest.mark.requirement("L131")
async def test_a_redis_that_hangs_holds_up_no_request_and_is_seen_in_readyz(
    redis: RedisProcess, tmp_path: Path
) -> None:
    async with pair(tmp_path / "server.db", redis_url=redis.url, sweep_seconds=0.3) as two:
        root = await conversation(two)
        async with viewer(two.b.http, root) as reader:
            await caught_up(reader)
            redis.stop_time()
            begun = asyncio.get_running_loop().time()
            for number in range(100):
                await speak(two.a.http, root, f"k{number}", "hello")
            assert asyncio.get_running_loop().time() - begun < 2.0
            while len(reader.messages) < 100:
                await reader.next()
            begun = asyncio.get_running_loop().time()
            async with viewer(two.a.http, root) as late:
                await caught_up(late)
                assert len(late.messages) == 100
            assert asyncio.get_running_loop().time() - begun < 1.0
            await until(lambda: not two.a.server.bus.hears_root(root))

            async def is_seen() -> bool:
                ready = await two.a.http.get("/readyz")
                assert ready.status_code == 200
                return ready.json()["relay"] == {"name": "redis", "connected": False}

            await until(is_seen)
            redis.go_on()
            await until(lambda: two.a.server.replicas.relay.figures.connected, 10)  # pyright: ignore


@pytest.mark.requirement("P21")
async def test_who_is_taken_out_through_one_server_loses_everything_on_the_other(two: Pair) -> None:
    root = await conversation(two)
    place = f"/v1/conversations/{root}/participants"
    echo = {"kind": "operator", "key": "echo"}
    assert (await two.a.http.post(place, json=echo)).status_code == 201
    made = (await two.a.http.post("/v1/tokens", json={"actor": echo})).json()["token"]
    with_token = {"authorization": f"Bearer {made}"}
    question = {"kind": "confirm", "text": "?", "timeout_ms": 600_000, "effect_key": "q"}
    to = {"to": {"kind": "user", "key": "local"}}
    asked = await two.a.http.post(f"/v1/conversations/{root}/questions", json={**question, **to})
    link = await two.b.link("operator/echo")
    async with asyncio.TaskGroup() as group, viewer(two.b.http, root, **with_token) as reader:
        await caught_up(reader)
        path = f"/v1/questions/{asked.json()['id']}?wait_ms=60000"
        waiting = group.create_task(two.b.http.get(path, headers=with_token))
        assert (await speak(two.b.http, root, "before", "hi"))["id"]
        assert (await two.a.http.delete(f"{place}/operator/echo")).status_code == 204
        with pytest.raises(StopAsyncIteration):
            while True:
                await reader.next()
        refused = await two.b.http.get(f"/v1/conversations/{root}", headers=with_token)
        assert refused.status_code == 404
        # What B remembers of who takes part is older than that.
        body = {"key": "after", "text": "hi"}
        place = f"/v1/conversations/{root}/messages"
        refused = await two.b.http.post(place, json=body, headers=with_token)
        assert refused.status_code == 404
        assert (await waiting).json()["code"] == "question_not_found"
    await link.close()
