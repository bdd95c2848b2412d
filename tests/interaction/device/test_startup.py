"""What a person sees first, and why it is chat when something else should have been."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.interaction.device.apps import changed_probe
from tests.machines.device.build import an_app, an_instance

from lineloop.device.decide.startup import EntryKind, StartEntry, Wanted, decide_start
from lineloop.device.store.startup import explanation
from lineloop.protocol.errors import LoopError
from lineloop.testing.device_world import CONVERSATION, DeviceWorld, device_world
from lineloop.testing.scripted_containers import Script
from lineloop.testing.simulated_host import Manner

HOST = "hst_simulated"


def eligible(manifest: dict[str, Any]) -> None:
    manifest["entrypoints"][0]["default_eligible"] = True


async def begin(world: DeviceWorld, target: str | None = None) -> StartEntry:
    await world.settle()
    return await world.runtime.host_reports.begun(HOST, target, CONVERSATION)


async def explained(world: DeviceWorld, entry: StartEntry) -> dict[str, Any] | None:
    await world.settle()
    return await world.runtime.foundation.read(lambda tx: explanation(tx, entry))


APP = Wanted("notes", an_app())
OTHER = Wanted("todo", an_app(app_scope="todo"))
FRONT = an_instance(app_scope="draw")


@pytest.mark.requirement("D50")
@pytest.mark.parametrize(
    ("target", "front", "default", "kind", "shown"),
    [
        (APP, FRONT, OTHER, EntryKind.TARGET, "notes"),
        (None, FRONT, OTHER, EntryKind.RECOVERED, "draw"),
        (None, None, OTHER, EntryKind.DEFAULT, "todo"),
        (None, None, None, EntryKind.CHAT, None),
    ],
)
def test_the_order_is_target_recoverable_work_default_app_chat(
    target: Any, front: Any, default: Any, kind: EntryKind, shown: str | None
) -> None:
    entry = decide_start(target, front, default, "cnv")
    assert (entry.kind, entry.app_scope, entry.reason) == (kind, shown, None)


@pytest.mark.requirement("D49")
@pytest.mark.parametrize(
    ("app", "conversation", "reason"),
    [
        (None, "cnv", "app_not_installed"),
        (an_app(enabled=False), "cnv", "app_disabled"),
        (an_app(unavailable="sdk_incompatible"), "cnv", "sdk_incompatible"),
        (an_app(), None, "conversation_not_found"),
    ],
)
def test_a_first_app_that_cannot_be_shown_is_chat_with_the_reason(
    app: Any, conversation: str | None, reason: str
) -> None:
    entry = decide_start(None, None, Wanted("notes", app), conversation)
    assert (entry.kind, entry.app_scope, entry.reason) == (EntryKind.CHAT, "notes", reason)


@pytest.mark.requirement("D50")
async def test_the_default_app_opens_once_per_start_and_not_for_a_page_loaded_again(tmp_path: Path) -> None:
    apps = changed_probe(tmp_path / "brought", eligible)
    async with device_world(tmp_path, apps=apps, script=Script()) as world:
        assert (await begin(world)).kind is EntryKind.CHAT
        await world.runtime.host_reports.default_chosen("probe")
        assert (await begin(world)).kind is EntryKind.CHAT
        await world.restart()
        entry = await begin(world)
        assert (entry.kind, entry.app_scope) == (EntryKind.DEFAULT, "probe")
        assert await world.rows("SELECT app_scope FROM instances") == [("probe",)]
        again = await begin(world)
        assert (again.kind, again.instance_id) == (EntryKind.RECOVERED, entry.instance_id)
        await world.restart()
        recovered = await begin(world)
        assert (recovered.kind, recovered.instance_id) == (EntryKind.RECOVERED, entry.instance_id)
        assert await explained(world, recovered) is None


@pytest.mark.requirement("D49")
@pytest.mark.parametrize("how", ["disabled", "removed", "start_failed", "crashed"])
async def test_a_default_app_that_is_gone_or_breaks_leaves_chat_and_says_why(
    tmp_path: Path, how: str
) -> None:
    apps, script = changed_probe(tmp_path / "brought", eligible), Script()
    async with device_world(tmp_path, apps=apps, script=script) as world:
        await world.runtime.host_reports.default_chosen("probe")
        registry = world.runtime.registry
        if how in ("disabled", "removed"):
            verb = registry.disable if how == "disabled" else registry.remove
            await registry.wait((await verb("probe")).operation_id)
        if how == "start_failed":
            script.fail = "app_start_failed"
        await world.restart()
        entry = await begin(world)
        if how == "crashed":
            await world.settle()
            assert script.containers is not None
            next(iter(script.containers.all.values())).crash()
        notice = await explained(world, entry)
        expected = {
            "disabled": ("app_disabled", None),
            "removed": ("app_not_installed", None),
            "start_failed": ("app_activation_failed", "app_start_failed"),
            "crashed": ("app_activation_failed", "crashed"),
        }[how]
        assert notice == {"app_scope": "probe", "code": expected[0], "reason": expected[1]}
        assert await world.rows("SELECT COUNT(*) FROM focus") == [(0,)]
        assert (await world.rows("SELECT app_scope FROM apps WHERE app_scope = 'chat'")) == [("chat",)]


@pytest.mark.requirement("D50")
async def test_a_link_comes_before_what_was_in_front_and_a_bad_one_is_explained(tmp_path: Path) -> None:
    apps = changed_probe(tmp_path / "brought", eligible)
    async with device_world(tmp_path, apps=apps, script=Script()) as world:
        await world.runtime.host_reports.default_chosen("probe")
        assert (await begin(world, "probe")).kind is EntryKind.TARGET
        missing = await begin(world, "nothing")
        assert (missing.kind, missing.reason) == (EntryKind.CHAT, "app_not_installed")
        assert (await begin(world)).kind is EntryKind.RECOVERED


@pytest.mark.requirement("D49")
async def test_only_an_app_that_offers_itself_can_be_the_first(tmp_path: Path) -> None:
    async with device_world(tmp_path) as world:
        for scope, code in (
            ("pomodoro", "invalid_request"),
            ("settings", "invalid_request"),
            ("nothing", "app_not_installed"),
        ):
            with pytest.raises(LoopError) as refused:
                await world.runtime.host_reports.default_chosen(scope)
            assert refused.value.code == code
        await world.runtime.host_reports.default_chosen("chat")
        await world.runtime.host_reports.default_chosen(None)
        for verb in (world.runtime.registry.disable, world.runtime.registry.remove):
            with pytest.raises(LoopError) as protected:
                await verb("chat")
            assert protected.value.code == "app_protected"


@pytest.mark.requirement("D50")
async def test_a_host_session_without_the_lease_opens_nothing(tmp_path: Path) -> None:
    async with device_world(tmp_path) as world:
        world.simulated.manner = Manner.WHEN_TOLD
        with pytest.raises(LoopError) as refused:
            await world.runtime.host_reports.begun("hst_other", "pomodoro", CONVERSATION)
        assert refused.value.code == "lease_lost"
        assert await world.rows("SELECT COUNT(*) FROM instances") == [(0,)]
