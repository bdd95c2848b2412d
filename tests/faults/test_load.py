"""Mixed load with kill -9 at random, judged by what clients were told.

The long form: `python -m tests.faults.load`.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from tests.faults.load.run import Plan, Report, load
from tests.faults.load.servers import pausing, repeating
from tests.services.postgres import PostgresServer
from tests.services.redis import RedisProcess

KINDS = ("Answered", "Appended", "Asked", "Committed", "Delivered", "Ended", "Polled", "Spoke", "Viewed")


def seed() -> int:
    """LINELOOP_TEST_SEED, or a fresh one; printed with every failure."""
    return int(os.environ.get("LINELOOP_TEST_SEED") or random.SystemRandom().randrange(1 << 32))


def judged(report: Report, used: int, *, kills: int = 0, least: int = 10) -> None:
    """Sound, and not for want of trying."""
    assert not report.violations, f"seed {used}: {[str(one) for one in report.violations[:20]]}"
    assert report.kills >= kills, report.text()
    assert all(report.operations[kind] >= least for kind in KINDS), report.text()


@pytest.mark.requirement("C30")
async def test_under_mixed_load_and_kill_9_nothing_is_lost_doubled_or_reordered(tmp_path: Path) -> None:
    used = seed()
    judged(await load(Plan(60.0, used, kill_every_seconds=12.0), tmp_path), used, kills=2)


@pytest.mark.requirement("C30")
async def test_two_servers_on_one_postgresql_do_no_worse(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    used = seed()
    url = postgres_server.create()
    try:
        report = await load(
            Plan(30.0, used, kill_every_seconds=6.0), tmp_path, servers=2, more=("--database", url)
        )
    finally:
        postgres_server.drop(url)
    judged(report, used, kills=2)


@pytest.mark.requirement("C30")
async def test_a_server_that_stands_still_and_goes_on_does_no_harm(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    used = seed()
    url = postgres_server.create()
    try:
        report = await load(
            Plan(14.0, used), tmp_path, servers=2, more=("--database", url), disturb=pausing(2.0, 8.0)
        )
    finally:
        postgres_server.drop(url)
    judged(report, used, least=3)


@pytest.mark.requirement("C30")
async def test_a_database_that_restarts_and_a_redis_that_dies_cost_latency_only(tmp_path: Path) -> None:
    used, harms = seed(), 0
    (tmp_path / "redis").mkdir()
    with PostgresServer.started() as postgres, RedisProcess(tmp_path / "redis") as redis:

        def harm() -> None:
            nonlocal harms
            redis.kill()
            postgres.restart_immediately()
            redis.start()
            harms += 1

        more = ("--database", postgres.create(), "--redis", redis.url)
        report = await load(Plan(18.0, used), tmp_path, servers=2, more=more, disturb=repeating(6.0, harm))
    assert harms >= 2
    judged(report, used, least=3)
