"""The Conversation resource: projected, watched, repaired."""

from __future__ import annotations

from typing import Any

import pytest
from tests.contract.server.calls import commit, get, poll, speak

from lineloop.kit import json
from lineloop.kit.faults import Faults
from lineloop.protocol.actors import Actor
from lineloop.protocol.fault_sites import FaultSite
from lineloop.protocol.resources import CONVERSATION_KIND, participant
from lineloop.server.store import conversations
from lineloop.server.wakeup.bus import ConsumersChanged
from lineloop.testing import until
from lineloop.testing.server_world import ServerWorld

CONVERSATIONS = "/apis/loop.lineloop.dev/v1alpha1/conversations"
ECHO = Actor("operator", "echo")


async def stored(world: ServerWorld, conversation: str) -> dict[str, Any]:
    return await world.server.resources.get(CONVERSATION_KIND, conversation)


async def test_the_resource_follows_messages_and_commits(world: ServerWorld) -> None:
    conversation = await world.conversation()
    await speak(world.http, conversation, "a", target="operator/echo")
    echo = await world.actor("operator/echo")
    await world.advance(0.1)
    line = participant(await stored(world, conversation), ECHO)
    assert line is not None
    assert line.has_backlog
    assert (
        line.conversation_id
        == (await get(world.http, "/conversations", parent_id=conversation))["items"][0]["id"]
    )
    await poll(echo, conversation)
    await commit(echo, conversation, 1)
    await world.advance(0.1)
    line = participant(await stored(world, conversation), ECHO)
    assert line is not None
    assert (line.end_offset, line.position, line.committed) == (1, 1, 1)
    truth = await get(world.http, f"/conversations/{conversation}/resource")
    assert (await stored(world, conversation))["spec"] == truth["spec"]


async def test_envelopes_do_not_wake(world: ServerWorld) -> None:
    conversation = await world.conversation()
    await speak(world.http, conversation, "a", target="operator/echo")
    await world.advance(0.1)
    before = await stored(world, conversation)
    block = {"id": "envelope", "type": "envelope", "envelope": {"type": "lineup.tool.invoke"}}
    content = {"version": "1.1", "biz": "chat", "meta": {}, "blocks": [block]}
    await speak(world.http, conversation, "b", content=content, target="operator/echo")
    await world.advance(2)
    assert await stored(world, conversation) == before


async def test_the_first_change_goes_out_at_once_and_a_burst_is_one_change(world: ServerWorld) -> None:
    conversation = await world.conversation()
    await world.advance(1)
    versions: list[str] = []
    for number in range(10):
        await speak(world.http, conversation, str(number), target="operator/echo")
        await world.clock.settle()
        versions.append((await stored(world, conversation))["metadata"]["resourceVersion"])
    assert len(set(versions)) == 1
    await world.advance(0.05)
    line = participant(await stored(world, conversation), ECHO)
    assert line is not None
    assert line.end_offset == 10


@pytest.mark.parametrize("mode", ["raise", "lost_ack"])
async def test_a_lost_notification_is_repaired_by_the_sweep(world: ServerWorld, mode: str) -> None:
    conversation = await world.conversation()
    await world.advance(0.1)
    site = "server.notify.before_commit" if mode == "raise" else "server.speak.after_commit"
    await world.restart(faults=Faults([site], f"{site}:{mode}"))
    await world.http.post(
        f"/v1/conversations/{conversation}/messages",
        json={"key": "a", "text": "x", "target": {"kind": "operator", "key": "echo"}},
    )
    await world.advance(1.1)

    async def repaired() -> bool:
        return participant(await stored(world, conversation), ECHO) is not None

    await until(repaired)


async def test_discovery_list_get_and_table_are_what_kubectl_expects(world: ServerWorld) -> None:
    conversation = await world.conversation("plans")
    await world.advance(0.1)
    groups = (await world.http.get("/apis")).json()
    assert groups["groups"][0]["preferredVersion"]["groupVersion"] == "loop.lineloop.dev/v1alpha1"
    discovery = (await world.http.get("/apis/loop.lineloop.dev/v1alpha1")).json()
    assert discovery["resources"][0]["name"] == "conversations"
    listed = (await world.http.get(CONVERSATIONS)).json()
    assert [item["metadata"]["name"] for item in listed["items"]] == [conversation]
    one = f"/apis/loop.lineloop.dev/v1alpha1/namespaces/default/conversations/{conversation}"
    assert (await world.http.get(one)).json()["spec"]["name"] == "plans"
    accept = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
    table = (await world.http.get(CONVERSATIONS, headers=accept)).json()
    assert table["kind"] == "Table"
    assert table["rows"][0]["cells"][:3] == [conversation, "plans", "user/local"]
    missing = await world.http.get(one + "x")
    assert (missing.status_code, missing.json()["code"]) == (404, 404)


