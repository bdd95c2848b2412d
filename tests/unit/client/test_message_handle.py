"""The message handle: numbers, repetition, and nothing that overtakes an unconfirmed update."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lineloop.client.message_handle import MessageHandle
from lineloop.client.retry import Retry
from lineloop.client.writes import Progress
from lineloop.kit.backoff import Backoff
from lineloop.kit.clock import SystemClock
from lineloop.protocol.actors import Actor
from lineloop.protocol.errors import Conflict, ConnectionLost, LoopError, PatchInvalid, StorageUnavailable
from lineloop.protocol.messages import Message, MessageStatus
from lineloop.testing.scripted import wire_message

HELLO = {"op": "set", "block": {"id": "text", "type": "text", "content": "Hello"}}


def more(text: str) -> dict[str, Any]:
    return {"op": "append", "mask": "block.content", "block": {"id": "text", "content": text}}


class Writer:
    """Notes what is sent and answers from a list of errors (None = stored)."""

    def __init__(self, *outcomes: LoopError | None) -> None:
        self.outcomes = list(outcomes)
        self.sent: list[tuple[str, int]] = []
        self.gate: asyncio.Event | None = None

    async def _outcome(self, what: str, seq: int) -> None:
        self.sent.append((what, seq))
        if self.gate is not None:
            await self.gate.wait()
        error = self.outcomes.pop(0) if self.outcomes else None
        if error is not None:
            raise error

    async def patches(
        self, message_id: str, patches: list[dict[str, Any]], actor: Actor | None = None
    ) -> Progress:
        await self._outcome(patches[0]["block"].get("content", ""), patches[0]["seq"])
        return Progress(patches[0]["seq"], MessageStatus.STREAMING)

    async def end(
        self, message_id: str, seq: int, status: MessageStatus, actor: Actor | None = None
    ) -> Progress:
        await self._outcome(f"end:{status}", seq)
        return Progress(seq, status)


def handle(writer: Writer, *, revision: int = 7, status: str = "streaming", text: str = "") -> MessageHandle:
    message = Message.from_wire(wire_message(revision=revision, status=status, offset=None, text=text))
    return MessageHandle(message, writer, Retry(SystemClock(), Backoff(0.0, 1.0, 0.0, 0.0)))


@pytest.mark.requirement("L27")
async def test_the_handle_numbers_from_the_stored_revision_and_passes_over_the_callers_seq() -> None:
    writer = Writer()
    message = handle(writer, revision=7)
    await message.emit({**HELLO, "seq": 99})
    await message.emit(more(", world"))
    assert writer.sent == [("Hello", 8), (", world", 9)]
    assert message.revision == 9
    assert message.message.text == "Hello, world"


@pytest.mark.requirement("L28")
async def test_a_storage_error_is_repeated_with_the_same_number_and_then_the_next_one_follows() -> None:
    writer = Writer(StorageUnavailable("busy"))
    message = handle(writer, revision=7)
    await message.emit(HELLO)
    await message.emit(more("!"))
    assert [seq for _, seq in writer.sent] == [8, 8, 9]


@pytest.mark.requirement("L28")
async def test_after_three_attempts_the_error_is_returned_and_the_content_is_unchanged() -> None:
    writer = Writer(*[StorageUnavailable("busy")] * 3)
    message = handle(writer, revision=7, text="before")
    with pytest.raises(StorageUnavailable):
        await message.emit(HELLO)
    assert [seq for _, seq in writer.sent] == [8, 8, 8]
    assert message.message.text == "before"
    assert message.revision == 7


async def test_an_unconfirmed_update_is_never_overtaken_and_may_be_repeated() -> None:
    writer = Writer(*[ConnectionLost("gone")] * 3)
    message = handle(writer, revision=7)
    with pytest.raises(ConnectionLost):
        await message.emit(HELLO)
    with pytest.raises(Conflict) as caught:
        await message.emit(more("later"))
    assert caught.value.code == "sequence_conflict"
    await message.emit(HELLO)
    await message.emit(more("later"))
    assert writer.sent == [*[("Hello", 8)] * 4, ("later", 9)]


async def test_a_refused_update_leaves_its_number_free() -> None:
    writer = Writer(LoopError("controlled", code="block_protected"))
    message = handle(writer, revision=7)
    with pytest.raises(LoopError):
        await message.emit(HELLO)
    await message.emit(more("next"))
    assert writer.sent == [("Hello", 8), ("next", 8)]


async def test_a_refusal_that_does_not_judge_the_update_keeps_its_number() -> None:
    writer = Writer(ConnectionLost("gone"), LoopError("revoked", code="unauthorized"))
    message = handle(writer, revision=7)
    with pytest.raises(LoopError) as caught:
        await message.emit(HELLO)
    assert caught.value.code == "unauthorized"
    with pytest.raises(Conflict):
        await message.emit(more("later"))


async def test_a_cancelled_emit_counts_as_unconfirmed() -> None:
    writer = Writer()
    writer.gate = asyncio.Event()
    message = handle(writer, revision=7)
    task = asyncio.get_running_loop().create_task(message.emit(HELLO))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    writer.gate.set()
    with pytest.raises(Conflict):
        await message.emit(more("later"))
    await message.end("failed")
    assert writer.sent == [("Hello", 8), ("Hello", 8), ("end:failed", 9)]


async def test_concurrent_callers_of_one_handle_take_turns() -> None:
    writer = Writer()
    message = handle(writer, revision=0)
    await asyncio.gather(*(message.write(str(number)) for number in range(5)))
    assert [seq for _, seq in writer.sent] == [1, 2, 3, 4, 5]
    assert message.message.text == "01234"


async def test_a_patch_that_does_not_apply_is_refused_before_anything_is_sent() -> None:
    writer = Writer()
    message = handle(writer)
    for patch in (
        {"op": "append", "mask": "block.content", "block": {"id": "none", "content": "x"}},
        {"op": "end"},
    ):
        with pytest.raises(PatchInvalid):
            await message.emit(patch)
    assert writer.sent == []


@pytest.mark.requirement("L30")
async def test_end_is_repeatable_with_the_same_status_and_conflicts_with_another() -> None:
    writer = Writer()
    message = handle(writer, revision=3)
    await message.end()
    await message.end("completed")
    with pytest.raises(Conflict) as caught:
        await message.end("failed")
    assert caught.value.code == "end_conflict"
    assert writer.sent == [("end:completed", 4)]
    assert message.status is MessageStatus.COMPLETED


@pytest.mark.requirement("L30")
async def test_end_on_a_restored_handle_of_an_ended_message_sends_nothing() -> None:
    writer = Writer()
    message = handle(writer, status="cancelled")
    await message.end("cancelled")
    assert writer.sent == []


@pytest.mark.requirement("L34")
async def test_a_failing_end_is_repeated_with_the_same_number() -> None:
    writer = Writer(StorageUnavailable("busy"), ConnectionLost("gone"))
    message = handle(writer, revision=3)
    await message.end()
    assert writer.sent == [("end:completed", 4)] * 3


@pytest.mark.requirement("L31")
@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
async def test_emit_on_an_ended_message_fails_locally(status: str) -> None:
    writer = Writer()
    message = handle(writer, status=status)
    with pytest.raises(Conflict) as caught:
        await message.emit(HELLO)
    assert caught.value.code == "message_ended"
    assert writer.sent == []


@pytest.mark.parametrize("status", ["streaming", "done", ""])
async def test_a_message_ends_only_with_a_final_status(status: str) -> None:
    with pytest.raises(PatchInvalid):
        await handle(Writer()).end(status)
