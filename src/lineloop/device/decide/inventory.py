"""Decides what an agent sees in a conversation, and when it is told (design: runtime 3.4, Inventory).

Inventory = tools of installed, enabled, compatible apps that this host supports, minus what policy hides from
this agent in this conversation. The revision is a hash of the content. Leaves sending to the outbox.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from lineloop.device.decide.envelopes import Address, compose_message, head_of
from lineloop.device.decide.facts import InventoryPublished
from lineloop.device.decide.plan import Plan
from lineloop.device.decide.state import App, AppDescription, View
from lineloop.kit import json
from lineloop.kit.records import record
from lineloop.protocol.envelopes import inventory_envelope
from lineloop.protocol.tools import RUNTIME_SCOPE, ToolDescriptor, ToolKey


@record
class PolicyRule:
    """Hides what it matches; an empty field matches everything."""

    agent: str = ""
    conversation_id: str = ""
    app_scope: str = ""
    method: str = ""

    def concerns(self, agent: str, conversation_id: str) -> bool:
        return self.agent in ("", agent) and self.conversation_id in ("", conversation_id)

    def hides(self, key: ToolKey) -> bool:
        return self.app_scope in ("", key.app_scope) and self.method in ("", key.method)


@record
class Question:
    """The message and envelope that asked for the inventory."""

    message_id: str | None
    envelope_id: str | None


def describe_app(app_scope: str, version: str, title: str, tools: Iterable[ToolDescriptor]) -> AppDescription:
    """An app's part of every inventory it is in."""
    wire = {"app_scope": app_scope, "version": version, "title": title}
    described = ((tool.key, tool.to_wire()) for tool in sorted(tools, key=lambda tool: tool.key))
    return AppDescription(
        wire, json.canonical(wire), tuple((key, value, json.canonical(value)) for key, value in described)
    )


@record
class Published:
    """An inventory as it is told (`payload` of protocol.tools.Inventory) and as decisions see it."""

    payload: dict[str, Any]
    view: View


def compute_inventory(
    apps: Mapping[str, App], rules: Iterable[PolicyRule], features: frozenset[str]
) -> Published:
    """The inventory under these rules (already those that concern the agent and conversation).

    `features` are the host's; a tool that needs a capability the host lacks is not offered. Put together from
    what was prepared per app, so that hundreds of apps cost a few milliseconds; the revision is that of
    protocol.tools.inventory_revision.
    """
    rules = tuple(rules)
    tools: list[tuple[ToolKey, dict[str, Any], bytes]] = []
    described: list[tuple[bytes, dict[str, Any]]] = []
    for app in apps.values():
        if not app.enabled or app.unavailable is not None:
            continue
        offered = [
            part
            for part in app.description.tools
            if features.issuperset(part[1].get("capabilities", ()))
            and not any(rule.hides(part[0]) for rule in rules)
        ]
        if offered:
            tools += offered
            described.append((app.description.canonical, app.description.wire))
    tools.sort(key=lambda part: part[0])
    described.sort(key=lambda part: part[0])
    capabilities = sorted(features)
    content = b"".join(
        (
            b'{"apps":[',
            b",".join(part[0] for part in described),
            b'],"capabilities":',
            json.canonical(capabilities),
            b',"surfaces":[],"tools":[',
            b",".join(part[2] for part in tools),
            b"]}",
        )
    )
    revision = "inv_" + hashlib.sha256(content).hexdigest()[:16]
    payload: dict[str, Any] = {
        "revision": revision,
        "tools": [part[1] for part in tools],
        "apps": [part[1] for part in described],
        "surfaces": [],
        "capabilities": capabilities,
    }
    return Published(payload, View(revision, frozenset(part[0] for part in tools)))


def decide_publication(
    plan: Plan,
    agent: str,
    conversation_id: str,
    inventory: Published,
    *,
    known_revision: str | None,
    asked_by: Question | None = None,
) -> None:
    """Tells an agent its inventory: when it asks always, else only when the newest told revision is
    another.
    """
    payload, revision = inventory.payload, inventory.view.revision
    if asked_by is None and known_revision == revision:
        return
    asked_by = asked_by or Question(None, None)
    plan.facts.append(InventoryPublished(agent, conversation_id, revision, payload))
    address = Address(agent, conversation_id, RUNTIME_SCOPE, asked_by.message_id, asked_by.envelope_id)
    envelope = inventory_envelope(head_of(plan.moment, address, plan.ids.make("env")), payload)
    plan.speak(conversation_id, compose_message(address, f"inventory/{envelope['id']}", envelope))
    plan.audit(
        "inventory_published",
        actor=agent,
        conversation_id=conversation_id,
        app_scope=RUNTIME_SCOPE,
        inventory_revision=revision,
    )
