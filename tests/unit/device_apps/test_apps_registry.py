"""The registry: packaged apps, installation, switches, removal, and that each survives a restart."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.device_apps.apps_world import PROBE, AppsWorld, apps_world

from lineloop.device.apps import Packaged
from lineloop.device.decide.apps import AppOperation
from lineloop.device.decide.inbox import InboxMessage, Receiver
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import IllegalTransition, LoopError
from lineloop.protocol.fault_sites import FaultSite
from lineloop.protocol.machines import AppOperationState
from lineloop.protocol.tools import CORE_SCOPES

Change = Callable[[dict[str, Any]], None]


def changed_probe(tmp_path: Path, change: Change | None = None, name: str = "source") -> Path:
    """A copy of the probe with another manifest."""
    target = tmp_path / name
    shutil.copytree(PROBE, target)
    if change is not None:
        path = target / "manifest.json"
        manifest = json.loads(path.read_text(encoding="utf-8"))
        change(manifest)
        path.write_text(json.dumps(manifest), encoding="utf-8")
    return target


async def done(world: AppsWorld, operation: AppOperation) -> AppOperation:
    return await world.registry.wait(operation.operation_id)


async def test_core_apps_and_pomodoro_are_there_from_the_start(world: AppsWorld) -> None:
    await world.registry.load()
    apps = world.registry.apps
    assert set(apps) == {"chat", "app-registry", "settings", "pomodoro"}
    assert {scope for scope, app in apps.items() if app.kind == "core"} == {
        "chat",
        "app-registry",
        "settings",
    }
    assert all(app.startable for app in apps.values())
    pomodoro = apps["pomodoro"]
    assert [tool.method for tool in pomodoro.tools] == ["pomodoro.start", "pomodoro.interrupt"]


@pytest.mark.parametrize("built", [True, False])
async def test_a_shipped_app_whose_surface_is_not_built_is_there_without_one(
    tmp_path: Path, built: bool
) -> None:
    shipped = tmp_path / "shipped"
    app = shipped / "pomodoro"
    app.mkdir(parents=True)
    shutil.copy(Path(__file__).parents[3] / "apps/pomodoro/manifest.json", app)
    if built:
        (app / "surface").mkdir()
        (app / "surface/main.js").write_text("export {};\n")
    async with apps_world(tmp_path, packaged=Packaged(tmp_path / "core", shipped)) as world:
        await world.registry.load()
        pomodoro = world.registry.apps["pomodoro"]
        assert (pomodoro.manifest.surface is not None) == built
        assert [tool.method for tool in pomodoro.tools] == ["pomodoro.start", "pomodoro.interrupt"]
        assert pomodoro.startable


async def test_an_app_from_outside_brings_the_surface_it_names(world: AppsWorld, tmp_path: Path) -> None:
    await world.registry.load()
    source = changed_probe(tmp_path, lambda manifest: manifest.update(surface={"entry": "surface/main.js"}))
    ended = await done(world, await world.registry.install(source))
    assert (ended.state, ended.error_code) == (AppOperationState.FAILED, "manifest_invalid")


async def test_an_operation_is_seen_pending_running_and_ended(world: AppsWorld) -> None:
    await world.registry.load()
    steps: list[tuple[str, str]] = []
    world.registry.subscribe(lambda operation: steps.append((operation.state, operation.step)))
    operation = await world.registry.install(PROBE)
    assert operation.state is AppOperationState.PENDING
    ended = await done(world, operation)
    assert (ended.state, ended.app_scope) == (AppOperationState.SUCCEEDED, "probe")
    assert steps == [
        ("pending", "waiting"),
        ("running", "checking"),
        ("running", "copying"),
        ("succeeded", "ended"),
    ]


@pytest.mark.requirement("D9")
async def test_install_with_enable_is_one_change_and_disable_and_enable_one_each(world: AppsWorld) -> None:
    await world.registry.load()
    await done(world, await world.registry.install(PROBE))
    assert [(change.change, change.app_scope) for change in world.changes] == [("installed", "probe")]
    installed = world.changes[0].apps["probe"]
    assert installed.startable
    await done(world, await world.registry.disable("probe"))
    assert not world.registry.apps["probe"].startable
    await done(world, await world.registry.enable("probe"))
    assert [change.change for change in world.changes] == ["installed", "disabled", "enabled"]
    assert world.changes[2].apps["probe"] == installed


async def test_a_change_that_changes_nothing_is_told_to_nobody(world: AppsWorld) -> None:
    await world.registry.load()
    await done(world, await world.registry.enable("pomodoro"))
    await done(world, await world.registry.install(PROBE))
    await done(world, await world.registry.install(PROBE))
    assert [change.change for change in world.changes] == ["installed"]


async def test_other_content_of_an_installed_app_is_an_update(world: AppsWorld, tmp_path: Path) -> None:
    await world.registry.load()
    await done(world, await world.registry.install(PROBE))
    newer = changed_probe(tmp_path, lambda manifest: manifest.update(version="1.1.0"))
    await done(world, await world.registry.install(newer))
    record = next(one for one in await world.registry.records() if one.app_scope == "probe")
    assert (record.installed_version, record.previous_version) == ("1.1.0", "1.0.0")
    assert [change.change for change in world.changes] == ["installed", "updated"]


async def test_an_installed_app_lives_from_its_own_copy(world: AppsWorld, tmp_path: Path) -> None:
    await world.registry.load()
    source = changed_probe(tmp_path)
    await done(world, await world.registry.install(source))
    shutil.rmtree(source)
    container = await world.pool.ensure(world.registry.apps["probe"], await world.session())
    assert container.alive


@pytest.mark.requirement("D5")
@pytest.mark.parametrize(
    "scope", ["chat", "app-registry", "settings", "runtime", "lineloop", "lineup", "system", "pomodoro"]
)
async def test_reserved_scopes_and_those_of_shipped_apps_are_refused(
    world: AppsWorld, tmp_path: Path, scope: str
) -> None:
    await world.registry.load()

    def rename(manifest: dict[str, Any]) -> None:
        manifest["app_scope"] = scope

    ended = await done(world, await world.registry.install(changed_probe(tmp_path, rename)))
    assert (ended.state, ended.error_code) == (AppOperationState.FAILED, "scope_reserved")
    assert world.changes == []
    assert (scope in world.registry.apps) == (scope in CORE_SCOPES | {"pomodoro"})


@pytest.mark.requirement("D5")
async def test_a_removed_shipped_app_leaves_its_scope_to_nobody_else(
    world: AppsWorld, tmp_path: Path
) -> None:
    await world.registry.load()
    await done(world, await world.registry.remove("pomodoro"))
    source = changed_probe(tmp_path, lambda manifest: manifest.update(app_scope="pomodoro"))
    assert (await done(world, await world.registry.install(source))).error_code == "scope_reserved"


def _unknown_execution(manifest: dict[str, Any]) -> None:
    manifest["tools"][0].update(delivery="runtime", execution={"name": "shell.run"})


def _collision(manifest: dict[str, Any]) -> None:
    manifest["tools"].append({**manifest["tools"][0], "method": "probe_echo"})


def _bad_schema(manifest: dict[str, Any]) -> None:
    manifest["tools"][0]["input_schema"] = {"type": "nonsense"}


def _no_logic(manifest: dict[str, Any]) -> None:
    del manifest["logic"]


def _missing_logic(manifest: dict[str, Any]) -> None:
    manifest["logic"] = "elsewhere.js"


def _outside_logic(manifest: dict[str, Any]) -> None:
    manifest["logic"] = "../logic.js"


@pytest.mark.parametrize(
    "change", [_unknown_execution, _collision, _bad_schema, _no_logic, _missing_logic, _outside_logic]
)
async def test_a_manifest_that_does_not_hold_is_refused_and_nothing_is_left(
    world: AppsWorld, tmp_path: Path, change: Change
) -> None:
    await world.registry.load()
    ended = await done(world, await world.registry.install(changed_probe(tmp_path, change)))
    assert (ended.state, ended.error_code) == (AppOperationState.FAILED, "manifest_invalid")
    assert "probe" not in world.registry.apps
    assert not (world.folder / "apps").exists()


async def test_what_a_link_among_the_kept_apps_leads_to_is_left_alone(tmp_path: Path) -> None:
    """A link in the folder of apps is nothing that the registry made; behind it may be somebody's work."""
    (tmp_path / "work" / "src").mkdir(parents=True)
    (tmp_path / "apps" / "mine").mkdir(parents=True)
    (tmp_path / "apps" / "linked").symlink_to(tmp_path / "work", target_is_directory=True)
    (tmp_path / "apps" / "mine" / "1.0.0").symlink_to(tmp_path / "work", target_is_directory=True)
    (tmp_path / "apps" / "mine" / "left over").mkdir()
    async with apps_world(tmp_path) as world:
        await world.registry.load()
        assert (tmp_path / "work" / "src").is_dir()
        assert (tmp_path / "apps" / "linked").is_symlink()
        assert [entry.name for entry in (tmp_path / "apps" / "mine").iterdir()] == ["1.0.0"]


