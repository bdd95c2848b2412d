"""The inventory as a computation: its revision is the protocol's, its order does not matter, rules hide."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from tests.machines.device.build import a_tool, an_app

from lineloop.device.decide.inventory import PolicyRule, compute_inventory, describe_app
from lineloop.device.decide.state import App
from lineloop.protocol.tools import Inventory, inventory_revision

NOTHING: frozenset[str] = frozenset()


def named(app_scope: str, **changes: object) -> App:
    tool = a_tool(app_scope=app_scope, method=f"{app_scope}.go", **changes)
    described = describe_app(app_scope, "1.0.0", app_scope.title(), (tool,))
    tools = {(tool.method, tool.contract_version): tool}
    return replace(an_app(), app_scope=app_scope, tools=tools, description=described)


@pytest.mark.requirement("D9")
def test_the_revision_is_the_protocols_and_equal_content_is_equal_whatever_the_order() -> None:
    apps = {scope: named(scope) for scope in ("todo", "board", "notes")}
    forward = compute_inventory(apps, (), frozenset({"clipboard.read", "artifact.read"}))
    backward = compute_inventory(
        dict(reversed(apps.items())), (), frozenset({"artifact.read", "clipboard.read"})
    )
    assert forward.payload == backward.payload
    assert forward.view.revision == inventory_revision(forward.payload)
    assert Inventory.from_payload(forward.payload).to_payload() == forward.payload


@pytest.mark.requirement("D10", "D9")
def test_disabled_incompatible_unsupported_and_hidden_tools_are_not_in_it() -> None:
    apps = {
        "off": replace(named("off"), enabled=False),
        "old": replace(named("old"), unavailable="sdk_incompatible"),
        "needy": named("needy", capabilities=["audio.record"]),
        "hidden": named("hidden"),
        "seen": named("seen"),
    }
    inventory = compute_inventory(apps, (PolicyRule(method="hidden.go"),), NOTHING)
    assert [tool["app_scope"] for tool in inventory.payload["tools"]] == ["seen"]
    assert [app["app_scope"] for app in inventory.payload["apps"]] == ["seen"]
    assert {key.app_scope for key in inventory.view.tools} == {"seen"}


def test_two_hundred_apps_cost_a_few_milliseconds() -> None:
    apps = {f"app{number}": named(f"app{number}") for number in range(200)}
    best = min(_timed(apps) for _ in range(5))
    assert best < 0.005


def _timed(apps: dict[str, App]) -> float:
    began = time.perf_counter()
    compute_inventory(apps, (), NOTHING)
    return time.perf_counter() - began
