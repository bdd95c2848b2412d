"""A Run that loses its engine at any commit ends as if nothing had happened: same words, one call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.contract.runs.run_world import RunWorld, envelope, run_world

from lineloop.protocol.envelopes import Stage
from lineloop.protocol.machines import RunPhase

pytestmark = pytest.mark.slow

SITES = [
    (label, nth, side)
    for label, count in (
        ("harness.claim", 3),
        ("harness.step", 5),
        ("harness.tool_dispatch", 1),
        ("harness.tool_result", 2),
        ("harness.finish", 1),
    )
    for nth in range(1, count + 1)
    for side in ("before", "after")
]


async def tell_the_story(world: RunWorld, death: tuple[str, int, str] | None) -> dict[str, Any]:
    """A focus is started by a sentence; the engine dies once where it is told to, the device never does."""
    await world.connect_device()
    await world.publish()
    await world.start_engine(death=death)
    run = await world.submit("start a 1 minute focus called tea", tools=["inventory", "human"])
    answered = 0
    died = False
    for _ in range(300):
        await world.clock.settle()
        if not died and world.engine_died:
            died = True
            await world.kill_engine()
            await world.outlive_leases()
            await world.start_engine()
        for invoke in (await world.invokes())[answered:]:
            answered += 1
            await world.receipt(invoke, Stage.STARTING, 1)
            await world.receipt(invoke, Stage.STARTED, 2, duration_ms=60_000)
        if (await world.run(run)).phase is RunPhase.SUCCEEDED:
            break
        await world.clock.advance(0.5)
    ended = await world.run(run)
    assert ended.phase is RunPhase.SUCCEEDED
    assert (died or world.engine_died) == (death is not None)
    output = await world.message(run.message_id)
    ledger = await world.runs.ledger(run.id, after=0, limit=1000)
    return {
        "result": await world.result(run),
        "text": [b for b in output.content["blocks"] if b["type"] == "text" and b["id"].startswith("text-")],
        "tools": [b for b in output.content["blocks"] if b["type"] == "tool"],
        "calls": [envelope(m)["payload"]["params"] for m in await world.invokes()],
        "recorded": sorted(
            (e.type, str(e.key)) for e in ledger if e.type in ("model.response", "tool.result")
        ),
        "ends": sum(1 for e in ledger if e.type == "ended"),
        "seqs": [e.seq for e in ledger] == list(range(1, len(ledger) + 1)),
        "patches": [p["seq"] for p in await world.patch_log(run)] == list(range(1, output.revision + 1)),
    }


@pytest.fixture(scope="module")
def told() -> dict[str, dict[str, Any]]:
    """The story without a crash, told once."""
    return {}


@pytest.mark.parametrize("site", SITES, ids=lambda site: "-".join(map(str, site)))
async def test_a_run_whose_engine_dies_at_a_commit_ends_as_without_the_crash(
    tmp_path: Path, site: tuple[str, int, str], told: dict[str, dict[str, Any]]
) -> None:
    if not told:
        (tmp_path / "calm").mkdir()
        async with run_world(tmp_path / "calm") as world:
            told["story"] = await tell_the_story(world, None)
    async with run_world(tmp_path) as world:
        assert await tell_the_story(world, site) == told["story"]