async def test_links_and_missing_folders_are_refused(world: AppsWorld, tmp_path: Path) -> None:
    await world.registry.load()
    linked = changed_probe(tmp_path)
    (linked / "secret").symlink_to("/etc/hostname")
    for folder in (linked, tmp_path / "nowhere"):
        ended = await done(world, await world.registry.install(folder))
        assert ended.error_code == "manifest_invalid"


@pytest.mark.requirement("D52")
@pytest.mark.parametrize(
    "sdk", [{"api_version": "99"}, {"api_version": "1", "required_features": ["time.travel.v1"]}]
)
async def test_an_incompatible_app_is_listed_with_the_reason_and_cannot_be_enabled(
    world: AppsWorld, tmp_path: Path, sdk: dict[str, Any]
) -> None:
    await world.registry.load()
    source = changed_probe(tmp_path, lambda manifest: manifest.update(runtime_sdk=sdk))
    ended = await done(world, await world.registry.install(source))
    assert ended.state is AppOperationState.SUCCEEDED
    app = world.registry.apps["probe"]
    assert (app.enabled, app.unavailable, app.startable) == (False, "sdk_incompatible", False)
    ended = await done(world, await world.registry.enable("probe"))
    assert (ended.state, ended.error_code) == (AppOperationState.FAILED, "sdk_incompatible")


