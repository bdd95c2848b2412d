"""Fixtures of the tests of apps."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.unit.device_apps.apps_world import AppsWorld, apps_world


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[AppsWorld]:
    async with apps_world(tmp_path) as made:
        yield made
