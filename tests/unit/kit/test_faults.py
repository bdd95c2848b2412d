"""Named sites: nothing happens without a plan, and exactly the planned thing with one."""

from __future__ import annotations

import asyncio
import threading

import pytest

from lineloop.kit.faults import FaultInjected, FaultMode, Faults
from lineloop.testing import until

SITES = ("part.before_commit", "part.after_commit")
BEFORE, AFTER = SITES


@pytest.mark.requirement("K16")
@pytest.mark.parametrize(
    "plan", ["elsewhere:raise", f"{BEFORE}:explode", BEFORE, f"{BEFORE}:raise:0", f"{BEFORE}:raise:x"]
)
def test_a_plan_that_names_something_unknown_is_refused(plan: str) -> None:
    with pytest.raises(ValueError):
        Faults(SITES, plan)


@pytest.mark.requirement("K16")
def test_a_fault_strikes_at_its_nth_time_and_everything_is_counted() -> None:
    faults = Faults(SITES, f"{BEFORE}:raise:2, {AFTER}:lost_ack:*")
    assert faults.reach(BEFORE) is None
    with pytest.raises(FaultInjected) as caught:
        faults.reach(BEFORE)
    assert caught.value.site == BEFORE
    assert faults.reach(BEFORE) is None
    assert [faults.reach(AFTER) for _ in range(2)] == [FaultMode.LOST_ACK] * 2
    assert faults.reached == {BEFORE: 3, AFTER: 2}
    with pytest.raises(ValueError):
        faults.reach("elsewhere")


@pytest.mark.requirement("K16")
def test_without_a_plan_every_site_is_accepted_and_counted() -> None:
    faults = Faults.none()
    assert faults.reach("anything") is None
    assert faults.knows("whatever")
    assert faults.reached == {"anything": 1}


@pytest.mark.requirement("K16")
async def test_a_hang_holds_until_it_is_released() -> None:
    faults = Faults(SITES, f"{BEFORE}:hang,{AFTER}:hang")
    passed: list[str] = []

    async def task() -> None:
        await faults.areach(BEFORE)
        passed.append("task")

    def thread() -> None:
        faults.reach(AFTER)
        passed.append("thread")

    running = asyncio.get_running_loop().create_task(task())
    worker = threading.Thread(target=thread)
    worker.start()
    await until(lambda: sum(faults.reached.values()) == 2)
    assert passed == []
    faults.release()
    await until(lambda: sorted(passed) == ["task", "thread"])
    await running
    worker.join()


@pytest.mark.requirement("K16")
async def test_a_delay_passes_by_itself_and_other_modes_are_told_to_async_callers_too() -> None:
    faults = Faults(SITES, f"{BEFORE}:delay,{AFTER}:duplicate", delay_seconds=0.001)
    assert await faults.areach(BEFORE) is FaultMode.DELAY
    assert await faults.areach(AFTER) is FaultMode.DUPLICATE
