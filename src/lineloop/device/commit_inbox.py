"""The app inbox at work: persist first, deliver after.

Decides the order of the two and who hears of a message: the sessions of the app that subscribed, within their
conversation. Which messages an app may get at all, and which of them it must acknowledge, is decided in
decide/inbox.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from lineloop.device.containers.port import InstalledApp, SessionContext
from lineloop.device.decide.inbox import (
    MAX_PAGE,
    InboxEntry,
    InboxMessage,
    MessageKept,
    MessageRefused,
    Receiver,
    decide_acknowledge,
    decide_app_gone,
    decide_receive,
    matches_any,
)
from lineloop.device.foundation import Foundation
from lineloop.device.store import inbox as store
from lineloop.kit.database import Tx
from lineloop.kit.records import record
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import NotFound
from lineloop.protocol.tools import CORE_SCOPES

ACKNOWLEDGE = "device.inbox.acknowledge"

Deliver = Callable[[InboxEntry], None]


@record
class InboxPage:
    """One page of pending messages; `next` is the position to go on from, None at the end."""

    items: tuple[InboxEntry, ...]
    next: int | None


@dataclass(slots=True, eq=False)
class InboxSubscription:
    """A session's interest.

    `types` None = everything its app may get; `conversation_id` None = all of them.
    """

    app_scope: str
    app_session_id: str | None
    conversation_id: str | None
    types: tuple[str, ...] | None
    deliver: Deliver
    live: bool = True

    def wants(self, message: InboxMessage) -> bool:
        return (
            self.live
            and message.app_scope == self.app_scope
            and (self.conversation_id is None or message.conversation_id == self.conversation_id)
            and (message.app_session_id is None or message.app_session_id == self.app_session_id)
            and matches_any(self.types, message.type)
        )

    def close(self) -> None:
        self.live = False


class AppInbox:
    """Inboxes of every app of one device.

    `core_apps` are the scopes whose sessions may look beyond their own conversation. Raises LoopError:
    storage_unavailable, and what each method names.
    """

    def __init__(self, foundation: Foundation, core_apps: frozenset[str] = CORE_SCOPES) -> None:
        self._foundation = foundation
        self._database = foundation.database
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._runtime_id = foundation.runtime_id
        self._run = foundation.write
        self._core_apps = core_apps
        self._subscriptions: list[InboxSubscription] = []

    # ── inside another job ──────────────────────────────────────────────────────────────────────────────────

    def receive_in(
        self, tx: Tx, message: InboxMessage, receiver: Receiver | None
    ) -> MessageKept | MessageRefused | None:
        """Persists a checked message within `tx`; delivered after its commit. None: it was already there.

        The caller answers a MessageRefused whose message is critical.
        """
        known = store.is_known(tx, self._runtime_id, message)
        position = store.next_position(tx, self._runtime_id, message.app_scope)
        decided = decide_receive(message, receiver, known, self._ids.make("inb"), position)
        if isinstance(decided, MessageKept):
            store.save_kept(tx, self._runtime_id, decided, self._clock.now_ms())
            entry = InboxEntry(decided.inbox_id, decided.position, "pending", message)
            tx.after_commit(partial(self._deliver, entry))
        return decided

    def app_gone_in(self, tx: Tx, app_scope: str, code: ErrorCode, *, delete: bool) -> list[MessageRefused]:
        """Closes what a disabled or removed app has not acknowledged; returns what must be answered.

        Display messages stay for the day it is enabled again, unless `delete`.
        """
        pending = store.list_pending(tx, self._runtime_id, app_scope, limit=-1)
        refused = decide_app_gone(pending, code)
        store.reject_critical(tx, self._runtime_id, app_scope, self._clock.now_ms())
        if delete:
            store.delete_app(tx, self._runtime_id, app_scope)
        return refused

    # ── for app sessions ────────────────────────────────────────────────────────────────────────────────────

    async def list(
        self, context: SessionContext, *, after: int = 0, limit: int = 50, conversation_id: str | None = None
    ) -> InboxPage:
        """Pending messages of the session, oldest first. Reading display messages acknowledges them."""
        wanted = min(max(limit, 1), MAX_PAGE)
        where = self._reach(context, conversation_id)

        def job(tx: Tx) -> list[InboxEntry]:
            found = store.list_pending(
                tx,
                self._runtime_id,
                context.app_scope,
                conversation_id=where,
                app_session_id=context.app_session_id,
                after=after,
                limit=wanted + 1,
            )
            for entry in found[:wanted]:
                if not entry.message.critical:
                    store.acknowledge(tx, self._runtime_id, entry.inbox_id, self._clock.now_ms())
            return found

        found = await self._run(job)
        items = tuple(found[:wanted])
        return InboxPage(items, items[-1].position if len(found) > wanted else None)

    async def acknowledge(self, context: SessionContext, inbox_id: str) -> None:
        """Takes a message out of the inbox; again is no error.

        Raises NotFound for what is not the session's.
        """

        def job(tx: Tx) -> None:
            entry = store.load_entry(tx, self._runtime_id, inbox_id)
            if entry is None or not self._may_see(context, entry.message):
                raise NotFound("there is no such message", code=ErrorCode.MESSAGE_NOT_FOUND)
            if decide_acknowledge(entry):
                store.acknowledge(tx, self._runtime_id, inbox_id, self._clock.now_ms())

        await self._run(job, ACKNOWLEDGE)

    async def subscribe(
        self,
        context: SessionContext,
        deliver: Deliver,
        *,
        types: Sequence[str] | None = None,
        conversation_id: str | None = None,
        include_pending: bool = True,
    ) -> InboxSubscription:
        """Live messages from now on, with `include_pending` after those that wait; in order of arrival."""
        subscription = InboxSubscription(
            context.app_scope,
            context.app_session_id,
            self._reach(context, conversation_id),
            None if types is None else tuple(types),
            deliver,
        )

        def job(tx: Tx) -> None:
            pending: list[InboxEntry] = []
            if include_pending:
                pending = store.list_pending(
                    tx,
                    self._runtime_id,
                    context.app_scope,
                    conversation_id=subscription.conversation_id,
                    app_session_id=context.app_session_id,
                    limit=-1,
                )
            tx.after_commit(partial(self._register, subscription, pending))

        try:
            await self._run(job)
        except BaseException:
            subscription.close()
            raise
        return subscription

    async def prune(self, before_ms: int) -> int:
        """Forgets old messages, but never a critical one that waits; returns how many."""
        return await self._run(lambda tx: store.prune(tx, self._runtime_id, before_ms))

    # ── delivery ────────────────────────────────────────────────────────────────────────────────────────────

    def _register(self, subscription: InboxSubscription, pending: list[InboxEntry]) -> None:
        self._subscriptions = [each for each in self._subscriptions if each.live]
        if not subscription.live:
            return
        self._subscriptions.append(subscription)
        for entry in pending:
            if subscription.wants(entry.message):
                self._hand_over(subscription, entry)

    def _deliver(self, entry: InboxEntry) -> None:
        for subscription in tuple(self._subscriptions):
            if subscription.wants(entry.message):
                self._hand_over(subscription, entry)

    def _hand_over(self, subscription: InboxSubscription, entry: InboxEntry) -> None:
        subscription.deliver(entry)
        if not entry.message.critical:
            # Display messages count as seen by delivery. Lost in a crash, this only means delivered again.
            now_ms = self._clock.now_ms()
            self._database.submit(
                lambda tx: store.acknowledge(tx, self._runtime_id, entry.inbox_id, now_ms)
            ).add_done_callback(_ignore_failure)

    def _reach(self, context: SessionContext, conversation_id: str | None) -> str | None:
        """Which conversation a session may look into: core apps any or all, others their own."""
        if context.app_scope in self._core_apps:
            return conversation_id
        return context.conversation_id

    def _may_see(self, context: SessionContext, message: InboxMessage) -> bool:
        reach = self._reach(context, None)
        return (
            message.app_scope == context.app_scope
            and (reach is None or message.conversation_id == reach)
            and (message.app_session_id is None or message.app_session_id == context.app_session_id)
        )


def receiver_of(app: InstalledApp | None) -> Receiver | None:
    """What the inbox has to know of an app; None when it is not installed."""
    if app is None:
        return None
    code = ErrorCode(app.unavailable) if app.unavailable is not None else ErrorCode.APP_DISABLED
    return Receiver(app.startable, code, tuple(one.type for one in app.manifest.agent_subscriptions))


def _ignore_failure(future: Any) -> None:
    if not future.cancelled():
        future.exception()
