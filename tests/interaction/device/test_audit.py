"""The audit answers for every call; the three entries are never mixed."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest
from tests.interaction.device.apps import changed_probe, with_tool

import lineloop.device
from lineloop.device.decide.intents import IntentKind
from lineloop.device.store.stories import read_stories_of_file
from lineloop.protocol.errors import LoopError
from lineloop.testing.device_world import AGENT, CONVERSATION, device_world
from lineloop.testing.scripted_containers import Script
from lineloop.testing.waiting import until

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
        assert [(event["source"], event["event"]) for event in story["events"]] == [
            ("agent_tool", "call_accepted"),
            ("host_intent", "foreground_confirmed"),
            ("runtime", "call_succeeded"),
        ]
        assert [event["actor"] for event in story["events"]] == [AGENT, "hst_simulated", AGENT]
        assert story["events"][0]["inventory_revision"] == story["inventory_revision"]
        assert await world.runtime.audit(call_id="unknown") == []
        path = world.settings.database_path
    assert read_stories_of_file(path, call_id="call-1")[0]["result"] == story["result"]
    assert read_stories_of_file(path, call_id="unknown") == []


@pytest.mark.requirement("D59")
async def test_the_story_of_a_risky_call_tells_consent_start_messages_and_what_went_on_around(
    tmp_path: Path,
) -> None:
    apps = changed_probe(tmp_path / "brought", with_tool("probe.echo", risk="high", timeout_ms=600_000))
    async with device_world(tmp_path, apps=apps, script=Script()) as world:
        await world.invoke("probe.echo", {"text": "hi"}, "call-1")
        await world.stages("call-1", "accepted")
        await world.invoke("probe.echo", {"text": "other"}, "call-1", key="other")
        await world.stages("call-1", "error:call_conflict")
        await world.simulated.answer_consent(allowed=True)
        await until(lambda: world.story("call-1")[-1] in ("result:ok", "error:handler_failed"))
        await world.clock.advance(1)
        (story,) = await world.runtime.audit(call_id="call-1")
    assert story["consent"]["state"] == "allowed"
    assert story["activation"]["state"] == "ready"
    assert [one["state"] for one in story["messages"]] == ["sent"] * len(story["messages"])
    assert len(story["messages"]) == len(story["receipts"]) + 1
    told = {(event["source"], event["event"], event.get("code")) for event in story["events"]}
    assert ("agent_tool", "envelope_refused", "call_conflict") in told
    assert ("host_intent", "consent_allowed", None) in told


@pytest.mark.requirement("D59")
async def test_the_story_of_a_focus_that_was_left_tells_the_hosts_part(tmp_path: Path) -> None:
    async with device_world(tmp_path) as world:
        await world.invoke("pomodoro.start", {"minutes": 5}, "call-1")
        await world.stages("call-1", "started")
        await world.clock.advance(60)
        await world.simulated.person(IntentKind.SHOW_CHAT, CONVERSATION)
        await world.stages("call-1", "result:interrupted")
        (story,) = await world.runtime.audit(call_id="call-1")
    assert (story["operation"]["state"], story["operation"]["elapsed_ms"]) == ("interrupted", 60_000)
    assert story["operation"]["reason"] == "left"
    events = [(event["source"], event["event"]) for event in story["events"]]
    assert ("host_intent", "foreground_confirmed") in events
    assert ("host_intent", "app_left") in events
    assert events[-1] == ("host_intent", "call_succeeded")


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