@pytest.mark.parametrize("verb", ["disable", "remove"])
async def test_core_apps_are_protected(world: AppsWorld, verb: str) -> None:
    await world.registry.load()
    with pytest.raises(LoopError) as refused:
        await getattr(world.registry, verb)("chat")
    assert refused.value.code is ErrorCode.APP_PROTECTED
    assert world.registry.apps["chat"].enabled


@pytest.mark.parametrize("verb", ["enable", "disable", "remove"])
async def test_what_is_not_installed_cannot_be_changed(world: AppsWorld, verb: str) -> None:
    await world.registry.load()
    with pytest.raises(LoopError) as refused:
        await getattr(world.registry, verb)("nothing")
    assert refused.value.code is ErrorCode.APP_NOT_INSTALLED


async def test_remove_deletes_files_and_data_and_stays(tmp_path: Path) -> None:
    async with apps_world(tmp_path) as world:
        await world.registry.load()
        await done(world, await world.registry.install(PROBE))
        await world.session_data.replace(await world.session(), {"n": 1}, 0)
        await done(world, await world.registry.remove("probe"))
        await done(world, await world.registry.remove("pomodoro"))
        assert (await world.session_data.get(await world.session())).revision == 0
        assert not list((tmp_path / "apps").iterdir())
    async with apps_world(tmp_path) as world:
        await world.registry.load()
        assert set(world.registry.apps) == {"chat", "app-registry", "settings"}


async def test_disable_keeps_the_data(world: AppsWorld) -> None:
    await world.registry.load()
    await done(world, await world.registry.install(PROBE))
    await world.session_data.replace(await world.session(), {"n": 1}, 0)
    await done(world, await world.registry.disable("probe"))
    assert (await world.session_data.get(await world.session())).revision == 1


@pytest.mark.requirement("D54")
async def test_critical_messages_of_a_removed_app_are_handed_back_to_be_answered(world: AppsWorld) -> None:
    await world.registry.load()
    await done(world, await world.registry.install(PROBE))
    receiver = Receiver(True, ErrorCode.APP_DISABLED, ("lineup.app.state.patch", "lineup.content.*"))
    for number, kind in enumerate(("lineup.app.state.patch", "lineup.content.text")):
        message = InboxMessage("probe", "con_1", f"msg_{number}", kind, {"n": number}, f"call_{number}")
        await world.foundation.write(
            lambda tx, message=message: world.inbox.receive_in(tx, message, receiver)
        )
    await done(world, await world.registry.remove("probe"))
    refused = world.changes[-1].refused
    assert [(one.message.call_id, one.code) for one in refused] == [("call_0", ErrorCode.APP_NOT_INSTALLED)]


async def test_the_switch_of_a_shipped_app_survives_a_restart(tmp_path: Path) -> None:
    async with apps_world(tmp_path) as world:
        await world.registry.load()
        await done(world, await world.registry.disable("pomodoro"))
    async with apps_world(tmp_path) as world:
        await world.registry.load()
        assert not world.registry.apps["pomodoro"].enabled


