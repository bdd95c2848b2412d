"""Fixtures of the tests of Runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.contract.runs.run_world import RunWorld, run_world


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[RunWorld]:
    async with run_world(tmp_path) as made:
        yield made
