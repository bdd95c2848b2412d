"""Accepting Runs: one transaction, one key, a bounded number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.contract.runs.run_world import RunWorld, run_world

from lineloop.protocol.errors import ErrorCode, LoopError
from lineloop.protocol.machines import RunPhase
from lineloop.protocol.messages import MessageStatus, Purpose


async def refused(world: RunWorld, text: str, **fields: Any) -> LoopError:
    with pytest.raises(LoopError) as caught:
        await world.submit(text, **fields)
    return caught.value


async def count(world: RunWorld, table: str) -> int:
    row = await world.commits.read(lambda tx: tx.one(f"SELECT count(*) FROM {table}"))
    assert row is not None
    return row[0]


@pytest.mark.requirement("L79", "L81")
async def test_a_run_is_accepted_and_stays_runnable_although_nobody_drives_it(world: RunWorld) -> None:
    run = await world.submit("hello", timeout_ms=60_000)
    assert run.phase is RunPhase.PENDING
    assert run.deadline_at == world.clock.now_ms() + 60_000
    output = await world.message(run.message_id)
    assert (output.status, output.purpose, output.conversation_id) == (
        MessageStatus.STREAMING,
        Purpose.RUN,
        world.workspace,
    )
    assert await world.runs.has_runnable()


@pytest.mark.requirement("L80")
async def test_the_same_key_answers_with_the_same_run_and_deadline(world: RunWorld) -> None:
    first = await world.submit("hello")
    await world.clock.advance(5)
    again = await world.submit("hello")
    assert (again.id, again.deadline_at) == (first.id, first.deadline_at)
    assert (await refused(world, "another text")).code is ErrorCode.KEY_CONFLICT
    assert (await refused(world, "hello", key="k2", target="nobody")).code is ErrorCode.HARNESS_TARGET_UNKNOWN
    assert await count(world, "harness_runs") == 1


@pytest.mark.requirement("L87", "L88", "L89")
async def test_full_slots_refuse_new_runs_and_store_nothing_of_them(tmp_path: Path) -> None:
    async with run_world(tmp_path, slots=3) as world:
        before = await count(world, "messages")
        codes: list[str] = []
        for number in range(20):
            try:
                await world.submit("hello", key=f"k{number}")
                codes.append("accepted")
            except LoopError as error:
                codes.append(str(error.code))
        assert codes == ["accepted"] * 3 + [str(ErrorCode.HARNESS_CAPACITY_EXCEEDED)] * 17
        assert (await count(world, "harness_runs"), await count(world, "messages")) == (3, before + 3)
        assert (await world.submit("hello", key="k1")).phase is RunPhase.PENDING
        assert (await refused(world, "changed", key="k1")).code is ErrorCode.KEY_CONFLICT
        await world.start_engine()
        first = await world.submit("hello", key="k0")
        await world.reach(first, RunPhase.SUCCEEDED)
        assert (await world.submit("hello", key="k19")).phase is RunPhase.PENDING


@pytest.mark.requirement("L93")
async def test_a_failed_insert_leaves_no_message_and_the_key_free(tmp_path: Path) -> None:
    async with run_world(tmp_path, plan="harness.submit.before_commit:raise", slots=1) as world:
        before = await count(world, "messages")
        assert (await refused(world, "hello")).code is ErrorCode.FAULT_INJECTED
        assert await count(world, "messages") == before
        assert (await world.submit("hello")).phase is RunPhase.PENDING


async def test_a_lost_answer_to_a_submission_is_found_again_by_its_key(tmp_path: Path) -> None:
    async with run_world(tmp_path, plan="harness.submit.after_commit:lost_ack") as world:
        with pytest.raises(LoopError):
            await world.submit("hello")
        assert (await world.submit("hello")).phase is RunPhase.PENDING
        assert await count(world, "harness_runs") == 1


@pytest.mark.requirement("L83")
async def test_a_run_that_does_not_exist_is_not_found(world: RunWorld) -> None:
    for call in (world.runs.get("run_none"), world.runs.cancel("run_none")):
        with pytest.raises(LoopError) as caught:
            await call
        assert caught.value.code is ErrorCode.RUN_NOT_FOUND
