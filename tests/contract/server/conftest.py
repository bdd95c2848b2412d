"""A fresh server for each test."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from lineloop.testing.server_world import ServerWorld, server_world


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[ServerWorld]:
    async with server_world(tmp_path) as world:
        yield world
