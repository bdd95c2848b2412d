"""Rebuilds every effect from facts: once at the start, and again in a slow sweep that backs every hint.

Decides only what is left to do; each reconciler knows what it does already and takes nothing twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from lineloop.device.commit import calls as call_commits
from lineloop.device.commit.loading import QUEUE_CHUNK
from lineloop.device.commit.room import Room
from lineloop.device.decide.facts import AskConsent, CloseInstance, Dispatch, ShowInstance, StartContainer
from lineloop.device.decide.state import Activation, Call, Instance
from lineloop.device.reconcile.app_sessions import AppSessions
from lineloop.device.reconcile.deadlines import Deadlines
from lineloop.device.reconcile.display import Display
from lineloop.device.reconcile.insist import insist
from lineloop.device.reconcile.outbox import OutboxSender
from lineloop.device.store import calls, outbox, sessions
from lineloop.kit.database import Tx

SOURCE = "runtime"
FOREVER = 1 << 62


@dataclass(slots=True)
class Unfinished:
    """What the facts say is still to be done."""

    dispatched: list[Call]
    consents: list[Call]
    due: list[calls.Due]
    starting: list[Activation]
    stopping: list[Instance]
    shown: list[tuple[Instance, str]]
    outbox: list[outbox.Entry]
    pumps: list[tuple[str, str]]
    stranded: bool


class Restorer:
    """Hands what is unfinished to the reconcilers."""

    def __init__(
        self,
        room: Room,
        *,
        app_sessions: AppSessions,
        deadlines: Deadlines,
        display: Display,
        sender: OutboxSender,
    ) -> None:
        self._room = room
        self._app_sessions = app_sessions
        self._deadlines = deadlines
        self._display = display
        self._sender = sender

    async def restore_outbox(self) -> None:
        """Before anything else: what was not said yet stands in line before all that will be said now."""
        room = self._room
        for entry in await room.foundation.read(lambda tx: outbox.pending(tx, room.runtime_id)):
            self._sender.add(entry, urgent=True)

    async def restore(self) -> None:
        """At the start of a process. Calls that were with their app are taken up by their idempotency."""
        found = await self._look(FOREVER)
        self._hand_out(found)
        room = self._room
        for call in found.dispatched:
            decide = partial(call_commits.take_up, room=room, ref=call.ref)
            room.submit(SOURCE, decide).add_done_callback(lambda done: done.exception())
        await self._move_on(found)

    async def sweep(self, horizon_ms: int) -> None:
        """While the process lives: what a lost hint left. Deadlines are looked at up to the horizon."""
        flushed = self._room.flush()
        if flushed is not None:
            await flushed
        found = await self._look(self._room.foundation.clock.now_ms() + horizon_ms)
        self._hand_out(found)
        for call in found.dispatched:
            self._app_sessions.dispatch(Dispatch(call))
        await self._move_on(found)

    async def _look(self, before: int) -> Unfinished:
        runtime_id = self._room.runtime_id

        def job(tx: Tx) -> Unfinished:
            shown: list[tuple[Instance, str]] = []
            for instance_id in sessions.tops_of_focus(tx, runtime_id):
                instance = sessions.instance_by_id(tx, instance_id)
                activation = sessions.activation_of(tx, instance_id)
                if instance is not None and instance.ended_at is None and activation is not None:
                    shown.append((instance, activation.activation_id))
            return Unfinished(
                dispatched=calls.dispatched(tx, runtime_id),
                consents=calls.awaiting_consent(tx, runtime_id),
                due=[
                    *calls.deadlines(tx, runtime_id, before),
                    *sessions.activation_deadlines(tx, runtime_id),
                    *sessions.operation_deadlines(tx, runtime_id),
                ],
                starting=sessions.starting_activations(tx, runtime_id),
                stopping=sessions.stopping_instances(tx, runtime_id),
                shown=shown,
                outbox=outbox.pending(tx, runtime_id),
                pumps=calls.ready_to_pump(tx, runtime_id),
                stranded=bool(calls.stranded(tx, runtime_id, 1)),
            )

        return await self._room.foundation.read(job)

    def _hand_out(self, found: Unfinished) -> None:
        for due in found.due:
            self._deadlines.arm(due.kind, due.id, due.at, due.span_ms)
        for entry in found.outbox:
            self._sender.add(entry, urgent=True)
        for activation in found.starting:
            if activation.waits_for == "container":
                self._app_sessions.start(StartContainer(activation))
        for instance in found.stopping:
            self._display.close(CloseInstance(instance, False))
        for instance, activation_id in found.shown:
            self._display.show(ShowInstance(instance, activation_id))
        for call in found.consents:
            self._display.ask(AskConsent(call))

    async def _move_on(self, found: Unfinished) -> None:
        for conversation_id, app_scope in found.pumps:
            await self.pump(conversation_id, app_scope)
        if found.stranded:
            await self.end_stranded()

    async def pump(self, conversation_id: str, app_scope: str) -> None:
        """Moves the waiting calls of a ready session on."""
        room = self._room
        decide = partial(
            call_commits.pump_session, room=room, conversation_id=conversation_id, app_scope=app_scope
        )
        await insist(room.foundation.clock, "waiting calls", lambda: room.submit(SOURCE, decide))

    async def end_stranded(self) -> None:
        """Ends the calls whose app has gone, chunk by chunk."""
        room = self._room
        decide = partial(call_commits.end_stranded, room=room)
        ended = QUEUE_CHUNK
        while ended >= QUEUE_CHUNK:
            ended = await insist(room.foundation.clock, "stranded calls", lambda: room.submit(SOURCE, decide))
