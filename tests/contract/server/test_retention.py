"""What is kept for how long, and what is never removed."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.contract.server.calls import Json, commit, get, history, open_stream, poll, speak, texts

from lineloop.kit.database import Tx
from lineloop.server.settings import Retention
from lineloop.testing.server_world import ServerWorld, server_world

MINUTE = 1 / (24 * 60)


@pytest.fixture
async def short(tmp_path: Path) -> AsyncGenerator[ServerWorld]:
    """Everything is kept for a minute."""
    kept = Retention(messages=MINUTE, envelopes=MINUTE, runs=MINUTE, ledger=MINUTE)
    async with server_world(tmp_path, retention=kept, blob_grace_seconds=1.0) as world:
        yield world


async def later(world: ServerWorld) -> int:
    await world.advance(61)
    return await world.server.care.retention.sweep()


async def kept(world: ServerWorld, conversation: str) -> list[str]:
    return [one["key"] for one in await history(world.http, conversation, purpose="all", limit=100)]


def envelope(type_: str, call: str | None = None, **payload: Any) -> Json:
    carried: Json = {"type": type_, "payload": payload}
    if call is not None:
        carried["correlation"] = {"call_id": call}
    block = {"id": "envelope", "type": "envelope", "envelope": carried}
    return {"version": "1.1", "biz": "chat", "meta": {}, "blocks": [block]}


@pytest.mark.requirement("C15")
async def test_nothing_goes_unless_somebody_says_so(world: ServerWorld) -> None:
    conversation = await world.conversation()
    await speak(world.http, conversation, "a")
    await world.advance(120)
    assert await world.server.care.retention.sweep() == 0
    assert await kept(world, conversation) == ["a"]


@pytest.mark.requirement("C15")
async def test_what_is_old_goes_with_its_words_and_attachments(short: ServerWorld) -> None:
    conversation = await short.conversation("stays")
    blob = (await short.http.post("/v1/blobs", content=b"bytes")).json()
    block = {"id": "file", "type": "attachment", "name": "a.bin", **blob}
    content = {"version": "1.1", "biz": "chat", "meta": {}, "blocks": [block]}
    await speak(short.http, conversation, "file", content=content)
    for number in range(45):
        await speak(short.http, conversation, f"k{number}", "needle")
    await short.advance(40)
    await speak(short.http, conversation, "new", "a new needle")
    await short.advance(30)
    await short.server.care.retention.sweep()
    assert await kept(short, conversation) == ["new"]
    assert len((await get(short.http, "/messages/search", q="needle"))["items"]) == 1
    await short.server.care.blobs.sweep()
    assert (await short.http.get(f"/v1/blobs/{blob['hash']}")).status_code == 404
    said = await speak(short.http, conversation, "next")
    assert said["ordinal"] == 48
    assert (await get(short.http, f"/conversations/{conversation}"))["name"] == "stays"


@pytest.mark.requirement("C16")
async def test_what_an_inbox_has_not_committed_stays(short: ServerWorld) -> None:
    conversation = await short.conversation()
    echo = await short.actor("operator/echo")
    await speak(short.http, conversation, "a", target="operator/echo")
    await speak(short.http, conversation, "b", target="operator/echo")
    inbox = await poll(echo, conversation, limit=1)
    await commit(echo, conversation, inbox["position"])
    await later(short)
    assert await kept(short, conversation) == ["b"]
    inbox = await poll(echo, conversation)
    assert texts(inbox["messages"]) == ["hi"]
    await commit(echo, conversation, inbox["position"])
    await short.server.care.retention.sweep()
    assert await kept(short, conversation) == []


@pytest.mark.requirement("C16")
async def test_open_streams_and_questions_and_what_they_answer_stay(short: ServerWorld) -> None:
    conversation = await short.conversation()
    echo = await short.actor("operator/echo")
    asked = await speak(short.http, conversation, "a", target="user/local")
    wanted = await speak(short.http, conversation, "b", target="user/local")
    await speak(short.http, conversation, "c", target="user/local")
    await short.invite(conversation, "operator/echo")
    await open_stream(echo, conversation, "s", reply_to_id=asked["id"])
    body: Json = {
        "kind": "confirm",
        "effect_key": "e",
        "to": {"kind": "user", "key": "local"},
        "text": "Sure?",
        "timeout_ms": 3_600_000,
        "reply_to_id": wanted["id"],
    }
    assert (await echo.post(f"/v1/conversations/{conversation}/questions", json=body)).status_code == 201
    await later(short)
    assert await kept(short, conversation) == ["a", "b", "s", "question:e"]


@pytest.mark.requirement("C16")
async def test_an_unanswered_call_and_the_newest_inventory_stay(short: ServerWorld) -> None:
    conversation = await short.conversation()
    await short.invite(conversation, "runtime/laptop", "operator/echo")
    echo, laptop = await short.actor("operator/echo"), await short.actor("runtime/laptop")

    async def say(client: httpx.AsyncClient, key: str, target: str, content: Json, **more: Any) -> Json:
        return await speak(client, conversation, key, target=target, content=content, **more)

    for key in ("i1", "i2"):
        published = envelope("lineup.runtime.inventory", revision=key)
        await say(laptop, key, "operator/echo", published)
    for call in ("open", "done"):
        await say(echo, call, "runtime/laptop", envelope("lineup.tool.invoke", call))
    done = (await history(short.http, conversation, purpose="all", limit=100))[-1]
    answer = envelope("lineup.tool.result", "done", result={})
    await say(laptop, "result", "operator/echo", answer, reply_to_id=done["id"])
    for client in (echo, laptop):
        await commit(client, conversation, (await poll(client, conversation))["position"])
    await later(short)
    assert await kept(short, conversation) == ["i2", "open"]


async def set_ended(world: ServerWorld, run_id: str, at: int | None) -> int:
    """Writes when the run ended, as if it had not yet; answers what stood there."""

    def job(tx: Tx) -> int:
        row = tx.one("SELECT ended_at FROM harness_runs WHERE id = :id", {"id": run_id})
        tx.run("UPDATE harness_runs SET ended_at = :at WHERE id = :id", {"id": run_id, "at": at})
        assert row is not None
        return row[0] or 0

    return await world.server.commits.write(job)


@pytest.mark.requirement("C16")
async def test_an_ended_run_keeps_its_key_and_an_open_one_its_conversation(short: ServerWorld) -> None:
    conversation = await short.conversation()
    body: Json = {
        "conversation_id": conversation,
        "idempotency_key": "once",
        "effect_key": "e",
        "target": "demo",
        "text": "hello",
    }
    run = (await short.http.post("/v1/harness/runs", json=body)).json()
    while (await get(short.http, f"/harness/runs/{run['id']}"))["phase"] not in ("succeeded", "failed"):
        await short.advance(1)
    assert (await get(short.http, f"/harness/runs/{run['id']}/ledger"))["items"]
    ended = await set_ended(short, run["id"], None)
    said = await kept(short, conversation)
    await later(short)
    assert await kept(short, conversation) == said != []
    await set_ended(short, run["id"], ended)
    await short.server.care.retention.sweep()
    assert await kept(short, conversation) == []
    assert (await get(short.http, f"/harness/runs/{run['id']}/ledger"))["items"] == []
    again = await short.http.post("/v1/harness/runs", json=body)
    assert (again.status_code, again.json()["id"]) == (202, run["id"])
    await short.advance(5)
    assert await kept(short, conversation) == []
    other = await short.http.post("/v1/harness/runs", json={**body, "text": "something else"})
    assert other.json()["code"] == "key_conflict"
