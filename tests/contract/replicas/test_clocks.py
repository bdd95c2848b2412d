"""Servers whose machines disagree about the time go by the database's clock."""

from __future__ import annotations

import time

import pytest
from tests.contract.server.calls import get, speak
from tests.contract.wakeup.replicas import replica

from lineloop.kit.clock import SharedClock, SystemClock, parse_rfc3339


@pytest.mark.requirement("R13")
async def test_a_machine_with_a_wrong_clock_stamps_with_the_databases_time(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = SystemClock.now_ms
    monkeypatch.setattr(SystemClock, "now_ms", lambda self: real(self) + 3_600_000)
    async with replica(postgres_url) as place:
        assert isinstance(place.server.clock, SharedClock)
        root = (await place.http.post("/v1/conversations", json={})).json()["id"]
        said = await speak(place.http, root, "a")
        stamped = parse_rfc3339((await get(place.http, f"/messages/{said['id']}"))["created_at"])
        assert abs(stamped - time.time() * 1000) < 5_000


def test_what_is_measured_moves_the_clock_once() -> None:
    clock = SharedClock()
    clock.measured(10_500, 10_000, 10_200)
    assert clock.ahead_ms == 400
    clock.measured(20_000, 19_990, 20_010)
    assert clock.ahead_ms == 400
