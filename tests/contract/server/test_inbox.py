"""Poll and commit."""

from __future__ import annotations

import pytest
from tests.contract.server.calls import commit, end, history, open_stream, poll, speak, texts, wire

from lineloop.kit.faults import Faults
from lineloop.testing.server_world import ServerWorld


@pytest.mark.requirement("L44")
async def test_reading_history_moves_no_cursor(world: ServerWorld) -> None:
    conversation = await world.conversation()
    await speak(world.http, conversation, "a", "one", target="operator/echo")
    echo = await world.actor("operator/echo")
    assert len(await history(echo, conversation)) == 1
    assert texts((await poll(echo, conversation))["messages"]) == ["one"]
    assert (await commit(echo, conversation, 1)) == {}


@pytest.mark.requirement("L45", "L52")
async def test_what_was_committed_is_not_polled_again(world: ServerWorld) -> None:
    conversation = await world.conversation()
    spoken = await speak(world.http, conversation, "a", target="operator/echo")
    echo = await world.actor("operator/echo")
    inbox = await poll(echo, conversation)
    assert ([m["id"] for m in inbox["messages"]], inbox["position"]) == ([spoken["id"]], spoken["offset"])
    await commit(echo, conversation, inbox["position"])
    assert await poll(echo, conversation) == {"messages": [], "position": 1, "committed": 1}


@pytest.mark.requirement("L46")
async def test_who_takes_no_part_may_not_poll(world: ServerWorld) -> None:
    conversation = await world.conversation()
    await speak(world.http, conversation, "a", target="operator/echo")
    for client, fields in (
        (world.http, {"actor": wire("operator/other")}),
        (await world.actor("operator/echo/r/x"), {}),
    ):
        assert (await poll(client, conversation, status=403, **fields))["code"] == "not_participant"
        assert (await commit(client, conversation, 1, status=403, **fields))["code"] == "not_participant"
        assert (await poll(client, "con_none", status=404, **fields))["code"] == "conversation_not_found"
    other = await world.actor("operator/other")
    assert (await poll(other, conversation, status=404))["code"] == "conversation_not_found"
    assert (await commit(other, conversation, 1, status=404))["code"] == "conversation_not_found"


@pytest.mark.requirement("L47")
async def test_a_role_has_an_inbox_of_its_own(world: ServerWorld) -> None:
    conversation = await world.conversation()
    operator = await world.actor("operator/long")
    role = {"kind": "operator/long/manager", "key": "run-1"}
    await speak(world.http, conversation, "a", "to the operator", target="operator/long")
    await speak(world.http, conversation, "b", "to the role", target="operator/long/manager/run-1")
    mine = await poll(operator, conversation)
    theirs = await poll(operator, conversation, actor=role)
    assert (texts(mine["messages"]), texts(theirs["messages"])) == (["to the operator"], ["to the role"])
    await commit(operator, conversation, theirs["position"], actor=role)
    assert (await poll(operator, conversation))["messages"] == mine["messages"]
    assert (await poll(operator, conversation, actor=role))["messages"] == []


@pytest.mark.requirement("L48")
@pytest.mark.parametrize(
    "actor", ["harness/local", "operator/planner", "future-kind/x", "operator/a/b/c", "user/ann"]
)
async def test_any_kind_of_actor_speaks_polls_and_commits(world: ServerWorld, actor: str) -> None:
    conversation = await world.conversation()
    await speak(world.http, conversation, "a", "for you", target=actor)
    client = await world.actor(actor)
    inbox = await poll(client, conversation)
    assert texts(inbox["messages"]) == ["for you"]
    answer = await speak(client, conversation, "b", "for me", target="user/local")
    assert f"{answer['actor']['kind']}/{answer['actor']['key']}" == actor
    await commit(client, conversation, inbox["position"])
    assert texts((await poll(world.http, conversation))["messages"]) == ["for me"]


@pytest.mark.requirement("L49")
async def test_a_poll_reads_everything_that_is_stored(world: ServerWorld) -> None:
    conversation = await world.conversation()
    for number in range(5):
        await speak(world.http, conversation, str(number), str(number), target="operator/echo")
    echo = await world.actor("operator/echo")
    first = await poll(echo, conversation, limit=2)
    assert texts(first["messages"]) == ["0", "1"]
    await speak(world.http, conversation, "late", "late", target="operator/echo")
    rest = await poll(echo, conversation, after=first["position"])
    assert texts(rest["messages"]) == ["2", "3", "4", "late"]


