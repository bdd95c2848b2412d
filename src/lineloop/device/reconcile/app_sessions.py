"""Drives app sessions: starts containers, hands calls to handlers, reports what they say.

Decides nothing about calls: a start, an answer or a crash becomes an event that the commit room decides.
Starts and ends of one session follow each other in the order of their commits.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import structlog

from lineloop.device.commit import calls, sessions
from lineloop.device.commit.room import Room
from lineloop.device.containers.port import (
    Completed,
    ContainerFailed,
    Containers,
    Failed,
    InstalledApp,
    Invocation,
    Open,
    Outcome,
    SessionContext,
)
from lineloop.device.decide.calls import HandlerOutcome, Invoke
from lineloop.device.decide.facts import CancelHandler, Dispatch, StartContainer
from lineloop.device.decide.state import Activation, Call, Instance
from lineloop.device.reconcile.ahead import AheadOfCommits, AskedAhead
from lineloop.device.reconcile.insist import insist
from lineloop.kit import json
from lineloop.kit.faults import FaultInjected, FaultMode
from lineloop.kit.tasks import Tasks
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.fault_sites import FaultSite

SOURCE = "runtime"
SITE_REPORT = "device.handler_report"
IDLE = "idle"

_log = structlog.get_logger(__name__)


class AppSessions:
    """Implements ContainerEvents for one device. `handed` are the calls that are with a handler now."""

    def __init__(self, room: Room, tasks: Tasks) -> None:
        self._room = room
        self._clock = room.foundation.clock
        self._faults = room.foundation.faults
        self._tasks = tasks
        self._containers: Containers | None = None
        self._turns: dict[tuple[str, str], asyncio.Lock] = {}
        self.handed: set[str] = set()
        self._names: dict[tuple[str, str], str] = {}
        self.started: set[str] = set()
        self._ahead = AheadOfCommits(room, tasks, self._names, handler_outcome)

    def use(self, containers: Containers) -> None:
        """Run apps in these containers from now on."""
        self._containers = containers

    # ── effects ─────────────────────────────────────────────────────────────────────────────────────────────

    def start(self, effect: StartContainer) -> None:
        """Makes an activation's container ready, or reports why not."""
        if effect.activation.activation_id not in self.started:
            self.started.add(effect.activation.activation_id)
            self._tasks.spawn(self._start(effect.activation), name="start app")

    def dispatch(self, effect: Dispatch) -> None:
        """Hands a call to its app session, once in this process."""
        if effect.call.ref not in self.handed:
            self.handed.add(effect.call.ref)
            asked = self._ahead.adopt(effect.call)
            work = self._invoke(effect.call) if asked is None else self._go_on(effect.call, asked)
            self._tasks.spawn(work, name="invoke handler")

    # ── before a commit ─────────────────────────────────────────────────────────────────────────────────────

    def ask_ahead(self, invoke: Invoke) -> AskedAhead | None:
        """Hands a query to its app while its call is being stored; None for one that has to wait for that."""
        return self._ahead.ask(self._containers, invoke) if self._containers is not None else None

    def commit_over(self, invoke: Invoke) -> None:
        """The call that was asked ahead is stored, or refused."""
        self._ahead.leave(invoke)

    async def _go_on(self, call: Call, asked: AskedAhead) -> None:
        """The handler of a stored call is at work already."""
        for value in asked.progress:
            await self._insist_on_progress(call.ref, value)
        try:
            outcome = await asked.said
        except asyncio.CancelledError:
            if not asked.said.cancelled():
                raise
            self._forget(call.ref)
            await self._take_up(call.ref)
            return
        if (said := outcome or asked.ended) is not None:
            await self._report(call.ref, said)

    def cancel(self, effect: CancelHandler) -> None:
        call = effect.call
        if call.app_session_id is None or self._containers is None:
            return
        container = self._containers.running(call.key.app_scope, call.app_session_id)
        name = next((name for (_, name), ref in self._names.items() if ref == call.ref), None)
        if container is not None and name is not None:
            self._tasks.spawn(container.cancel(name), name="cancel handler")

    async def close(self, instance: Instance) -> None:
        """Ends the container of an instance that has been taken away."""
        if self._containers is None:
            return
        async with self._turn(instance.app_scope, instance.app_session_id):
            running = self._containers.running(instance.app_scope, instance.app_session_id)
            if running is not None and running.session.instance_id in (None, instance.instance_id):
                await self._containers.stop(instance.app_scope, instance.app_session_id)

    def _turn(self, app_scope: str, app_session_id: str) -> asyncio.Lock:
        return self._turns.setdefault((app_scope, app_session_id), asyncio.Lock())

    def _installed(self, app_scope: str) -> InstalledApp | None:
        shelf = self._room.catalogue.newest
        return shelf.installed.get(app_scope) if shelf is not None else None

    async def _start(self, activation: Activation) -> None:
        reason = await self._make_ready(activation)
        room = self._room
        if reason is None:
            decide = partial(sessions.session_ready, room=room, activation_id=activation.activation_id)
        else:
            decide = partial(
                sessions.activation_failed,
                room=room,
                activation_id=activation.activation_id,
                reason=reason,
            )
        await insist(self._clock, "app start", lambda: room.submit(SOURCE, decide, SITE_REPORT))
        self.started.discard(activation.activation_id)

    async def _make_ready(self, activation: Activation) -> str | None:
        """None when the handlers are registered, else the controlled reason why not."""
        installed = self._installed(activation.app_scope)
        if installed is None or self._containers is None:
            return "no_container"
        context = SessionContext(
            app_scope=activation.app_scope,
            app_session_id=activation.app_session_id,
            conversation_id=activation.conversation_id,
            app_version=installed.version,
            instance_id=activation.instance_id,
            activation_id=activation.activation_id,
        )
        try:
            async with self._turn(activation.app_scope, activation.app_session_id):
                await self._containers.ensure(installed, context)
        except ContainerFailed as error:
            _log.info("app_not_ready", app_scope=activation.app_scope, reason=error.reason)
            return error.reason
        except FaultInjected:
            return "app_start_failed"
        return None

    async def _take_up(self, ref: str) -> None:
        """What the handler said is lost; whether it may be asked again is decided."""
        room = self._room
        decide = partial(calls.take_up, room=room, ref=ref)
        await insist(self._clock, "lost answer", lambda: room.submit(SOURCE, decide, SITE_REPORT))

    async def _invoke(self, call: Call) -> None:
        try:
            await self._faults.areach(FaultSite.DEVICE_HANDLER_BEFORE_INVOKE)
        except FaultInjected:
            self.handed.discard(call.ref)
            return
        outcome = await self._run_handler(call)
        try:
            mode = await self._faults.areach(FaultSite.DEVICE_HANDLER_AFTER_INVOKE)
        except FaultInjected:
            mode = FaultMode.LOST_ACK
        if mode is FaultMode.LOST_ACK:
            self._forget(call.ref)
            await self._take_up(call.ref)
        elif outcome is not None:
            await self._report(call.ref, outcome)

    async def _run_handler(self, call: Call) -> HandlerOutcome | None:
        """What the handler came to; None when it left the call open."""
        installed = self._installed(call.key.app_scope)
        if installed is None or call.app_session_id is None or self._containers is None:
            return HandlerOutcome("failed", code=ErrorCode.APP_ACTIVATION_FAILED, reason="no_container")
        context = SessionContext(
            app_scope=call.key.app_scope,
            app_session_id=call.app_session_id,
            conversation_id=call.conversation_id,
            app_version=installed.version,
            activation_id=call.activation_id,
        )
        try:
            container = self._containers.running(call.key.app_scope, call.app_session_id)
            if container is None:
                async with self._turn(call.key.app_scope, call.app_session_id):
                    container = await self._containers.ensure(installed, context)
            self._ahead.sessions[call.key.app_scope, call.conversation_id] = call.app_session_id
            name = self._name(call, call.app_session_id)
            outcome = await container.invoke(
                Invocation(name, call.key.method, call.key.contract_version, json.loads(call.params))
            )
        except ContainerFailed as error:
            return HandlerOutcome("failed", code=ErrorCode.APP_ACTIVATION_FAILED, reason=error.reason)
        except FaultInjected:
            return HandlerOutcome("failed", reason="app_start_failed")
        return handler_outcome(outcome)

    async def _report(self, ref: str, outcome: HandlerOutcome) -> None:
        room = self._room
        decide = partial(calls.take_outcome, room=room, ref=ref, outcome=outcome)
        await insist(self._clock, "handler outcome", lambda: room.submit(SOURCE, decide, SITE_REPORT))
        self._forget(ref)

    def _name(self, call: Call, app_session_id: str) -> str:
        """The call's name for its app: the agent's call_id, unless another agent's call has it there now."""
        taken = self._names.setdefault((app_session_id, call.call_id), call.ref)
        if taken == call.ref:
            return call.call_id
        self._names[app_session_id, call.ref] = call.ref
        return call.ref

    def _forget(self, ref: str) -> None:
        self.handed.discard(ref)
        for key in [key for key, known in self._names.items() if known == ref]:
            del self._names[key]

    # ── what containers report (ContainerEvents) ────────────────────────────────────────────────────────────

    def progress(self, session: SessionContext, call_id: str, number: int, value: Any) -> None:
        """A handler reported progress; numbers are given by the commit, in its order."""
        del number
        ref = self._names.get((session.app_session_id, call_id))
        if ref:
            self._tasks.spawn(self._insist_on_progress(ref, value), name="handler progress")
        elif ref is not None:
            self._ahead.progress(session.app_session_id, call_id, value)

    async def _insist_on_progress(self, ref: str, value: Any) -> None:
        room = self._room
        decide = partial(calls.take_progress, ref=ref, value=value)
        await insist(self._clock, "progress", lambda: room.submit(SOURCE, decide, SITE_REPORT))

    def closed(self, session: SessionContext, call_id: str, outcome: Completed | Failed) -> None:
        """The app ended a call that it had left open."""
        ref = self._names.get((session.app_session_id, call_id))
        ended = handler_outcome(outcome)
        if ref is None or ended is None:
            return
        if not ref:
            self._ahead.ended(session.app_session_id, call_id, ended)
        else:
            self._tasks.spawn(self._report(ref, ended), name="open call closed")

    def exited(self, session: SessionContext, reason: str) -> None:
        """A container is gone. One that made room while nothing ran in it will be started when needed."""
        if reason == IDLE:
            return
        room = self._room
        decide = partial(sessions.session_crashed, room=room, gone=session, reason=reason)
        self._tasks.spawn(
            insist(self._clock, "session exit", lambda: room.submit(SOURCE, decide, SITE_REPORT)),
            name="session exit",
        )


def handler_outcome(outcome: Outcome) -> HandlerOutcome | None:
    """The container's words as the commit takes them; None for a call left open."""
    match outcome:
        case Completed(result):
            return HandlerOutcome("completed", result)
        case Failed(code, message, reason):
            return HandlerOutcome("failed", code=code, reason=reason, message=message)
        case Open():
            return None
