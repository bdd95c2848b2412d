"""Seeded histories of agents, people, hosts and crashes: what was accepted is answered, once.

`make faults SEED=… N=…` repeats or widens them; each history has its own seed, printed when it fails.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from tests.faults.device.simulation import violations_in

GROUPS = 10
HISTORIES = int(os.environ.get("LINELOOP_TEST_N") or 50)
SEED = int(os.environ.get("LINELOOP_TEST_SEED") or random.SystemRandom().randrange(1 << 32))


@pytest.mark.slow
@pytest.mark.requirement("D104", "D105")
@pytest.mark.parametrize("group", range(GROUPS))
async def test_whatever_happens_accepted_is_answered_once(tmp_path: Path, group: int) -> None:
    decisions = 0
    for number in range(group, HISTORIES, GROUPS):
        seed = SEED + number
        violations, decided = await violations_in(seed, tmp_path / str(number))
        assert not violations, f"LINELOOP_TEST_SEED={seed} LINELOOP_TEST_N=1\n" + "\n".join(violations)
        decisions += decided
    assert decisions >= len(range(group, HISTORIES, GROUPS))
