"""Commits what a change of registry or policy means for tools, calls and operations: in its own commit."""

from __future__ import annotations

from collections.abc import Mapping

from lineloop.device.commit.loading import load_route, load_shelf, load_whole_session
from lineloop.device.commit.receive import answer_for_gone_app, publish
from lineloop.device.commit.room import Room
from lineloop.device.containers.port import InstalledApp, RegistryChanged
from lineloop.device.decide.facts import CallChanged, PublishInventory
from lineloop.device.decide.inventory import PolicyRule
from lineloop.device.decide.plan import Failure, Plan
from lineloop.device.decide.withdrawal import decide_withdrawal
from lineloop.device.store import calls, records, sessions
from lineloop.kit.database import Tx
from lineloop.protocol.error_codes import ErrorCode

RECENT_AGENTS = 1_000
"""Agents that hear of a changed inventory at once; others learn by inventory_stale or by asking."""

ENDED_AT_ONCE = 1_000

_WITHDRAWN = {
    "disabled": ErrorCode.APP_DISABLED,
    "removed": ErrorCode.APP_NOT_INSTALLED,
    "updated": ErrorCode.APP_VERSION_MISMATCH,
}


def new_generation(tx: Tx, room: Room, installed: Mapping[str, InstalledApp]) -> None:
    """From this job on, decisions see these apps and the stored policy."""
    generation = room.foundation.ids.make("gen")
    room.catalogue.put(generation, installed, records.policy_rules(tx, room.runtime_id))
    records.set_generation(tx, room.runtime_id, generation, room.foundation.clock.now_ms())


def registry_changed(tx: Tx, plan: Plan, room: Room, change: RegistryChanged) -> None:
    """An app was installed, enabled, disabled, updated or removed."""
    before = load_shelf(tx, room).apps.get(change.app_scope)
    code = _WITHDRAWN.get(change.change)
    if code is not None and before is not None:
        for instance in sessions.live_instances(tx, room.runtime_id, change.app_scope):
            session = load_whole_session(tx, room, instance.conversation_id, instance.app_scope)
            decide_withdrawal(plan, session, load_route(tx, room, before, session), code)
        ended = {fact.call.ref for fact in plan.facts if isinstance(fact, CallChanged)}
        for call in calls.live_of_app(tx, room.runtime_id, change.app_scope, ENDED_AT_ONCE):
            if call.ref not in ended and call.operation_id is None:
                plan.fail(call, Failure(code))
    for refused in change.refused:
        answer_for_gone_app(tx, plan, room, refused)
    plan.audit(f"app_{change.change}", app_scope=change.app_scope)
    new_generation(tx, room, change.apps)
    tell_recent_agents(tx, plan, room)


def policy_changed(
    tx: Tx, plan: Plan, room: Room, rules: list[PolicyRule], installed: Mapping[str, InstalledApp]
) -> None:
    """The person or the organisation hides other tools from now on."""
    ids = room.foundation.ids
    named = [(ids.make("pol"), rule) for rule in rules]
    records.set_policy_rules(tx, room.runtime_id, named, room.foundation.clock.now_ms())
    plan.audit("policy_changed")
    new_generation(tx, room, installed)
    tell_recent_agents(tx, plan, room)


def tell_recent_agents(tx: Tx, plan: Plan, room: Room) -> None:
    """Whoever was told an inventory lately and sees another one now, is told after the commit."""
    shelf = load_shelf(tx, room)
    for agent, conversation_id, revision in records.recent_agents(tx, room.runtime_id, RECENT_AGENTS):
        if shelf.view(agent, conversation_id).revision != revision:
            plan.effects.append(PublishInventory(agent, conversation_id))


def publish_inventory(tx: Tx, plan: Plan, room: Room, agent: str, conversation_id: str) -> None:
    """Tells an agent what it sees, unless it knows."""
    publish(tx, plan, room, agent, conversation_id)


def forget_agents(tx: Tx, plan: Plan, room: Room, gone: list[tuple[str, str]]) -> None:
    """(agent, conversation) of who takes part there no more: it is told no inventory from now on."""
    del plan
    for agent, conversation_id in gone:
        records.forget_agent(tx, room.runtime_id, agent, conversation_id)
