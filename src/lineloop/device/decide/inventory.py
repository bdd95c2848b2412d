"""Decides what an agent sees in a conversation, and when it is told (design: runtime 3.4, Inventory).

Inventory = tools of installed, enabled, compatible apps that this host supports, minus what policy hides from
this agent in this conversation. The revision is a hash of the content. Leaves sending to the outbox.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lineloop.device.decide.envelopes import Address, compose_message, head_of
from lineloop.device.decide.facts import InventoryPublished
from lineloop.device.decide.plan import Plan
from lineloop.device.decide.state import App, View
from lineloop.protocol.envelopes import inventory_envelope
from lineloop.protocol.tools import RUNTIME_SCOPE, Inventory, ToolKey


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Question:
    """The message and envelope that asked for the inventory."""

    message_id: str | None
    envelope_id: str | None


def compute_inventory(
    apps: Mapping[str, App], rules: Iterable[PolicyRule], features: frozenset[str]
) -> Inventory:
    """The inventory under these rules (already those that concern the agent and conversation).

    `features` are the host's; a tool that needs a capability the host lacks is not offered.
    """
    rules = tuple(rules)
    tools = [
        tool
        for app in apps.values()
        if app.enabled and app.unavailable is None
        for tool in app.tools.values()
        if not any(rule.hides(tool.key) for rule in rules) and features.issuperset(tool.capabilities)
    ]
    scopes = {tool.app_scope for tool in tools}
    described = [
        {"app_scope": app.app_scope, "version": app.version, "title": app.title}
        for app in apps.values()
        if app.app_scope in scopes
    ]
    return Inventory.of(tools, apps=described, capabilities=sorted(features))


def view_of(inventory: Inventory) -> View:
    """What decisions need of an inventory."""
    return View(inventory.revision, frozenset(tool.key for tool in inventory.tools))


def decide_publication(
    plan: Plan,
    agent: str,
    conversation_id: str,
    inventory: Inventory,
    *,
    known_revision: str | None,
    asked_by: Question | None = None,
) -> None:
    """Tells an agent its inventory: when it asks always, else only when the newest told revision is
    another.
    """
    if asked_by is None and known_revision == inventory.revision:
        return
    asked_by = asked_by or Question(None, None)
    payload = inventory.to_payload()
    plan.facts.append(InventoryPublished(agent, conversation_id, inventory.revision, payload))
    address = Address(agent, conversation_id, RUNTIME_SCOPE, asked_by.message_id, asked_by.envelope_id)
    envelope = inventory_envelope(head_of(plan.moment, address, plan.ids.make("env")), payload)
    plan.speak(conversation_id, compose_message(address, f"inventory/{envelope['id']}", envelope))
    plan.audit(
        "inventory_published",
        actor=agent,
        conversation_id=conversation_id,
        app_scope=RUNTIME_SCOPE,
        inventory_revision=inventory.revision,
    )
