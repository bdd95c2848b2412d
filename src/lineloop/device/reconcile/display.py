"""Drives the host: shows what was committed to be shown, takes away what ended, asks for consent.

Decides nothing: only a host's confirmation, coming through its own entry, makes a foreground.
"""

from __future__ import annotations

from functools import partial

import structlog

from lineloop.device.commit import sessions
from lineloop.device.commit.room import Room
from lineloop.device.decide.facts import (
    AskConsent,
    CloseInstance,
    ProjectInstance,
    ShowInstance,
    WithdrawConsent,
)
from lineloop.device.decide.state import Instance
from lineloop.device.host.port import ConsentSheet, Host, Showing
from lineloop.device.reconcile.app_sessions import AppSessions
from lineloop.device.reconcile.insist import insist
from lineloop.kit import json
from lineloop.kit.tasks import Tasks
from lineloop.protocol.fault_sites import FaultSite

SOURCE = "runtime"

_log = structlog.get_logger(__name__)


class Display:
    """One device's host and what it has been asked for in this process."""

    def __init__(self, room: Room, tasks: Tasks, host: Host, app_sessions: AppSessions) -> None:
        self._room = room
        self._clock = room.foundation.clock
        self._faults = room.foundation.faults
        self._tasks = tasks
        self._host = host
        self._app_sessions = app_sessions
        self.asked: set[tuple[str, int]] = set()
        self.sheets: set[str] = set()
        self.closing: set[str] = set()

    def show(self, effect: ShowInstance) -> None:
        """Asks the host once per showing; a failed request is made again by the sweep."""
        mark = (effect.instance.instance_id, effect.instance.generation)
        if effect.activation_id is None or mark in self.asked:
            return
        self.asked.add(mark)
        showing = Showing(
            conversation_id=effect.instance.conversation_id,
            app_scope=effect.instance.app_scope,
            instance_id=effect.instance.instance_id,
            activation_id=effect.activation_id,
            generation=effect.instance.generation,
        )
        self._tasks.spawn(self._show(showing), name="show app")

    async def _show(self, showing: Showing) -> None:
        try:
            await self._faults.areach(FaultSite.DEVICE_HOST_BEFORE_SHOW)
            await self._host.show(showing)
            await self._faults.areach(FaultSite.DEVICE_HOST_AFTER_SHOW)
        except Exception as error:
            _log.warning("host_did_not_show", app_scope=showing.app_scope, error=repr(error))
            self.asked.discard((showing.instance_id, showing.generation))

    def close(self, effect: CloseInstance) -> None:
        if effect.instance.instance_id not in self.closing:
            self.closing.add(effect.instance.instance_id)
            self._tasks.spawn(self._close(effect.instance, effect.restore), name="close app")

    async def _close(self, instance: Instance, restore: bool) -> None:
        try:
            await self._host.close(instance.instance_id)
        except Exception as error:
            _log.warning("host_did_not_close", app_scope=instance.app_scope, error=repr(error))
        await self._app_sessions.close(instance)
        if instance.state == "stopping":
            decide = partial(sessions.instance_stopped, instance_id=instance.instance_id)
            await insist(self._clock, "instance stopped", lambda: self._room.submit(SOURCE, decide))
        self.closing.discard(instance.instance_id)
        if restore:
            restored = partial(sessions.restore, room=self._room)
            await insist(self._clock, "restore foreground", lambda: self._room.submit(SOURCE, restored))

    def ask(self, effect: AskConsent) -> None:
        """Shows the consent sheet of a risky call, once in this process."""
        call = effect.call
        shelf = self._room.catalogue.newest
        app = shelf.apps.get(call.key.app_scope) if shelf is not None else None
        tool = app.tool(call.key) if app is not None else None
        if call.ref in self.sheets or app is None or tool is None:
            return
        self.sheets.add(call.ref)
        sheet = ConsentSheet(
            call_ref=call.ref,
            conversation_id=call.conversation_id,
            agent=call.agent,
            app_scope=call.key.app_scope,
            app_title=app.title,
            tool_title=tool.title,
            risk=tool.risk.value,
            params=json.loads(call.params),
            publisher=shelf.installed[call.key.app_scope].manifest.publisher_key_id if shelf else None,
        )
        self._tasks.spawn(self._tell(call.ref, sheet), name="ask consent")

    async def _tell(self, call_ref: str, sheet: ConsentSheet) -> None:
        try:
            await self._host.ask_consent(sheet)
        except Exception as error:
            _log.warning("host_did_not_ask", error=repr(error))
            self.sheets.discard(call_ref)

    def withdraw(self, effect: WithdrawConsent) -> None:
        self.sheets.discard(effect.call_ref)
        self._tasks.spawn(self._host.withdraw_consent(effect.call_ref), name="withdraw consent")

    def project(self, effect: ProjectInstance) -> None:
        self._tasks.spawn(self._host.project(effect.instance_id), name="project")
