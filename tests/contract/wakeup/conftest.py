"""Carriers of every kind, each with a way to make it fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.services.memory_carrier import MemoryCarrier, Wire
from tests.services.postgres import PostgresServer
from tests.services.redis import RedisProcess

from lineloop.server.wakeup.carriers import postgres_carrier, redis_carrier
from lineloop.server.wakeup.relay import Carrier


@dataclass
class CarrierKind:
    """`make` gives a carrier of the named database; `fail` breaks all, `mend` lets them open again."""

    make: Callable[[str], Carrier]
    fail: Callable[[], object]
    mend: Callable[[], object]


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisProcess]:
    with RedisProcess(tmp_path) as process:
        yield process


@pytest.fixture(scope="module")
def own_postgres() -> Iterator[PostgresServer]:
    """One that may be killed: nobody else's tests are on it."""
    with PostgresServer.started() as server:
        yield server


@pytest.fixture(params=["memory", "redis", "postgres"])
def kind(request: pytest.FixtureRequest) -> CarrierKind:
    if request.param == "memory":
        wires: dict[str, Wire] = {}

        def each(action: Callable[[Wire], object]) -> Callable[[], object]:
            return lambda: [action(wire) for wire in wires.values()]

        return CarrierKind(
            lambda scope: MemoryCarrier(wires.setdefault(scope, Wire())), each(Wire.cut), each(Wire.mend)
        )
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("own_postgres")
        url = server.create()
        return CarrierKind(lambda scope: postgres_carrier(url, scope), server.kill, server.start)
    redis: RedisProcess = request.getfixturevalue("redis")
    return CarrierKind(lambda scope: redis_carrier(redis.url, scope), redis.kill, redis.start)
