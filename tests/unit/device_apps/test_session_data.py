"""Session data: revisions, races, quotas, isolation, restart."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.unit.device_apps.apps_world import AppsWorld, apps_world

from lineloop.device.commit_session_data import Snapshot
from lineloop.device.containers.port import SessionContext
from lineloop.device.decide.session_data import (
    MAX_APP_BYTES,
    MAX_SESSION_BYTES,
    CheckedData,
    StoredData,
    check_session_data,
    decide_replace,
    parse_session_data,
)
from lineloop.kit.faults import Faults
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import LoopError, StorageUnavailable
from lineloop.protocol.fault_sites import FaultSite


def seen(snapshots: list[Snapshot]) -> list[int]:
    return [snapshot.revision for snapshot in snapshots]


@pytest.mark.requirement("D37")
async def test_nothing_saved_is_null_at_revision_zero_and_replaces_count_from_there(world: AppsWorld) -> None:
    session = await world.session()
    assert await world.session_data.get(session) == Snapshot(None, 0)
    assert await world.session_data.replace(session, {"a": [1, "ä"]}, 0) == 1
    with pytest.raises(LoopError) as refused:
        await world.session_data.replace(session, {"a": 2}, 0)
    assert refused.value.code is ErrorCode.SESSION_DATA_REVISION_CONFLICT
    assert refused.value.detail == {"revision": 1}
    snapshot = await world.session_data.get(session)
    assert (snapshot.data, snapshot.revision) == ({"a": [1, "ä"]}, 1)


@pytest.mark.requirement("D38")
async def test_a_replace_before_the_subscription_is_in_its_first_frame(world: AppsWorld) -> None:
    session = await world.session()
    snapshots: list[Snapshot] = []
    first = await world.session_data.get(session)
    replacing = world.session_data.replace(session, {"n": 1}, first.revision)
    subscribing = world.session_data.subscribe(session, snapshots.append)
    await asyncio.gather(replacing, subscribing)
    assert seen(snapshots) == [1]
    assert snapshots[0].data == {"n": 1}


@pytest.mark.requirement("D38")
async def test_a_replace_after_the_subscription_follows_its_first_frame(world: AppsWorld) -> None:
    session = await world.session()
    snapshots: list[Snapshot] = []
    subscribing = world.session_data.subscribe(session, snapshots.append)
    replacing = world.session_data.replace(session, {"n": 1}, 0)
    await asyncio.gather(subscribing, replacing)
    assert seen(snapshots) == [0, 1]
    for revision in range(1, 20):
        await world.session_data.replace(session, {"n": revision + 1}, revision)
    assert seen(snapshots) == list(range(21))


async def test_a_closed_subscription_hears_nothing_more(world: AppsWorld) -> None:
    session = await world.session()
    snapshots: list[Snapshot] = []
    subscription = await world.session_data.subscribe(session, snapshots.append)
    subscription.close()
    subscription.close()
    await world.session_data.replace(session, {}, 0)
    assert seen(snapshots) == [0]
    assert world.session_data.subscriptions == 0


@pytest.mark.requirement("D39")
async def test_of_a_hundred_replaces_on_one_revision_exactly_one_wins(world: AppsWorld) -> None:
    session = await world.session()
    outcomes = await asyncio.gather(
        *(world.session_data.replace(session, {"n": n}, 0) for n in range(100)), return_exceptions=True
    )
    won = [n for n, outcome in enumerate(outcomes) if outcome == 1]
    lost = [outcome for outcome in outcomes if isinstance(outcome, LoopError)]
    assert len(won) == 1
    assert {error.code for error in lost} == {ErrorCode.SESSION_DATA_REVISION_CONFLICT}
    assert len(lost) == 99
    snapshot = await world.session_data.get(session)
    assert (snapshot.data, snapshot.revision) == ({"n": won[0]}, 1)


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"v": value}
    return value


@pytest.mark.requirement("D40")
@pytest.mark.parametrize(
    ("data", "code"),
    [
        ([1], ErrorCode.SESSION_DATA_INVALID),
        (None, ErrorCode.SESSION_DATA_INVALID),
        ({"n": float("nan")}, ErrorCode.SESSION_DATA_INVALID),
        ({"n": float("inf")}, ErrorCode.SESSION_DATA_INVALID),
        ({"t": "\ud800"}, ErrorCode.SESSION_DATA_INVALID),
        ({"t": object()}, ErrorCode.SESSION_DATA_INVALID),
        (nested(65), ErrorCode.SESSION_DATA_INVALID),
        ({"t": "x" * MAX_SESSION_BYTES}, ErrorCode.SESSION_DATA_QUOTA_EXCEEDED),
    ],
)
async def test_what_is_not_acceptable_leaves_the_stored_value_alone(
    world: AppsWorld, data: Any, code: ErrorCode
) -> None:
    session = await world.session()
    await world.session_data.replace(session, {"kept": True}, 0)
    with pytest.raises(LoopError) as refused:
        await world.session_data.replace(session, data, 1)
    assert refused.value.code is code
    assert await world.session_data.get(session) == Snapshot('{"kept":true}', 1)


@pytest.mark.requirement("D40")
@pytest.mark.parametrize("revision", [-1, 1.0, "1", True, None, 2**60])
async def test_an_expected_revision_is_a_whole_number(world: AppsWorld, revision: Any) -> None:
    session = await world.session()
    await world.session_data.replace(session, {}, 0)
    with pytest.raises(LoopError) as refused:
        await world.session_data.replace(session, {"n": 1}, revision)
    assert refused.value.code is ErrorCode.SESSION_DATA_INVALID


@pytest.mark.requirement("D40")
@pytest.mark.parametrize(
    "text",
    ["{", "{} {}", '{"a":1,"a":2}', '{"a":{"b":1,"b":1}}', '{"a":NaN}', '{"a":-Infinity}', '{"a":"\\ud800"}'],
)
def test_text_that_is_not_strict_json_is_refused(text: str) -> None:
    with pytest.raises(LoopError) as refused:
        parse_session_data(text)
    assert refused.value.code is ErrorCode.SESSION_DATA_INVALID


def test_depth_64_and_the_full_quota_are_still_allowed() -> None:
    assert check_session_data(nested(64)).size_bytes > 0
    overhead = check_session_data({"t": ""}).size_bytes
    assert check_session_data({"t": "x" * (MAX_SESSION_BYTES - overhead)}).size_bytes == MAX_SESSION_BYTES


@pytest.mark.requirement("D40")
def test_all_sub_sessions_of_an_app_share_one_quota() -> None:
    full = CheckedData("{}", MAX_SESSION_BYTES)
    stored = StoredData(3, MAX_SESSION_BYTES)
    assert decide_replace(stored, MAX_APP_BYTES, full, 3).revision == 4
    with pytest.raises(LoopError) as refused:
        decide_replace(StoredData(), MAX_APP_BYTES - 10, full, 0)
    assert refused.value.code is ErrorCode.SESSION_DATA_QUOTA_EXCEEDED


async def test_the_bytes_of_an_app_follow_its_replaces(world: AppsWorld) -> None:
    for name, text in (("ses_1", "x" * 10), ("ses_2", "y" * 20)):
        await world.session_data.replace(await world.session(name), {"t": text}, 0)
    await world.session_data.replace(await world.session("ses_2"), {}, 1)
    row = await world.foundation.read(lambda tx: tx.one("SELECT size_bytes FROM session_data_usage"))
    assert row is not None
    assert row[0] == len('{"t":"xxxxxxxxxx"}') + 2


@pytest.mark.requirement("D41")
@pytest.mark.parametrize(("scope", "name"), [("other", "ses_1"), ("probe", "ses_9")])
async def test_another_apps_or_an_unknown_session_does_not_exist(
    world: AppsWorld, scope: str, name: str
) -> None:
    await world.session_data.replace(await world.session("ses_1"), {"secret": 1}, 0)
    foreign = SessionContext(scope, name, "con_1", "1.0.0")
    for attempt in (
        world.session_data.get(foreign),
        world.session_data.replace(foreign, {}, 1),
        world.session_data.subscribe(foreign, lambda _: None),
    ):
        with pytest.raises(LoopError) as refused:
            await attempt
        assert refused.value.code is ErrorCode.SESSION_DATA_UNAVAILABLE
    assert world.session_data.subscriptions == 0


@pytest.mark.requirement("D41")
async def test_sessions_hear_only_of_their_own_data(world: AppsWorld) -> None:
    heard: dict[str, list[Snapshot]] = {"ses_1": [], "ses_2": []}
    for name, snapshots in heard.items():
        await world.session_data.subscribe(await world.session(name), snapshots.append)
    await world.session_data.replace(await world.session("ses_1"), {"n": 1}, 0)
    assert seen(heard["ses_1"]) == [0, 1]
    assert seen(heard["ses_2"]) == [0]


async def test_closing_a_sub_session_does_not_make_its_data_read_only(world: AppsWorld) -> None:
    session = await world.session()
    await world.foundation.write(lambda tx: tx.run("UPDATE sub_sessions SET state = 'closed'"))
    assert await world.session_data.replace(session, {"n": 1}, 0) == 1


async def test_data_survive_a_restart(tmp_path: Path) -> None:
    async with apps_world(tmp_path) as world:
        await world.session_data.replace(await world.session(), {"n": 1}, 0)
    async with apps_world(tmp_path) as world:
        snapshot = await world.session_data.get(await world.session())
        assert (snapshot.data, snapshot.revision) == ({"n": 1}, 1)


@pytest.mark.slow
@pytest.mark.requirement("D42")
@pytest.mark.parametrize(
    ("site", "stored"),
    [
        (FaultSite.DEVICE_SESSION_DATA_REPLACE_BEFORE_COMMIT, {"n": 0}),
        (FaultSite.DEVICE_SESSION_DATA_REPLACE_AFTER_COMMIT, {"n": 1, "text": "x" * 100_000}),
    ],
)
async def test_killed_in_a_write_there_is_the_old_or_the_new_value(
    tmp_path: Path, site: FaultSite, stored: dict[str, Any]
) -> None:
    async with apps_world(tmp_path) as world:
        await world.session_data.replace(await world.session(), {"n": 0}, 0)
    child = subprocess.run(  # noqa: ASYNC221 (the process is meant to die)
        [sys.executable, "-m", "tests.unit.device_apps.replace_and_die", str(tmp_path), site],
        cwd=Path(__file__).parents[3],
        env={**os.environ, "PYTHONPATH": "src"},
        check=False,
    )
    assert child.returncode == -signal.SIGKILL
    async with apps_world(tmp_path) as world:
        snapshot = await world.session_data.get(await world.session())
        assert snapshot.data == stored


async def test_a_replace_undone_by_the_storage_is_heard_by_nobody(tmp_path: Path) -> None:
    site = FaultSite.DEVICE_SESSION_DATA_REPLACE_BEFORE_COMMIT
    faults = Faults(list(FaultSite), f"{site}:raise")
    async with apps_world(tmp_path, faults=faults) as world:
        session = await world.session()
        snapshots: list[Snapshot] = []
        await world.session_data.subscribe(session, snapshots.append)
        with pytest.raises(Exception, match="fault injected"):
            await world.session_data.replace(session, {"n": 1}, 0)
        assert await world.session_data.replace(session, {"n": 2}, 0) == 1
        assert [snapshot.data for snapshot in snapshots] == [None, {"n": 2}]


async def test_a_closed_database_is_a_coded_error(tmp_path: Path) -> None:
    async with apps_world(tmp_path) as world:
        session = await world.session()
        await world.foundation.database.close()
        with pytest.raises(StorageUnavailable):
            await world.session_data.replace(session, {}, 0)
