"""What whoever runs a server is told: alive, ready, and the numbers to watch."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from lineloop.kit.database import DatabaseUnavailable
from lineloop.server.wakeup.relay import RelayFigures
from lineloop.testing import until
from lineloop.testing.server_world import ServerWorld


async def numbers(world: ServerWorld) -> dict[str, float]:
    """Every line of /metrics: name with labels, value."""
    text = (await world.http.get("/metrics")).text
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, value in lines}


async def test_the_numbers_tell_requests_by_route_and_what_is_open(world: ServerWorld) -> None:
    conversation = await world.conversation()
    here = f"/v1/conversations/{conversation}"
    await world.http.post(f"{here}/messages", json={"key": "s", "stream": True})
    question: dict[str, Any] = {"kind": "confirm", "effect_key": "q", "text": "Sure?", "timeout_ms": 60_000}
    question["to"] = {"kind": "user", "key": "local"}
    asked = (await world.http.post(f"{here}/questions", json=question)).json()["id"]
    before = await numbers(world)
    assert (before["lineloop_streams_open"], before["lineloop_questions_open"]) == (1, 1)
    assert before['lineloop_http_requests_total{route="speak",status="201"}'] == 1
    assert before['lineloop_http_requests_total{route="ask",status="201"}'] == 1
    assert before['lineloop_runs_open{phase="running"}'] == 0
    assert conversation not in "".join(before)
    reply = {"reply_to_id": asked, "value": "accepted"}
    await world.http.post(f"/v1/questions/{asked}/answer", json=reply)
    assert (await numbers(world))["lineloop_questions_open"] == 0


async def test_a_refused_method_is_told_every_method_of_the_path(world: ServerWorld) -> None:
    refused = await world.http.delete("/v1/conversations")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, POST")


async def test_the_document_says_how_each_view_refuses_and_what_is_public(world: ServerWorld) -> None:
    paths = (await world.http.get("/openapi.json")).json()["paths"]
    assert paths["/healthz"]["get"]["security"] == []
    assert "401" not in paths["/readyz"]["get"]["responses"]
    lists = paths["/apis/loop.lineloop.dev/v1alpha1/conversations"]["get"]["responses"]
    assert {"200", "400", "401", "403", "410", "421", "429", "503"} == set(lists)
    assert "application/json" in lists["400"]["content"]
    selected = await world.http.get("/apis/loop.lineloop.dev/v1alpha1/conversations?labelSelector=!a")
    assert (selected.status_code, selected.headers["content-type"]) == (400, "application/json")


async def test_who_cannot_commit_is_alive_and_not_ready(
    world: ServerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> asyncio.Future[Any]:
        raise DatabaseUnavailable("the disk is full")

    monkeypatch.setattr(world.server.commits.db, "submit", refuse)
    refused = await world.http.get("/readyz")
    assert (refused.status_code, refused.json()["code"]) == (503, "storage_unavailable")
    assert (await world.http.get("/healthz")).status_code == 200


async def test_who_asks_whether_a_hanging_database_can_commit_is_answered_in_time(
    world: ServerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting: list[asyncio.Future[Any]] = []

    def hang(*_: object, **__: object) -> asyncio.Future[Any]:
        waiting.append(asyncio.get_running_loop().create_future())
        return waiting[-1]

    monkeypatch.setattr(world.server.commits.db, "submit", hang)
    asking = asyncio.create_task(world.http.get("/readyz"))
    await until(lambda: bool(waiting))
    await world.advance(6)
    answer = await asyncio.wait_for(asking, 5)
    assert (answer.status_code, answer.json()["code"]) == (503, "storage_unavailable")


METRICS = Path(__file__).parents[3] / "docs" / "reference" / "metrics.md"


@pytest.mark.requirement("SV4")
async def test_commits_are_measured_by_how_long_they_took_and_how_many_shared_them(
    world: ServerWorld,
) -> None:
    conversation = await world.conversation()
    before = await numbers(world)
    body = {"key": "k", "text": "hi"}
    await world.http.post(f"/v1/conversations/{conversation}/messages", json=body)
    after = await numbers(world)
    for name in ("lineloop_database_commit_seconds", "lineloop_database_commit_jobs"):
        assert after[f"{name}_count"] == after["lineloop_database_commits"] > before[f"{name}_count"]
        assert after[f'{name}_bucket{{le="+Inf"}}'] == after[f"{name}_count"]
        assert after[f"{name}_sum"] > before[f"{name}_sum"]


@pytest.mark.requirement("SV4")
async def test_refusals_are_counted_by_code_whoever_was_refused_what(world: ServerWorld) -> None:
    for number in range(3):
        await world.client({"authorization": f"Bearer wrong{number}"}).get(f"/v1/messages/msg_{number}")
        await world.http.get(f"/v1/conversations/con_{number}")
    counted = await numbers(world)
    assert {name: value for name, value in counted.items() if name.startswith("lineloop_refusals")} == {
        'lineloop_refusals_total{code="unauthorized"}': 3,
        'lineloop_refusals_total{code="conversation_not_found"}': 3,
    }


@pytest.mark.requirement("SV4")
async def test_every_number_stands_in_the_documentation_and_no_label_names_anybody(
    world: ServerWorld,
) -> None:
    await world.http.get("/v1/conversations/con_x")
    world.server.metrics.relayed(RelayFigures())
    documented = set(re.findall(r"^\| `(\w+)`", METRICS.read_text(encoding="utf-8"), re.MULTILINE))
    lines = await numbers(world)
    shown = {re.sub(r"_(bucket|count|sum|created)?$", "", re.sub(r"\{.*", "", name)) for name in lines}
    assert shown == documented
    labels = {label for name in lines for label in re.findall(r'(\w+)="', name)}
    assert labels == {"route", "status", "code", "phase", "le"}
