"""Messages that grow: patches, ends, folding."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.contract.server.calls import (
    append_text,
    commit,
    emit,
    end,
    get,
    history,
    open_stream,
    poll,
    set_text,
    speak,
    text_of,
)

from lineloop.kit.clock import rfc3339
from lineloop.kit.faults import FaultInjected, FaultMode, Faults
from lineloop.protocol.actors import Actor
from lineloop.protocol.content import text_content
from lineloop.protocol.messages import MessageStatus, Purpose
from lineloop.server.commit.context import CommitLimits
from lineloop.server.commit.speaking import SpeakCommand
from lineloop.server.settings import ServerSettings
from lineloop.testing import until
from lineloop.testing.server_world import ServerWorld, server_world


class Disk(Faults):
    """While it `fails`, no commit succeeds."""

    def __init__(self) -> None:
        super().__init__(["database.before_commit"])
        self.fails = False

    def reach(self, site: str) -> FaultMode | None:
        if self.fails:
            raise FaultInjected(site)
        return super().reach(site)


@pytest.mark.requirement("L20")
async def test_a_repeated_patch_is_accepted_and_applied_once(world: ServerWorld) -> None:
    message = await open_stream(world.http, await world.conversation())
    await emit(world.http, message["id"], set_text(1, "a"))
    for _ in range(2):
        progress = await emit(world.http, message["id"], append_text(2, "b"))
        assert progress == {"revision": 2, "status": "streaming"}
    stored = await get(world.http, f"/messages/{message['id']}")
    assert (stored["revision"], text_of(stored)) == (2, "ab")


@pytest.mark.requirement("L21")
async def test_the_same_seq_with_another_patch_is_a_conflict(world: ServerWorld) -> None:
    message = await open_stream(world.http, await world.conversation())
    await emit(world.http, message["id"], set_text(1, "a"))
    refused = await emit(world.http, message["id"], set_text(1, "b"), status=409)
    assert refused["code"] == "sequence_conflict"
    assert text_of(await get(world.http, f"/messages/{message['id']}")) == "a"


async def test_a_gap_in_the_sequence_is_a_conflict(world: ServerWorld) -> None:
    message = await open_stream(world.http, await world.conversation())
    refused = await emit(world.http, message["id"], set_text(2, "a"), status=409)
    assert refused["code"] == "sequence_conflict"


@pytest.mark.requirement("L22")
async def test_end_closes_the_message_for_good(world: ServerWorld) -> None:
    conversation = await world.conversation()
    message = await open_stream(world.http, conversation)
    await emit(world.http, message["id"], set_text(1, "a"))
    assert await end(world.http, message["id"], 2) == {"revision": 2, "status": "completed"}
    assert (await emit(world.http, message["id"], set_text(3, "b"), status=409))["code"] == "message_ended"
    stored = await get(world.http, f"/messages/{message['id']}")
    assert (stored["status"], stored["revision"], stored["offset"], text_of(stored)) == (
        "completed",
        2,
        1,
        "a",
    )


@pytest.mark.requirement("L30")
async def test_the_same_end_repeats_and_a_different_one_conflicts(world: ServerWorld) -> None:
    message = await open_stream(world.http, await world.conversation())
    for _ in range(2):
        response = await world.http.post(
            f"/v1/messages/{message['id']}/end", json={"seq": 1, "status": "failed"}
        )
        assert (response.status_code, response.json()) == (202, {"revision": 1, "status": "failed"})
    assert (await end(world.http, message["id"], 1, 409))["code"] == "end_conflict"


@pytest.mark.requirement("L27")
async def test_the_stored_revision_tells_a_new_handle_where_to_go_on(world: ServerWorld) -> None:
    conversation = await world.conversation()
    message = await open_stream(world.http, conversation, "s")
    await emit(world.http, message["id"], set_text(1, "a"), append_text(2, "b"))
    await world.restart()
    again = await open_stream(world.http, conversation, "s", status=200)
    assert (again["id"], again["revision"], text_of(again)) == (message["id"], 2, "ab")
    await emit(world.http, message["id"], append_text(3, "c"))
    assert text_of(await get(world.http, f"/messages/{message['id']}")) == "abc"


@pytest.mark.requirement("L33")
async def test_an_end_concerns_its_own_message_only(world: ServerWorld) -> None:
    conversation = await world.conversation()
    await world.invite(conversation, "operator/echo", "operator/other")
    echo, other = await world.actor("operator/echo"), await world.actor("operator/other")
    await speak(world.http, conversation, "in", target="operator/echo")
    mine, theirs = await open_stream(echo, conversation), await open_stream(other, conversation)
    question = await world.http.post(
        f"/v1/conversations/{conversation}/questions",
        json={
            "kind": "confirm",
            "effect_key": "q",
            "to": {"kind": "user", "key": "local"},
            "text": "Go on?",
            "timeout_ms": 60_000,
        },
    )
    await end(echo, mine["id"], 1)
    assert (await poll(echo, conversation))["committed"] == 0
    await emit(other, theirs["id"], set_text(1, "still here"))
    assert (await get(world.http, f"/questions/{question.json()['id']}"))["state"] == "pending"
    await speak(world.http, conversation, "more")


@pytest.mark.requirement("L34")
async def test_an_end_that_met_a_storage_failure_is_repeated_under_its_number(world: ServerWorld) -> None:
    message = await open_stream(world.http, await world.conversation())
    disk = Disk()
    await world.restart(faults=disk)
    disk.fails = True
    refused = await end(world.http, message["id"], 1, 503)
    assert (refused["code"], refused["retryable"]) == ("storage_unavailable", True)
    disk.fails = False
    assert await end(world.http, message["id"], 1) == {"revision": 1, "status": "completed"}
    assert (await get(world.http, f"/messages/{message['id']}"))["offset"] == 1


async def test_a_batch_of_patches_counts_all_or_not_at_all(world: ServerWorld) -> None:
    message = await open_stream(world.http, await world.conversation())
    broken = {"op": "append", "seq": 2, "mask": "block.content", "block": {"id": "nowhere", "content": "x"}}
    refused = await emit(world.http, message["id"], set_text(1, "a"), broken, status=422)
    assert refused["code"] == "patch_invalid"
    assert (await get(world.http, f"/messages/{message['id']}"))["revision"] == 0
    await emit(world.http, message["id"], set_text(1, "b"))
    assert text_of(await get(world.http, f"/messages/{message['id']}")) == "b"


async def test_only_the_author_continues_a_message(world: ServerWorld) -> None:
    conversation = await world.conversation()
    await world.invite(conversation, "operator/echo", "operator/other")
    echo, other = await world.actor("operator/echo"), await world.actor("operator/other")
    message = await open_stream(echo, conversation)
    assert (await emit(other, message["id"], set_text(1, "x"), status=403))["code"] == "forbidden"
    assert (await end(other, message["id"], 1, 403))["code"] == "forbidden"


@pytest.mark.parametrize("kind", ["ask", "confirm", "human_reply", "result", "envelope"])
async def test_controlled_blocks_cannot_be_patched_in(world: ServerWorld, kind: str) -> None:
    message = await open_stream(world.http, await world.conversation())
    patch = {"op": "set", "seq": 1, "block": {"id": "b", "type": kind}}
    assert (await emit(world.http, message["id"], patch, status=422))["code"] == "block_protected"
    grown = [
        {"op": "set", "seq": 1, "block": {"id": "b", "type": kind[:2]}},
        {"op": "append", "seq": 2, "mask": "block.type", "block": {"id": "b", "type": kind[2:]}},
    ]
    assert (await emit(world.http, message["id"], *grown, status=422))["code"] == "block_protected"


async def test_a_large_message_is_folded_and_reads_the_same_before_and_after(world: ServerWorld) -> None:
    conversation = await world.conversation()
    message = await open_stream(world.http, conversation, target="operator/echo")
    piece = "0123456789abcdef" * 256
    await emit(world.http, message["id"], set_text(1, ""))
    for seq in range(2, 52):
        await emit(world.http, message["id"], append_text(seq, piece))
    stored = await get(world.http, f"/messages/{message['id']}")
    assert (stored["revision"], text_of(stored)) == (51, piece * 50)
    await end(world.http, message["id"], 52)

    async def folded() -> bool:
        row = await world.server.commits.read(
            lambda tx: tx.one("SELECT snapshot_revision FROM messages WHERE id = :id", {"id": message["id"]})
        )
        return row is not None and row[0] == 52

    await until(folded)
    echo = await world.actor("operator/echo")
    (polled,) = (await poll(echo, conversation))["messages"]
    assert text_of(polled) == piece * 50
    await world.restart()
    assert text_of(await get(world.http, f"/messages/{message['id']}")) == piece * 50


async def test_a_message_beyond_its_limit_takes_no_more(tmp_path: Path) -> None:
    limits = CommitLimits(message_bytes=10_000)
    settings = ServerSettings(tmp_path / "server.db", limits=limits)
    async with server_world(tmp_path, settings=settings) as world:
        conversation = await world.conversation()
        message = await open_stream(world.http, conversation)
        await emit(world.http, message["id"], set_text(1, "x" * 6_000))
        # Replacing text costs nothing of the limit, however often it is done.
        for seq in range(2, 6):
            await emit(world.http, message["id"], set_text(seq, "y" * 6_000))
        refused = await emit(world.http, message["id"], append_text(6, "z" * 6_000), status=413)
        assert (refused["code"], refused["context"]["limit"]) == ("limit_exceeded", "message_bytes")
        await emit(world.http, message["id"], append_text(6, "z"))
        assert text_of((await history(world.http, conversation))[0]) == "y" * 6_000 + "z"


DAY = 24 * 3600


async def later(world: ServerWorld, seconds: int) -> None:
    """Days of wall time at once, and a minute in which everything that is due happens."""
    world.clock.jump(seconds - 61)
    await world.advance(61)


@pytest.mark.requirement("L125", "L128", "L102")
async def test_an_abandoned_stream_ends_failed_with_a_reason_after_a_day(tmp_path: Path) -> None:
    async with server_world(tmp_path, sweep_seconds=DAY) as world:
        conversation = await world.conversation()
        echo = await world.actor("operator/echo")
        await speak(world.http, conversation, "in", target="operator/echo")
        gone = await open_stream(world.http, conversation, "gone", target="operator/echo")
        bare = await open_stream(world.http, conversation, "bare", actor="harness/local")
        alive = await open_stream(world.http, conversation, "alive")
        await emit(world.http, gone["id"], set_text(1, "half"))
        left = await get(world.http, f"/messages/{gone['id']}")
        await later(world, DAY - 120)
        await emit(world.http, alive["id"], set_text(1, "still"))
        assert (await get(world.http, f"/messages/{gone['id']}"))["status"] == "streaming"
        await later(world, 240)
        stored = await get(world.http, f"/messages/{gone['id']}")
        assert (stored["status"], stored["offset"], stored["revision"]) == ("failed", 2, 2)
        assert stored["content"]["meta"]["error"]["code"] == "writer_gone"
        assert stored["content"]["blocks"] == left["content"]["blocks"]
        assert stored["updated_at"] == left["updated_at"]
        assert (await get(world.http, f"/messages/{bare['id']}"))["status"] == "failed"
        assert (await get(world.http, f"/messages/{alive['id']}"))["status"] == "streaming"
        assert (await emit(world.http, gone["id"], append_text(3, "x"), status=409))[
            "code"
        ] == "message_ended"
        assert (await end(world.http, gone["id"], 2, 409))["code"] == "end_conflict"
        await later(world, DAY - 240)
        assert await get(world.http, f"/messages/{gone['id']}") == stored
        inbox = await poll(echo, conversation)
        assert gone["id"] in [m["id"] for m in inbox["messages"]]
        await commit(echo, conversation, inbox["position"])


@pytest.mark.requirement("L101")
async def test_a_runs_output_is_never_taken_for_abandoned(tmp_path: Path) -> None:
    async with server_world(tmp_path, sweep_seconds=DAY) as world:
        conversation = await world.conversation()
        command = SpeakCommand(
            message_id="msg_of_a_run",
            conversation_id=conversation,
            actor=Actor("harness", "local"),
            key="run",
            content=text_content("half"),
            speaker=None,
            status=MessageStatus.STREAMING,
            purpose=Purpose.RUN,
            run_id="run_1",
        )
        await world.server.commits.speak(command)
        await later(world, 2 * DAY)
        assert (await get(world.http, "/messages/msg_of_a_run"))["status"] == "streaming"


async def test_a_writer_that_comes_back_in_the_last_moment_is_not_cut_off(tmp_path: Path) -> None:
    limits = CommitLimits(silent_stream_ms=600_000)
    async with server_world(tmp_path, sweep_seconds=3600.0, limits=limits) as world:
        message = await open_stream(world.http, await world.conversation())
        for seq in range(1, 8):
            await later(world, 595)
            await emit(world.http, message["id"], set_text(seq, "still here"))
        assert (await get(world.http, f"/messages/{message['id']}"))["status"] == "streaming"


@pytest.mark.requirement("L127")
async def test_updated_at_is_the_servers_time_of_the_last_news(world: ServerWorld) -> None:
    async def updated_at() -> str:
        return (await get(world.http, f"/messages/{message['id']}"))["updated_at"]

    message = await open_stream(world.http, await world.conversation())
    await world.advance(10)
    patch = {**set_text(1, "a"), "ts": "1999-01-01T00:00:00Z"}
    await emit(world.http, message["id"], patch)
    first = await updated_at()
    assert first == rfc3339(world.clock.now_ms())
    await world.advance(10)
    await emit(world.http, message["id"], patch)
    await speak(world.http, message["conversation_id"], "s", None, 200, stream=True)  # pyright: ignore[reportArgumentType]
    assert await updated_at() == first
    await end(world.http, message["id"], 2)
    ended = await updated_at()
    assert ended == rfc3339(world.clock.now_ms()) > first
    await world.advance(10)
    await end(world.http, message["id"], 2)
    await emit(world.http, message["id"], patch)
    assert await updated_at() == ended