@pytest.mark.slow
@pytest.mark.requirement("D47")
@pytest.mark.parametrize(
    "site",
    [
        FaultSite.DEVICE_APPS_COPY_BEFORE_RENAME,
        FaultSite.DEVICE_APPS_COPY_AFTER_RENAME,
        FaultSite.DEVICE_APPS_OPERATION_BEFORE_COMMIT,
        FaultSite.DEVICE_APPS_OPERATION_AFTER_COMMIT,
    ],
)
async def test_an_installation_killed_at_any_step_is_whole_after_the_restart(
    tmp_path: Path, site: FaultSite
) -> None:
    child = subprocess.run(  # noqa: ASYNC221 (the process is meant to die)
        [sys.executable, "-m", "tests.unit.device_apps.install_and_die", str(tmp_path), site, "install"],
        cwd=Path(__file__).parents[3],
        env={**os.environ, "PYTHONPATH": "src"},
        check=False,
    )
    assert child.returncode == -signal.SIGKILL
    async with apps_world(tmp_path) as world:
        await world.registry.load()
        rows = await world.foundation.read(lambda tx: tx.all("SELECT id FROM app_operations"))
        assert len(rows) == 1
        ended = await world.registry.wait(rows[0]["id"])
        assert ended.state is AppOperationState.SUCCEEDED
        container = await world.pool.ensure(world.registry.apps["probe"], await world.session())
        assert container.alive
        assert [entry.name for entry in (tmp_path / "apps").iterdir()] == ["probe"]


@pytest.mark.slow
@pytest.mark.requirement("D47")
@pytest.mark.parametrize("verb", ["enable", "disable", "remove"])
@pytest.mark.parametrize(
    "site",
    [FaultSite.DEVICE_APPS_OPERATION_BEFORE_COMMIT, FaultSite.DEVICE_APPS_OPERATION_AFTER_COMMIT],
)
async def test_a_switch_or_removal_killed_at_its_commit_is_carried_out_once_after_the_restart(
    tmp_path: Path, site: FaultSite, verb: str
) -> None:
    if verb == "enable":
        async with apps_world(tmp_path) as world:
            await world.registry.load()
            await done(world, await world.registry.disable("pomodoro"))
    command = [sys.executable, "-m", "tests.unit.device_apps.install_and_die", str(tmp_path), site, verb]
    child = subprocess.run(  # noqa: ASYNC221 (the process is meant to die)
        command, cwd=Path(__file__).parents[3], env={**os.environ, "PYTHONPATH": "src"}, check=False
    )
    assert child.returncode == -signal.SIGKILL
    async with apps_world(tmp_path) as world:
        await world.registry.load()
        rows = await world.foundation.read(
            lambda tx: tx.all("SELECT id FROM app_operations ORDER BY created_at")
        )
        ended = await world.registry.wait(rows[-1]["id"])
        assert (ended.kind, ended.state) == (verb, AppOperationState.SUCCEEDED)
        app = world.registry.apps.get("pomodoro")
        assert (app is None) == (verb == "remove")
        assert app is None or app.enabled == (verb == "enable")


async def test_an_operation_ends_once(world: AppsWorld) -> None:
    from lineloop.device.decide.apps import move_operation
    from lineloop.protocol.machines import AppOperationEvent

    await world.registry.load()
    ended = await done(world, await world.registry.disable("pomodoro"))
    with pytest.raises(IllegalTransition):
        move_operation(ended, AppOperationEvent.FAIL, "ended", 0)


async def test_a_decision_inside_a_job_sees_the_job_s_own_state(world: AppsWorld) -> None:
    await world.registry.load()
    assert await world.foundation.read(lambda tx: world.registry.app_in(tx, "nothing")) is None
    found = await world.foundation.read(lambda tx: world.registry.app_in(tx, "pomodoro"))
    assert found == world.registry.apps["pomodoro"]
    assert hash(found) == hash(world.registry.apps["pomodoro"])


@pytest.mark.requirement("D53")
async def test_an_app_whose_files_were_changed_or_lost_is_unavailable_and_the_rest_starts(
    tmp_path: Path,
) -> None:
    async with apps_world(tmp_path) as world:
        await world.registry.load()
        await done(world, await world.registry.install(PROBE))
        logic = world.registry.apps["probe"].logic
        assert logic is not None
    logic.write_text("// something else", encoding="utf-8")
    async with apps_world(tmp_path) as world:
        await world.registry.load()
        assert world.registry.apps["probe"].unavailable == "storage_corrupt"
        assert world.registry.apps["pomodoro"].startable
        await done(world, await world.registry.install(PROBE))
        assert world.registry.apps["probe"].startable
    async with apps_world(tmp_path) as world:
        await world.registry.load()
        assert world.registry.apps["probe"].startable
        assert (await world.pool.ensure(world.registry.apps["probe"], await world.session())).alive


async def test_a_packaged_app_that_cannot_be_read_does_not_stop_the_start(tmp_path: Path) -> None:
    packaged = Packaged(Packaged.of_this_installation().core, tmp_path / "shipped")
    (packaged.shipped / "bad").mkdir(parents=True)
    (packaged.shipped / "bad" / "manifest.json").write_text("{", encoding="utf-8")
    async with apps_world(tmp_path, packaged=packaged) as world:
        await world.registry.load()
        assert set(world.registry.apps) == {"chat", "app-registry", "settings"}