async def test_refusals_of_the_view_are_status_objects(world: ServerWorld) -> None:
    one = "/apis/loop.lineloop.dev/v1alpha1/namespaces/default/conversations/none"
    cases = (
        (await world.http.get(one), 404, "NotFound", "resource_not_found"),
        (await world.http.get("/apis/nowhere/v1"), 404, "NotFound", "route_not_found"),
        (await world.http.delete(one), 405, "MethodNotAllowed", "method_not_allowed"),
        (await world.client().get(CONVERSATIONS), 401, "Unauthorized", "unauthorized"),
        (await world.http.get(CONVERSATIONS + "?resourceVersion=x"), 400, "BadRequest", "invalid_request"),
        (
            await world.http.get(CONVERSATIONS + "?watch=1&resourceVersion=-1"),
            400,
            "BadRequest",
            "invalid_request",
        ),
        (
            await world.http.get(CONVERSATIONS + "?watch=1&timeoutSeconds=-1"),
            400,
            "BadRequest",
            "invalid_request",
        ),
        (await world.http.get(CONVERSATIONS + "?labelSelector=a>b"), 400, "BadRequest", "invalid_resource"),
    )
    for answer, status, reason, code in cases:
        body = answer.json()
        assert (answer.status_code, body["kind"], body["apiVersion"]) == (status, "Status", "v1"), answer.text
        assert (body["status"], body["code"], body["reason"]) == ("Failure", status, reason)
        assert body["details"]["causes"][0]["reason"] == code


async def test_a_watch_ends_after_the_time_it_was_given(world: ServerWorld) -> None:
    conversation = await world.conversation()
    await world.advance(1)
    path = f"{CONVERSATIONS}?watch=true&timeoutSeconds=30&allowWatchBookmarks=true"
    async with world.http.stream("GET", path) as stream:
        lines = stream.aiter_lines()
        assert json.loads(await anext(lines))["object"]["metadata"]["name"] == conversation
        await world.advance(29)
        await speak(world.http, conversation, "a", target="operator/echo")
        await world.advance(0.5)
        await world.advance(1)
        kinds = [json.loads(line)["type"] async for line in lines]
        assert [kind for kind in kinds if kind != "BOOKMARK"] == ["MODIFIED"]


async def test_a_watch_tells_what_changes_to_those_who_take_part(world: ServerWorld) -> None:
    conversation = await world.conversation()
    other = await world.conversation()
    await speak(world.http, other, "a", target="operator/other")
    await world.advance(1)
    echo = await world.actor("operator/echo")
    version = (await echo.get(CONVERSATIONS)).json()["metadata"]["resourceVersion"]
    params = {"watch": "true", "resourceVersion": version}
    async with echo.stream("GET", CONVERSATIONS, params=params) as stream:
        lines = stream.aiter_lines()
        await speak(world.http, other, "b", target="operator/other")
        await speak(world.http, conversation, "a", target="operator/echo")
        await world.clock.settle()
        event = json.loads(await anext(lines))
        assert event["object"]["metadata"]["name"] == conversation
        line = participant(event["object"], ECHO)
        assert line is not None
        assert line.end_offset == 1


async def test_a_watch_from_a_forgotten_version_ends_with_expired(world: ServerWorld) -> None:
    await world.conversation()
    await world.advance(1)
    await world.server.resources.compact()
    async with world.http.stream(
        "GET", CONVERSATIONS, params={"watch": "true", "resourceVersion": "99999"}
    ) as stream:
        event = json.loads(await anext(stream.aiter_lines()))
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


@pytest.mark.requirement("L61")
async def test_what_is_to_be_told_survives_a_store_that_fails_and_a_restart(world: ServerWorld) -> None:
    failing = "server.notify.before_commit:raise:*"
    await world.restart(faults=Faults(FaultSite, failing))
    conversation = await world.conversation()
    await speak(world.http, conversation, "a", target="operator/echo")
    await world.advance(3)
    assert world.faults.reached[FaultSite.SERVER_NOTIFY_BEFORE] > 1  # tried again and again
    await world.restart(faults=Faults(FaultSite, failing))
    await world.advance(3)
    late = (await world.http.get("/metrics")).text
    assert "lineloop_resources_late 1.0" in late
    await world.restart(faults=Faults.none())
    await world.advance(3)
    line = participant(await stored(world, conversation), ECHO)
    assert line is not None
    assert (line.end_offset, line.committed) == (1, 0)
    assert "lineloop_resources_late 0.0" in (await world.http.get("/metrics")).text


@pytest.mark.requirement("L61")
async def test_telling_again_what_has_not_changed_changes_nothing(world: ServerWorld) -> None:
    conversation = await world.conversation()
    await speak(world.http, conversation, "a", target="operator/echo")
    await world.advance(1)
    before = await stored(world, conversation)
    for _ in range(2):
        world.server.bus.publish(ConsumersChanged(conversation))
        await world.server.commits.write(lambda tx: conversations.mark_to_notify(tx, conversation))
        await world.advance(2)
    assert await stored(world, conversation) == before