@pytest.mark.requirement("L50")
async def test_a_lost_poll_answer_is_replayed_also_after_a_restart(world: ServerWorld) -> None:
    conversation = await world.conversation()
    for number in range(3):
        await speak(world.http, conversation, str(number), target="operator/echo")
    echo = await world.actor("operator/echo")
    lost = await poll(echo, conversation)
    assert (await poll(echo, conversation))["messages"] == lost["messages"]
    await commit(echo, conversation, 1)
    await world.restart()
    again = await poll(echo, conversation)
    assert [m["offset"] for m in again["messages"]] == [2, 3]
    assert again["committed"] == 1


@pytest.mark.requirement("L50")
async def test_a_poll_whose_acknowledgement_was_lost_is_simply_repeated(world: ServerWorld) -> None:
    conversation = await world.conversation()
    await speak(world.http, conversation, "a", target="operator/echo")
    await world.restart(faults=Faults(["server.poll.after_commit"], "server.poll.after_commit:lost_ack"))
    echo = await world.actor("operator/echo")
    assert (await poll(echo, conversation, status=503))["code"] == "connection_lost"
    inbox = await poll(echo, conversation)
    assert len(inbox["messages"]) == 1
    await commit(echo, conversation, inbox["position"])


@pytest.mark.requirement("L51")
async def test_a_commit_beyond_what_was_polled_is_refused(world: ServerWorld) -> None:
    conversation = await world.conversation()
    for number in range(3):
        await speak(world.http, conversation, str(number), target="operator/echo")
    echo = await world.actor("operator/echo")
    await poll(echo, conversation, limit=2)
    refused = await commit(echo, conversation, 3, status=409)
    assert (refused["code"], refused["context"]["position"]) == ("position_conflict", 2)
    await commit(echo, conversation, 2)


async def test_commits_never_go_back_and_repeat_harmlessly(world: ServerWorld) -> None:
    conversation = await world.conversation()
    for number in range(3):
        await speak(world.http, conversation, str(number), target="operator/echo")
    echo = await world.actor("operator/echo")
    await poll(echo, conversation)
    for position in (3, 3, 1, 0):
        await commit(echo, conversation, position)
    assert (await poll(echo, conversation))["committed"] == 3


@pytest.mark.requirement("L56")
async def test_an_own_broadcast_is_not_received(world: ServerWorld) -> None:
    conversation = await world.conversation()
    await speak(world.http, conversation, "a", "hello", target="operator/echo")
    echo = await world.actor("operator/echo")
    await speak(echo, conversation, "b", "to all")
    await speak(world.http, conversation, "c", "to all from the person")
    assert texts((await poll(echo, conversation))["messages"]) == ["hello", "to all from the person"]
    assert "to all" in texts((await poll(world.http, conversation))["messages"])


async def test_an_open_stream_blocks_nobody_and_is_never_read_half(world: ServerWorld) -> None:
    conversation = await world.conversation()
    stream = await open_stream(world.http, conversation, "s", target="operator/echo")
    await speak(world.http, conversation, "a", "after it", target="operator/echo")
    echo = await world.actor("operator/echo")
    first = await poll(echo, conversation)
    assert texts(first["messages"]) == ["after it"]
    await commit(echo, conversation, first["position"])
    await end(world.http, stream["id"], 1)
    assert [m["id"] for m in (await poll(echo, conversation))["messages"]] == [stream["id"]]


async def test_poll_may_name_purposes_and_still_moves_past_the_others(world: ServerWorld) -> None:
    conversation = await world.conversation()
    block = {"id": "envelope", "type": "envelope", "envelope": {"type": "lineup.tool.invoke"}}
    content = {"version": "1.1", "biz": "chat", "meta": {}, "blocks": [block]}
    await speak(world.http, conversation, "a", "words", target="operator/echo")
    await speak(world.http, conversation, "b", content=content, target="operator/echo")
    echo = await world.actor("operator/echo")
    inbox = await poll(echo, conversation, purpose=["input", "speech"])
    assert (texts(inbox["messages"]), inbox["position"]) == (["words"], 2)
    await commit(echo, conversation, 2)
