"""Commits what a person sees first, and which app they want that to be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lineloop.device.commit.intents import open_app
from lineloop.device.commit.loading import load_shelf
from lineloop.device.commit.room import Room
from lineloop.device.decide.intents import HostIntent
from lineloop.device.decide.plan import Plan
from lineloop.device.decide.startup import EntryKind, StartEntry, Wanted, decide_start
from lineloop.device.decide.state import App
from lineloop.device.store import sessions, startup
from lineloop.kit.database import Tx
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import InvalidRequest, LoopError
from lineloop.protocol.tools import CORE_SCOPES

CHAT = "chat"


def begin(
    tx: Tx, plan: Plan, room: Room, *, intent: HostIntent, target: str | None, first: bool
) -> StartEntry:
    """Opens what is shown first. `first`: no page has asked in this process; later ones, which were loaded
    again, get what is there. Raises LoopError lease_lost.
    """
    runtime_id = room.runtime_id
    default = startup.default_app(tx, runtime_id) if first else None
    apps = load_shelf(tx, room).apps
    entry = decide_start(
        _wanted(apps, target),
        sessions.instance_by_id(tx, sessions.front_of_focus(tx, runtime_id) or ""),
        _wanted(apps, default),
        intent.conversation_id or startup.newest_conversation(tx, runtime_id),
    )
    if entry.kind in (EntryKind.TARGET, EntryKind.DEFAULT):
        assert entry.app_scope is not None
        opened = replace(intent, conversation_id=entry.conversation_id or "")
        instance_id = open_app(tx, plan, room, intent=opened, app_scope=entry.app_scope)
        entry = replace(entry, instance_id=instance_id)
    plan.audit(
        "started_with",
        actor=intent.host_session_id,
        conversation_id=entry.conversation_id,
        app_scope=entry.app_scope,
        code=entry.reason,
        detail={"entry": str(entry.kind)},
    )
    return entry


def _wanted(apps: Mapping[str, App], app_scope: str | None) -> Wanted | None:
    """None for what the shell itself shows."""
    if app_scope is None or app_scope in CORE_SCOPES:
        return None
    return Wanted(app_scope, apps.get(app_scope))


def set_default(tx: Tx, plan: Plan, room: Room, *, app_scope: str | None) -> None:
    """The person chooses what they see first; None or chat: chat.

    Raises LoopError: app_not_installed, app_disabled, invalid_request (it does not offer itself for that).
    """
    if app_scope == CHAT:
        app_scope = None
    if app_scope is not None:
        installed = load_shelf(tx, room).installed.get(app_scope)
        if installed is None:
            raise LoopError("there is no such app", code=ErrorCode.APP_NOT_INSTALLED)
        if not installed.enabled:
            raise LoopError("this app is switched off", code=ErrorCode.APP_DISABLED)
        eligible = any(one.default_eligible for one in installed.manifest.entrypoints)
        if app_scope in CORE_SCOPES or not eligible:
            raise InvalidRequest("this app cannot be the first one", pointer="/app_scope")
    startup.set_default_app(tx, room.runtime_id, app_scope, plan.now)
    plan.audit("default_app_set", app_scope=app_scope)
