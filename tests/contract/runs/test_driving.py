"""Driving Runs: words, results, failure, stop, deadline, leases."""

from __future__ import annotations

import asyncio
from typing import ClassVar

import pytest
from structlog.testing import capture_logs
from tests.contract.runs.run_world import RunWorld

from lineloop.harness.adapters.demo import DemoAdapter
from lineloop.harness.adapters.port import RunIO, RunRequest, RunResult
from lineloop.harness.port import Lease
from lineloop.protocol.machines import RunPhase
from lineloop.protocol.messages import MessageStatus


class AbsentDemo(DemoAdapter):
    """A server that was set up without the demo."""

    name: ClassVar[str] = "another"


async def test_a_greeting_is_answered_in_streamed_words_that_say_what_is_speaking(world: RunWorld) -> None:
    await world.start_engine()
    run = await world.submit("hello")
    await world.reach(run, RunPhase.SUCCEEDED)
    output = await world.message(run.message_id)
    assert output.status is MessageStatus.COMPLETED
    assert output.content["meta"]["harness"] == {"target": "demo", "label": "demo, not AI"}
    assert "demo, not AI" in await world.text(run)
    assert await world.text(run) == await world.result(run)
    appends = [patch for patch in await world.patch_log(run) if patch["op"] == "append"]
    assert len(appends) > 1


@pytest.mark.requirement("L98")
async def test_result_block_and_final_phase_are_one_commit_and_two_events(world: RunWorld) -> None:
    await world.start_engine()
    run = await world.submit("/echo one")
    ended = await world.reach(run, RunPhase.SUCCEEDED)
    assert [patch["op"] for patch in await world.patch_log(run)][-2:] == ["set", "end"]
    assert (await world.patch_log(run))[-2]["block"]["id"] == "result"
    assert ended.result is not None
    assert (await world.ledger(run))[-1] == "ended"


async def test_a_failure_keeps_what_was_said_and_tells_its_public_reason(world: RunWorld) -> None:
    await world.start_engine()
    run = await world.submit("/fail the kettle is empty")
    ended = await world.reach(run, RunPhase.FAILED)
    output = await world.message(run.message_id)
    assert output.status is MessageStatus.FAILED
    assert (
        output.content["meta"]["error"]
        == ended.error
        == {
            "code": "run_failed",
            "message": "the kettle is empty",
        }
    )
    assert await world.result(run) is None


async def test_json_is_checked_against_its_schema(world: RunWorld) -> None:
    await world.start_engine()
    schema = {"type": "object", "required": ["ok"], "properties": {"ok": {"type": "boolean"}}}
    good = await world.submit('/json {"ok": true}', key="good", output_schema=schema)
    await world.reach(good, RunPhase.SUCCEEDED)
    assert await world.result(good) == {"ok": True}
    bad = await world.submit('/json {"ok": "no"}', key="bad", output_schema=schema)
    ended = await world.reach(bad, RunPhase.FAILED)
    assert ended.error is not None
    assert ended.error["code"] == "output_invalid"
    assert "output.invalid" in await world.ledger(bad)


async def test_large_numbers_in_a_json_result_keep_their_digits(world: RunWorld) -> None:
    await world.start_engine()
    run = await world.submit('/json {"n": 123456789012345678901234567890}')
    await world.reach(run, RunPhase.SUCCEEDED)
    assert await world.result(run) == {"n": 123456789012345678901234567890}


@pytest.mark.requirement("L82")
async def test_a_run_cancelled_before_it_began_never_reaches_its_adapter(world: RunWorld) -> None:
    run = await world.submit("hello")
    cancelled = await world.runs.cancel(run.id)
    assert cancelled.phase is RunPhase.CANCELLED
    await world.start_engine()
    await world.clock.advance(3)
    assert await world.ledger(run) == ["submitted", "cancel.requested", "ended"]
    assert (await world.message(run.message_id)).status is MessageStatus.CANCELLED
    assert await world.result(run) is None


async def test_stop_ends_a_running_run_at_once_and_keeps_its_words(world: RunWorld) -> None:
    await world.start_engine()
    run = await world.submit("/slow 20")
    await world.reach(run, RunPhase.RUNNING)
    await world.clock.advance(3)
    await world.runs.cancel(run.id)
    await world.clock.settle()
    assert (await world.run(run)).phase is RunPhase.CANCELLED
    assert (await world.text(run)).startswith("1 2 3")
    assert (await world.runs.cancel(run.id)).phase is RunPhase.CANCELLED


