"""What the engine promises an adapter, by how it can be replayed: one contract, told by small adapters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.contract.runs.run_world import RunWorld, run_world

from lineloop.harness.adapters.port import (
    Cancel,
    Reference,
    Replay,
    RunFailed,
    RunIO,
    RunRequest,
    RunResult,
)
from lineloop.protocol.machines import RunPhase


def words(block_id: str, text: str) -> dict[str, Any]:
    return {"op": "set", "block": {"id": block_id, "type": "text", "content": text}}


@dataclass
class Remote:
    """A backend that outlives the engine: what it was asked, and what it says."""

    says: list[str] = field(default_factory=lambda: ["one", "two", "three"])
    started: int = 0
    resumed: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])
    repaired: int = 0
    failures: int = 0
    results: list[RunResult] = field(default_factory=list[RunResult])


class ExactAdapter:
    """Says again what its backend says, from the beginning."""

    name: ClassVar[str] = "exact"
    replay: ClassVar[Replay] = Replay.EXACT
    cancel: ClassVar[Cancel] = Cancel.BEST_EFFORT
    label: ClassVar[str] = ""

    def __init__(self, remote: Remote) -> None:
        self.remote = remote

    async def run(self, request: RunRequest, io: RunIO) -> RunResult:
        await io.submitting()
        self.remote.started += 1
        await io.reference(f"native-{self.remote.started}", {"text": request.text})
        return await self._observe(io)

    async def resume(self, request: RunRequest, references: Sequence[Reference], io: RunIO) -> RunResult:
        self.remote.resumed.append(tuple(reference.native_id for reference in references))
        return await self._observe(io)

    async def repair(self, request: RunRequest, invalid: Any, problem: str, io: RunIO) -> RunResult | None:
        self.remote.repaired += 1
        return self.remote.results.pop(0) if self.remote.results else None

    async def _observe(self, io: RunIO) -> RunResult:
        if self.remote.failures:
            self.remote.failures -= 1
            raise RunFailed("run_failed", "the backend could not be observed", retryable=True)
        for place, text in enumerate(self.remote.says):
            await io.emit(words(f"part-{place}", text))
            await io.flush()
            await io.sleep(1.0)
        return self.remote.results.pop(0) if self.remote.results else RunResult("text", "done")


class OnceAdapter(ExactAdapter):
    """A backend that cannot be observed again."""

    name: ClassVar[str] = "once"
    replay: ClassVar[Replay] = Replay.NONE

    async def run(self, request: RunRequest, io: RunIO) -> RunResult:
        self.remote.started += 1
        return await self._observe(io)


class DeafAdapter(OnceAdapter):
    """Does not listen when it is cancelled for the first time."""

    name: ClassVar[str] = "deaf"

    async def _observe(self, io: RunIO) -> RunResult:
        for _ in range(2):
            try:
                await io.sleep(3600)
            except BaseException:
                continue
        return RunResult("text", "too late")


@pytest.fixture
async def world(tmp_path: Path) -> Any:
    async with run_world(tmp_path, targets=("exact", "once", "deaf"), slots=2) as made:
        yield made


def parts(blocks: list[dict[str, Any]]) -> list[str]:
    return [block["content"] for block in blocks if block["id"].startswith("part-")]


@pytest.mark.requirement("L84", "L96")
async def test_a_take_over_resumes_by_reference_and_repeats_no_output(world: RunWorld) -> None:
    remote = Remote()
    await world.start_engine(ExactAdapter(remote))
    run = await world.submit("go", target="exact")
    await world.reach(run, RunPhase.RUNNING)
    await world.clock.advance(1.5)
    await world.kill_engine()
    await world.outlive_leases()
    await world.start_engine(ExactAdapter(remote))
    await world.reach(run, RunPhase.SUCCEEDED)
    assert (remote.started, remote.resumed) == (1, [("native-1",)])
    assert parts((await world.message(run.message_id)).content["blocks"]) == ["one", "two", "three"]
    sets = [p["block"]["id"] for p in await world.patch_log(run) if "block" in p]
    assert sets == ["part-0", "part-1", "part-2", "result"]


@pytest.mark.requirement("L85")
async def test_a_replay_that_says_something_else_fails_the_run(world: RunWorld) -> None:
    remote = Remote()
    await world.start_engine(ExactAdapter(remote))
    run = await world.submit("go", target="exact")
    await world.reach(run, RunPhase.RUNNING)
    await world.clock.advance(1.5)
    await world.kill_engine()
    await world.outlive_leases()
    remote.says[0] = "uno"
    await world.start_engine(ExactAdapter(remote))
    ended = await world.reach(run, RunPhase.FAILED)
    assert ended.error is not None
    assert "replay differs" in ended.error["message"]
    assert parts((await world.message(run.message_id)).content["blocks"]) == ["one", "two"]


@pytest.mark.requirement("L104")
async def test_a_run_that_cannot_be_continued_ends_unknown_and_never_runs_twice(world: RunWorld) -> None:
    remote = Remote()
    await world.start_engine(OnceAdapter(remote))
    run = await world.submit("go", target="once")
    await world.reach(run, RunPhase.RUNNING)
    await world.kill_engine()
    await world.outlive_leases()
    await world.start_engine(OnceAdapter(remote))
    await world.reach(run, RunPhase.UNKNOWN)
    assert remote.started == 1


@pytest.mark.requirement("L104", "L103")
async def test_a_failed_observation_is_tried_again_later_and_not_failed(world: RunWorld) -> None:
    remote = Remote(failures=2)
    await world.start_engine(ExactAdapter(remote))
    run = await world.submit("go", target="exact")
    await world.reach(run, RunPhase.SUCCEEDED)
    assert (remote.started, len(remote.resumed)) == (1, 2)
    assert (await world.ledger(run)).count("retry") == 2


async def test_a_crash_between_hand_over_and_reference_is_an_unknown_outcome(world: RunWorld) -> None:
    remote = Remote()
    await world.start_engine(ExactAdapter(remote), death=("harness.step", 2, "before"))
    run = await world.submit("go", target="exact")
    await world.clock.settle()
    assert world.engine_died
    await world.kill_engine()
    await world.outlive_leases()
    await world.start_engine(ExactAdapter(remote))
    await world.reach(run, RunPhase.UNKNOWN)
    assert (remote.started, remote.resumed) == (1, [])


async def test_an_invalid_result_is_repaired_once(world: RunWorld) -> None:
    schema = {"type": "object", "required": ["ok"]}
    remote = Remote(says=[], results=[RunResult("text", "not json"), RunResult("text", '{"ok": 1}')])
    await world.start_engine(ExactAdapter(remote))
    run = await world.submit("go", target="exact", output_schema=schema)
    await world.reach(run, RunPhase.SUCCEEDED)
    assert await world.result(run) == {"ok": 1}
    stubborn = Remote(says=[], results=[RunResult("json", 1), RunResult("json", 2)])
    await world.kill_engine()
    await world.start_engine(ExactAdapter(stubborn))
    other = await world.submit("go", key="k2", target="exact", output_schema=schema)
    ended = await world.reach(other, RunPhase.FAILED)
    assert (ended.error or {})["code"] == "output_invalid"
    assert stubborn.repaired == 1


async def test_an_adapter_that_does_not_listen_is_left_behind_and_the_run_still_ends(world: RunWorld) -> None:
    await world.start_engine(DeafAdapter(Remote()))
    run = await world.submit("go", target="deaf")
    await world.reach(run, RunPhase.RUNNING)
    await world.runs.cancel(run.id)
    await world.clock.advance(6)
    assert (await world.run(run)).phase is RunPhase.CANCELLED
    (ended,) = [e for e in await world.runs.ledger(run.id, after=0, limit=99) if e.type == "ended"]
    assert ended.facts["native_unconfirmed"] is True


@pytest.mark.requirement("L90")
async def test_a_recovered_run_takes_a_slot(world: RunWorld) -> None:
    remote = Remote(says=["x"] * 50)
    await world.start_engine(ExactAdapter(remote))
    first = await world.submit("go", target="exact")
    await world.submit("go", key="k2", target="exact")
    await world.reach(first, RunPhase.RUNNING)
    await world.kill_engine()
    await world.outlive_leases()
    with pytest.raises(Exception, match="slots"):
        await world.submit("go", key="k3", target="exact")


async def test_a_late_writer_is_refused_by_the_storage(world: RunWorld) -> None:
    remote = Remote()
    runner = await world.start_engine(ExactAdapter(remote))
    run = await world.submit("go", target="exact")
    await world.reach(run, RunPhase.RUNNING)
    # Somebody takes over although this engine still lives, as after a long pause of its process.
    await world.commits.write(
        lambda tx: tx.run("UPDATE harness_runs SET lease_holder = 'other', lease_token = lease_token + 1")
    )
    await world.clock.advance(2)
    assert runner.driving == 0
    assert (await world.run(run)).phase is RunPhase.RUNNING
    assert parts((await world.message(run.message_id)).content["blocks"]) == ["one"]
