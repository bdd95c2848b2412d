"""The audit answers for every call; the three entries are never mixed."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest
from tests.interaction.device.apps import changed_probe

import lineloop.device
from lineloop.device.decide.intents import IntentKind
from lineloop.device.store.stories import read_stories_of_file
from lineloop.protocol.errors import LoopError
from lineloop.testing.device_world import AGENT, CONVERSATION, device_world
from lineloop.testing.scripted_containers import Script

DEVICE = Path(str(lineloop.device.__file__)).parent
ENTRIES = {
    "agent_tool": {"Invoke"},
    "ui_action": {"UiAction"},
    "host_intent": {"HostIntent", "Confirmation"},
}


@pytest.mark.requirement("D59")
async def test_a_calls_story_tells_agent_revision_app_receipts_and_result(tmp_path: Path) -> None:
    async with device_world(tmp_path) as world:
        await world.invoke("pomodoro.start", {"minutes": 5}, "call-1")
        await world.stages("call-1", "started")
        await world.clock.advance(300)
        await world.ended("call-1")
        (story,) = await world.runtime.audit(call_id="call-1")
        assert (story["source"], story["agent"], story["app_scope"]) == ("agent_tool", AGENT, "pomodoro")
        assert story["inventory_revision"] == (await world.inventory())["revision"]
        assert [receipt["stage"] for receipt in story["receipts"]] == ["starting", "started"]
        assert story["result"]["outcome"] == "completed"
        assert [event["event"] for event in story["events"]] == ["call_accepted", "call_succeeded"]
        assert [event["source"] for event in story["events"]] == ["agent_tool", "runtime"]
        assert {event["actor"] for event in story["events"]} == {AGENT}
        assert story["events"][0]["inventory_revision"] == story["inventory_revision"]
        assert await world.runtime.audit(call_id="unknown") == []
        path = world.settings.database_path
    assert read_stories_of_file(path, call_id="call-1")[0]["result"] == story["result"]
    assert read_stories_of_file(path, call_id="unknown") == []


@pytest.mark.requirement("D59")
async def test_ui_actions_and_host_intents_have_their_own_source(tmp_path: Path) -> None:
    def with_action(manifest: dict[str, object]) -> None:
        manifest["ui_actions"] = [{"name": "tick", "schema": {"type": "object", "required": ["item"]}}]

    apps = changed_probe(tmp_path / "brought", with_action)
    async with device_world(tmp_path, apps=apps, script=Script()) as world:
        await world.invoke("probe.echo", {"text": "hi"}, "call-1")
        await world.ended("call-1")
        (instance,) = (await world.rows("SELECT instance_id FROM instances"))[0]
        delivered: list[str] = []
        world.runtime.on_action = lambda effect: delivered.append(effect.action_id)
        actions = world.runtime.ui_actions
        assert await actions.dispatch(instance, "a1", "tick", {"item": 1})
        assert not await actions.dispatch(instance, "a1", "tick", {"item": 1})
        assert delivered == ["a1"]
        for bad, code in (
            (("ins_gone", "a2", "tick", {"item": 1}), "not_found"),
            ((instance, "a2", "tock", {"item": 1}), "not_found"),
            ((instance, "a2", "tick", {}), "invalid_arguments"),
            ((instance, "a1", "tick", {"item": 2}), "key_conflict"),
        ):
            with pytest.raises(LoopError) as refused:
                await actions.dispatch(*bad)
            assert refused.value.code == code
        await world.simulated.person(IntentKind.HIDDEN, CONVERSATION)
        lines = await world.runtime.audit(conversation_id=CONVERSATION)
        by_source = {(line["source"], line.get("event", "call")) for line in lines}
        assert ("ui_action", "action_received") in by_source
        assert ("host_intent", "host_hidden") in by_source
        assert ("agent_tool", "call") in by_source


@cache
def _modules() -> dict[str, ast.Module]:
    return {
        ".".join(path.relative_to(DEVICE).with_suffix("").parts): ast.parse(path.read_text())
        for path in DEVICE.rglob("*.py")
    }


def test_each_request_type_is_built_by_its_own_entry_and_by_nobody_else() -> None:
    owners = {name: entry for entry, names in ENTRIES.items() for name in names}
    for module, tree in _modules().items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            entry = owners.get(node.func.id)
            matched = entry is None or module == f"entries.{entry}"
            assert matched, f"{module} builds {node.func.id}, which belongs to entries.{entry}"


def test_no_entry_imports_another_entry_or_its_request_types() -> None:
    for entry in ENTRIES:
        tree = _modules()[f"entries.{entry}"]
        foreign = {name for other, names in ENTRIES.items() if other != entry for name in names}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                assert not (node.module or "").startswith("lineloop.device.entries")
                assert not foreign & {alias.name for alias in node.names}