async def test_a_deadline_is_kept_while_every_slot_is_busy(world: RunWorld) -> None:
    await world.start_engine(slots=1)
    busy = await world.submit("/slow 600", key="busy", timeout_ms=60_000)
    waiting = await world.submit("hello", key="waiting", timeout_ms=5_000)
    await world.reach(busy, RunPhase.RUNNING)
    await world.clock.advance(7)
    assert (await world.run(waiting)).phase is RunPhase.TIMED_OUT
    await world.clock.advance(55)
    ended = await world.run(busy)
    assert ended.phase is RunPhase.TIMED_OUT
    assert (await world.message(busy.message_id)).content["meta"]["error"]["code"] == "run_timed_out"


@pytest.mark.requirement("L92")
async def test_maintenance_leaves_a_held_run_alone_until_its_lease_is_over(world: RunWorld) -> None:
    run = await world.submit("hello", timeout_ms=5_000)
    (claim,) = await world.runs.claim("somebody", 10, 30_000)
    await world.clock.advance(10)
    assert await world.runs.end_due(10) == 0
    await world.runs.release([claim.lease])
    assert await world.runs.end_due(10) == 1
    assert (await world.run(run)).phase is RunPhase.TIMED_OUT


@pytest.mark.requirement("L94")
async def test_a_lease_has_one_holder_and_an_expired_one_cannot_be_renewed(world: RunWorld) -> None:
    run = await world.submit("hello")
    (first,) = await world.runs.claim("a", 10, 30_000)
    assert await world.runs.claim("b", 10, 30_000) == []
    assert (await world.runs.renew([first.lease], 30_000)).lost == frozenset()
    await world.clock.advance(31)
    assert (await world.runs.renew([first.lease], 30_000)).lost == {run.id}
    (second,) = await world.runs.claim("b", 10, 30_000)
    assert second.lease == Lease(run.id, "b", first.lease.token + 1)


@pytest.mark.sqlite
async def test_a_server_that_starts_anew_takes_up_the_runs_of_the_dead_at_once(world: RunWorld) -> None:
    await world.start_engine()
    run = await world.submit("/slow 5")
    held = await world.reach(run, RunPhase.RUNNING)
    await world.kill_engine()
    assert (await world.run(run)).is_held(world.clock.now_ms())
    assert await world.runs.forget_leases() == 1
    await world.start_engine()
    await world.reach(run, RunPhase.SUCCEEDED)
    assert (await world.run(run)).lease_token > held.lease_token
    assert (await world.text(run)).startswith("1 2 3 4 5.")


class Clinging(DemoAdapter):
    """Does not let go at once when it is cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self.may_go = asyncio.Event()

    async def run(self, request: RunRequest, io: RunIO) -> RunResult:
        try:
            return await super().run(request, io)
        finally:
            await self.may_go.wait()


async def test_a_run_that_comes_during_a_stop_is_given_back_and_nothing_crashes(world: RunWorld) -> None:
    adapter = Clinging()
    runner = await world.start_engine(adapter)
    working = await world.submit("/slow 5")
    await world.reach(working, RunPhase.RUNNING)
    world.engines.clear()
    with capture_logs() as logged:
        stopping = asyncio.ensure_future(runner.stop())
        run = await world.submit("/slow 5", key="k2")
        while not (await world.run(run)).lease_token:
            await world.clock.advance(0.01)
        await world.clock.advance(0.01)
        adapter.may_go.set()
        await stopping
    assert not [entry for entry in logged if entry["log_level"] == "error"]
    for each in (working, run):
        assert not (await world.run(each)).is_held(world.clock.now_ms())


async def test_a_graceful_stop_gives_every_run_back_at_once(world: RunWorld) -> None:
    runner = await world.start_engine()
    run = await world.submit("/slow 5")
    await world.reach(run, RunPhase.RUNNING)
    world.engines.clear()
    with capture_logs() as logged:
        await runner.stop()
    assert [entry["event"] for entry in logged] == [], "a stop is no crash"
    assert (await world.run(run)).lease_holder is None
    await world.start_engine()
    await world.reach(run, RunPhase.SUCCEEDED)
    assert (await world.text(run)).startswith("1 2 3 4 5.")


@pytest.mark.requirement("L105")
async def test_a_run_whose_harness_is_gone_ends_unknown(world: RunWorld) -> None:
    run = await world.submit("hello")
    await world.start_engine(AbsentDemo())
    ended = await world.reach(run, RunPhase.UNKNOWN)
    assert ended.error is not None
    assert ended.error["code"] == "run_outcome_unknown"
