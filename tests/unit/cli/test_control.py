"""The private door to a running device."""

from __future__ import annotations

import asyncio
import json
import stat
from pathlib import Path
from typing import Any

import pytest

from lineloop.cli.control import CONTROL, ControlDoor, knock
from lineloop.kit.ids import Ids
from lineloop.protocol.errors import ConnectionLost, ErrorCode, LoopError, NotFound, Unauthorized
from lineloop.testing import FakeClock


async def handle(verb: str, arguments: dict[str, Any]) -> Any:
    if verb == "fail":
        raise NotFound("there is no such app", code=ErrorCode.APP_NOT_INSTALLED)
    return {"verb": verb, **arguments}


async def test_who_reads_the_private_file_is_let_in(tmp_path: Path) -> None:
    async with ControlDoor(tmp_path, Ids(FakeClock()), handle):
        assert stat.S_IMODE((tmp_path / CONTROL).stat().st_mode) == 0o600
        assert await knock(tmp_path, "enable", {"app_scope": "x"}) == {"verb": "enable", "app_scope": "x"}
    assert not (tmp_path / CONTROL).exists()


async def test_a_coded_error_comes_through_the_door(tmp_path: Path) -> None:
    async with ControlDoor(tmp_path, Ids(FakeClock()), handle):
        with pytest.raises(LoopError) as refused:
            await knock(tmp_path, "fail", {})
    assert refused.value.code is ErrorCode.APP_NOT_INSTALLED


async def test_a_wrong_secret_and_noise_are_refused_and_the_door_stays_open(tmp_path: Path) -> None:
    async with ControlDoor(tmp_path, Ids(FakeClock()), handle):
        file = tmp_path / CONTROL
        door = json.loads(file.read_text())
        file.write_text(json.dumps({**door, "secret": "guess"}))
        with pytest.raises(Unauthorized):
            await knock(tmp_path, "list", {})
        _, noise = await asyncio.open_connection("127.0.0.1", door["port"])
        noise.write(b"GET / HTTP/1.1\r\n\r\n")
        noise.close()
        file.write_text(json.dumps(door))
        assert (await knock(tmp_path, "list", {}))["verb"] == "list"


async def test_without_a_running_device_nobody_answers(tmp_path: Path) -> None:
    with pytest.raises(ConnectionLost):
        await knock(tmp_path, "list", {})
    (tmp_path / CONTROL).write_text('{"port": 1, "secret": "x"}')
    with pytest.raises(ConnectionLost):
        await knock(tmp_path, "list", {})
