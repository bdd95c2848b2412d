"""Two servers on one PostgreSQL, written to at the same time: the orders, and what happens once only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

import httpx
import pytest
from tests.contract.server.calls import append_text, emit, end, get, open_stream, set_text, speak, wire
from tests.contract.wakeup.replicas import HOST, TOKEN, Pair, Replica, pair, replica

from lineloop.kit.database import Tx
from lineloop.kit.engines import open_database
from lineloop.protocol.errors import ConnectionLost
from lineloop.server.app import Server
from lineloop.server.settings import ServerSettings
from lineloop.testing.asgi_transport import AsgiTransport

WRITERS = 8
EACH = 12


@pytest.fixture
async def two(postgres_url: str) -> AsyncGenerator[Pair]:
    async with pair(postgres_url, sweep_seconds=0.3) as both:
        yield both


async def conversation(both: Pair) -> str:
    answer = await both.a.http.post("/v1/conversations", json={"name": "test"})
    return answer.json()["id"]


def sides(both: Pair) -> tuple[Replica, Replica]:
    return both.a, both.b


async def patiently(check: Callable[[], Awaitable[bool]]) -> None:
    """Until it is true; five seconds at most."""
    for _ in range(100):
        if await check():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("it never became true")


async def write_through(place: Replica, root: str, writer: int) -> None:
    """One-shot messages and streams by turns; a stream stays open while others are said."""
    for number in range(EACH):
        key = f"{writer}-{number}"
        if number % 3:
            await speak(place.http, root, key, key, actor=f"operator/w{writer}")
            continue
        message = await open_stream(place.http, root, key, actor=f"operator/w{writer}")
        await emit(place.http, message["id"], set_text(1, "a"))
        await asyncio.sleep(0)
        await end(place.http, message["id"], 2)


@pytest.mark.requirement("R1", "L133")
async def test_no_reader_misses_an_offset_while_two_servers_write(two: Pair, postgres_url: str) -> None:
    root = await conversation(two)
    await speak(two.a.http, root, "first", target="operator/reader")
    seen: list[int] = []
    done = asyncio.Event()

    async def poller() -> None:
        """Polls through both servers by turns, as a reader behind a balancer does."""
        position, turn = 0, 0
        while True:
            finished = done.is_set()
            client = sides(two)[turn % 2].http
            turn += 1
            body = {"actor": wire("operator/reader"), "after": position, "limit": 7}
            answer = await client.post(f"/v1/conversations/{root}/poll", json=body)
            assert answer.status_code == 200, answer.text
            offsets = [message["offset"] for message in answer.json()["messages"]]
            assert offsets == list(range(position + 1, position + 1 + len(offsets)))
            seen.extend(offsets)
            position += len(offsets)
            if finished and not offsets:
                return

    async def watcher() -> None:
        """What any snapshot of the database shows is without a hole up to the counter."""
        database = await open_database(postgres_url, clock=two.a.server.clock)

        def look(tx: Tx) -> None:
            rows = tx.all("SELECT offset_ FROM messages WHERE conversation_id = :id", {"id": root})
            counted = tx.one("SELECT last_offset FROM conversations WHERE id = :id", {"id": root})
            assert counted is not None
            assert {row[0] for row in rows} - {None} == set(range(1, counted[0] + 1))

        try:
            while not done.is_set():
                await database.read(look)
        finally:
            await database.close()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(poller())
        tasks.create_task(watcher())
        async with asyncio.TaskGroup() as writers:
            for writer in range(WRITERS):
                writers.create_task(write_through(sides(two)[writer % 2], root, writer))
        done.set()
    assert seen == list(range(1, WRITERS * EACH + 2))
    history = (await get(two.b.http, f"/conversations/{root}/messages", limit=200))["items"]
    assert [message["ordinal"] for message in history] == list(range(1, WRITERS * EACH + 2))


@pytest.mark.requirement("R2")
async def test_one_key_said_through_both_servers_at_once_is_one_message(two: Pair) -> None:
    root = await conversation(two)
    for number in range(10):
        body = {"key": f"k{number}", "text": "once"}
        answers = await asyncio.gather(
            *(
                place.http.post(f"/v1/conversations/{root}/messages", json=body)
                for place in (*sides(two), *sides(two))
            )
        )
        assert sorted(answer.status_code for answer in answers) == [200, 200, 200, 201]
        assert len({answer.json()["id"] for answer in answers}) == 1
    assert len((await get(two.a.http, f"/conversations/{root}/messages"))["items"]) == 10


@pytest.mark.requirement("R2")
async def test_one_patch_sent_through_both_servers_at_once_is_applied_once(two: Pair) -> None:
    root = await conversation(two)
    message = await open_stream(two.a.http, root)
    await emit(two.a.http, message["id"], set_text(1, ""))
    for seq in range(2, 12):
        patch = append_text(seq, f"{seq} ")
        await asyncio.gather(*(emit(place.http, message["id"], patch) for place in sides(two)))
    other = await two.b.http.post(
        f"/v1/messages/{message['id']}/patches", json={"patches": [append_text(11, "another")]}
    )
    assert (other.status_code, other.json()["code"]) == (409, "sequence_conflict")
    ends = await asyncio.gather(*(end(place.http, message["id"], 12) for place in sides(two)))
    assert ends[0] == ends[1]
    whole = await get(two.a.http, f"/messages/{message['id']}")
    assert whole["content"]["blocks"][0]["content"] == "".join(f"{seq} " for seq in range(2, 12))
    assert (whole["status"], whole["offset"]) == ("completed", 1)


@pytest.mark.requirement("R2")
async def test_two_patches_under_one_seq_through_two_servers_leave_one(two: Pair) -> None:
    root = await conversation(two)
    message = await open_stream(two.a.http, root)
    await emit(two.a.http, message["id"], set_text(1, ""))
    text = ""
    for seq in range(2, 22):
        answers = await asyncio.gather(
            *(
                place.http.post(
                    f"/v1/messages/{message['id']}/patches", json={"patches": [append_text(seq, word)]}
                )
                for place, word in zip(sides(two), ("a", "b"), strict=True)
            )
        )
        assert sorted(answer.status_code for answer in answers) == [202, 409]
        text += "a" if answers[0].status_code == 202 else "b"
        shown = await get(two.b.http, f"/messages/{message['id']}")
        assert shown["content"]["blocks"][0]["content"] == text


@pytest.mark.requirement("R3")
async def test_a_question_that_is_answered_through_both_servers_has_one_answer(two: Pair) -> None:
    root = await conversation(two)
    for number in range(5):
        asked = await two.a.http.post(
            f"/v1/conversations/{root}/questions",
            json={
                "kind": "ask",
                "effect_key": f"e{number}",
                "to": wire("user/local"),
                "text": "which?",
                "choices": [{"value": "a", "label": "A"}, {"value": "b", "label": "B"}],
                "timeout_ms": 60_000,
                "actor": wire("operator/asker"),
            },
        )
        question = asked.json()["id"]
        answers = await asyncio.gather(
            *(
                place.http.post(
                    f"/v1/questions/{question}/answer", json={"reply_to_id": question, "value": value}
                )
                for place, value in zip(sides(two), ("a", "b"), strict=True)
            )
        )
        assert sorted(answer.status_code for answer in answers) == [200, 409]
        won = next(answer.json() for answer in answers if answer.status_code == 200)
        assert (await get(two.b.http, f"/questions/{question}"))["value"] == won["question"]["value"]
        replies = await get(two.a.http, f"/conversations/{root}/messages", reply_to_id=question)
        assert len(replies["items"]) == 1


@pytest.mark.requirement("R3")
async def test_a_deadline_that_both_servers_watch_passes_once(two: Pair) -> None:
    root = await conversation(two)
    ids: list[str] = []
    for number in range(6):
        asked = await two.a.http.post(
            f"/v1/conversations/{root}/questions",
            json={
                "kind": "confirm",
                "effect_key": f"e{number}",
                "to": wire("user/local"),
                "text": "now?",
                "timeout_ms": 300,
                "actor": wire("operator/asker"),
            },
        )
        ids.append(asked.json()["id"])
    for question in ids:
        waited = await get(two.b.http, f"/questions/{question}", wait_ms=5000)
        assert waited["state"] == "timeout"
    # Asked, then closed, each once.
    messages = (await get(two.a.http, f"/conversations/{root}/messages"))["items"]
    assert [message["revision"] for message in messages] == [1] * 6


@pytest.mark.requirement("R4")
async def test_a_run_is_driven_by_one_of_two_servers_and_its_text_is_whole(two: Pair) -> None:
    root = await conversation(two)

    async def submit(place: Replica, number: int) -> str:
        body = {
            "conversation_id": root,
            "idempotency_key": f"r{number}",
            "effect_key": f"r{number}",
            "target": "demo",
            "text": f"/say {number}",
        }
        answers = await asyncio.gather(
            *(side.http.post("/v1/harness/runs", json=body) for side in (place, *sides(two)))
        )
        assert {answer.status_code for answer in answers} == {202}, [answer.text for answer in answers]
        (run,) = {answer.json()["id"] for answer in answers}
        return run

    runs = await asyncio.gather(*(submit(sides(two)[number % 2], number) for number in range(6)))

    async def succeeded(run: str) -> bool:
        phase = (await get(two.b.http, f"/harness/runs/{run}"))["phase"]
        assert phase in ("pending", "starting", "running", "succeeded")
        return phase == "succeeded"

    for run in runs:
        await patiently(lambda run=run: succeeded(run))
        ledger = (await get(two.a.http, f"/harness/runs/{run}/ledger", limit=200))["items"]
        assert [line["seq"] for line in ledger] == list(range(1, len(ledger) + 1))
        assert [line["type"] for line in ledger].count("ended") == 1
        assert [line["type"] for line in ledger].count("attempt") == 1


@pytest.mark.requirement("R5")
async def test_a_token_that_one_server_revokes_is_refused_by_the_other(two: Pair) -> None:
    made = (await two.a.http.post("/v1/tokens", json={"actor": wire("operator/x")})).json()
    headers = {"authorization": f"Bearer {made['token']}"}
    transport = AsgiTransport(two.b.server.asgi)
    async with httpx.AsyncClient(transport=transport, base_url=HOST, headers=headers) as client:
        assert (await client.get("/v1/conversations")).status_code == 200
        link = await two.b.server.open_link(made["token"])
        await link.receive()
        assert (await two.a.http.delete(f"/v1/tokens/{made['id']}")).status_code == 204

        async def refused() -> bool:
            return (await client.get("/v1/conversations")).status_code == 401

        await patiently(refused)
        with pytest.raises(ConnectionLost):
            while True:
                await link.receive()
    await transport.aclose()


@pytest.mark.requirement("R6")
async def test_servers_that_start_together_on_an_empty_database_all_come_up(postgres_url: str) -> None:
    servers = [Server(ServerSettings(postgres_url, admin_token=TOKEN)) for _ in range(3)]
    await asyncio.gather(*(server.start() for server in servers))
    try:
        assert len({server.services.epoch for server in servers}) == 1
    finally:
        for server in servers:
            await server.close()


@pytest.mark.requirement("R7")
async def test_process_conversations_and_participants_are_made_once(two: Pair) -> None:
    root = await conversation(two)
    await asyncio.gather(
        *(
            speak(place.http, root, f"{side}-{number}", target=f"operator/o{number % 4}")
            for number in range(16)
            for side, place in zip("ab", sides(two), strict=True)
        )
    )
    children = (await get(two.a.http, "/conversations", parent_id=root))["items"]
    assert sorted(child["owner"]["key"] for child in children) == ["o0", "o1", "o2", "o3"]


@pytest.mark.requirement("R7")
async def test_a_device_joins_every_conversation_however_they_are_made(two: Pair) -> None:
    """The first device of a person, and conversations that are made at that moment."""
    device = (await two.a.http.post("/v1/tokens", json={"actor": wire("runtime/phone")})).json()["token"]

    async def create(place: Replica) -> str:
        return (await place.http.post("/v1/conversations", json={})).json()["id"]

    async def connect() -> None:
        link = await two.b.server.open_link(device)
        await link.receive()
        await link.close()

    made, *_ = await asyncio.gather(
        asyncio.gather(*(create(sides(two)[number % 2]) for number in range(20))), connect()
    )
    for root in made:
        resource = await get(two.a.http, f"/conversations/{root}/resource")
        kinds = {one["kind"] for one in resource["spec"]["participants"]}
        assert "runtime" in kinds, root


@pytest.mark.requirement("R8")
async def test_a_message_through_a_server_that_stands_still_is_taken_over_by_nobody(
    postgres_url: str,
) -> None:
    """A third server may start, write and stop while two work: nothing of theirs is touched."""
    async with pair(postgres_url) as both:
        root = await conversation(both)
        message = await open_stream(both.a.http, root)
        async with replica(postgres_url) as third:
            await speak(third.http, root, "third")
        await emit(both.a.http, message["id"], set_text(1, "still mine"))
        await end(both.b.http, message["id"], 2)
        assert (await get(both.a.http, f"/messages/{message['id']}"))["offset"] == 2
