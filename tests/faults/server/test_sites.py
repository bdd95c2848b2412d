"""Every fault site of the server, in every mode that a test in one process can survive: nothing lost, nothing
twice, and each site is really reached.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from lineloop.kit.faults import Faults
from lineloop.protocol.fault_sites import FaultSite
from lineloop.testing.server_world import ServerWorld, server_world

ECHO = {"kind": "operator", "key": "echo"}
PATHS = ("speak", "append", "end", "poll", "commit_position", "ask", "answer")
SITES = [FaultSite(f"server.{path}.{side}_commit") for path in PATHS for side in ("before", "after")]


async def insist(client: httpx.AsyncClient, method: str, path: str, body: Any = None) -> Any:
    """As a client does: repeats the same request while the answer says that it may."""
    for _ in range(3):
        answer = await client.request(method, f"/v1{path}", json=body)
        if answer.status_code < 500:
            assert answer.status_code < 300, answer.text
            return answer.json() if answer.content else None
        assert answer.json()["code"] in ("connection_lost", "fault_injected"), answer.text
    raise AssertionError("the fault did not pass")


async def story(world: ServerWorld) -> str:
    conversation: str = (await insist(world.http, "POST", "/conversations", {}))["id"]
    here = f"/conversations/{conversation}"
    await insist(world.http, "POST", f"{here}/messages", {"key": "in", "text": "hello", "target": ECHO})
    question = {
        "kind": "confirm",
        "effect_key": "q",
        "actor": ECHO,
        "to": {"kind": "user", "key": "local"},
        "text": "Sure?",
        "timeout_ms": 60_000,
    }
    asked = await insist(world.http, "POST", f"{here}/questions", question)
    reply = {"reply_to_id": asked["id"], "value": "accepted"}
    await insist(world.http, "POST", f"/questions/{asked['id']}/answer", reply)
    stream = await insist(
        world.http, "POST", f"{here}/messages", {"key": "out", "actor": ECHO, "stream": True}
    )
    patch = {"op": "set", "seq": 1, "block": {"id": "t", "type": "text", "content": "answer"}}
    await insist(world.http, "POST", f"/messages/{stream['id']}/patches", {"patches": [patch]})
    await insist(world.http, "POST", f"/messages/{stream['id']}/end", {"seq": 2})
    inbox = await insist(world.http, "POST", f"{here}/poll", {"actor": ECHO})
    await insist(world.http, "POST", f"{here}/commit", {"actor": ECHO, "position": inbox["position"]})
    return conversation


@pytest.mark.parametrize("mode", ["raise", "lost_ack", "duplicate", "delay"])
@pytest.mark.parametrize("site", SITES)
async def test_a_story_ends_the_same_whatever_breaks_on_the_way(
    tmp_path: Path, site: FaultSite, mode: str
) -> None:
    async with server_world(tmp_path, faults=Faults(FaultSite, f"{site}:{mode}")) as world:
        conversation = await story(world)
        assert world.faults.reached[site] >= 1
        await world.restart(faults=Faults.none())
        path = f"/v1/conversations/{conversation}/messages?purpose=all"
        messages = (await world.http.get(path)).json()["items"]
        assert [(m["ordinal"], m["offset"], m["purpose"]) for m in messages] == [
            (1, 1, "input"),
            (2, 2, "question"),
            (3, 3, "answer"),
            (4, 4, "speech"),
        ]
        assert (messages[3]["status"], messages[3]["revision"]) == ("completed", 2)
        inbox = (await world.http.post(f"/v1/conversations/{conversation}/poll", json={"actor": ECHO})).json()
        assert (inbox["messages"], inbox["committed"]) == ([], 3)


async def test_a_timeout_survives_its_faults(tmp_path: Path) -> None:
    for side in ("before", "after"):
        site = FaultSite(f"server.timeout.{side}_commit")
        folder = tmp_path / side
        async with server_world(folder, faults=Faults(FaultSite, f"{site}:raise")) as world:
            conversation = await world.conversation()
            body = {
                "kind": "confirm",
                "effect_key": "q",
                "to": {"kind": "user", "key": "local"},
                "text": "Sure?",
                "timeout_ms": 1_000,
            }
            asked = await world.http.post(f"/v1/conversations/{conversation}/questions", json=body)
            await world.advance(3)
            question = (await world.http.get(f"/v1/questions/{asked.json()['id']}")).json()
            assert question["state"] == "timeout"
            assert world.faults.reached[site] >= 1
