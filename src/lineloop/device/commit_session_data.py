"""Session data at work: get, replace, subscribe, in one serial order per device.

Decides the order in which subscribers learn of changes: a subscription is registered by a job of the one
writer, so it stands somewhere between two replaces; what came before is in its first frame, what comes after
follows it. What may be stored is decided in decide/session_data.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from lineloop.device.containers.port import SessionContext
from lineloop.device.decide.session_data import (
    CheckedData,
    check_expected_revision,
    check_session_data,
    decide_replace,
)
from lineloop.device.foundation import Foundation
from lineloop.device.store import session_data as store
from lineloop.kit import json
from lineloop.kit.database import Tx
from lineloop.kit.records import record
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import LoopError

REPLACE = "device.session_data.replace"


@record
class Snapshot:
    """The whole data of a sub-session at a revision; `text` is compact JSON, None when nothing is stored."""

    text: str | None
    revision: int

    @property
    def data(self) -> dict[str, Any] | None:
        return None if self.text is None else json.loads(self.text)


Listener = Callable[[Snapshot], None]


class Subscription:
    """A listener's place in the order. Ends with `close`, which may be called again."""

    __slots__ = ("_listener", "live", "on_close")

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self.live = True
        self.on_close: Callable[[], None] | None = None

    def tell(self, snapshot: Snapshot) -> None:
        if self.live:
            self._listener(snapshot)

    def close(self) -> None:
        self.live = False
        if self.on_close is not None:
            self.on_close()


class SessionData:
    """`app.session-data.v1` for every app session of one device.

    The context says whose data it is; there is no other way to name them. Listeners run on the event loop and
    must not block. Raises LoopError: session_data_unavailable when the context is of no sub-session (any
    more), storage_unavailable, and what each method names.
    """

    def __init__(self, foundation: Foundation) -> None:
        self._foundation = foundation
        self._clock = foundation.clock
        self._runtime_id = foundation.runtime_id
        self._subscriptions: dict[tuple[str, str], list[Subscription]] = {}

    @property
    def subscriptions(self) -> int:
        """How many subscriptions are live."""
        return sum(len(listeners) for listeners in self._subscriptions.values())

    async def get(self, context: SessionContext) -> Snapshot:
        """The data now; nothing stored is `(None, 0)`."""
        return await self._foundation.read(partial(self._read, context=context))

    async def replace(self, context: SessionContext, data: Any, expected_revision: Any) -> int:
        """Replaces the whole data if nobody else did since `expected_revision`; returns the new revision.

        Raises LoopError session_data_revision_conflict, session_data_invalid, session_data_quota_exceeded.
        """
        revision = check_expected_revision(expected_revision)
        checked = check_session_data(data)
        job = partial(self._replace, context=context, data=checked, expected_revision=revision)
        return await self._foundation.write(job, REPLACE)

    async def subscribe(self, context: SessionContext, listener: Listener) -> Subscription:
        """Registers `listener`; its first call is the full snapshot, then one call per revision, each +1."""
        subscription = Subscription(listener)
        job = partial(self._subscribe, context=context, subscription=subscription)
        try:
            await self._foundation.write(job)
        except BaseException:
            subscription.close()
            raise
        return subscription

    def _read(self, tx: Tx, *, context: SessionContext) -> Snapshot:
        self._require(tx, context)
        key = (self._runtime_id, context.app_scope, context.app_session_id)
        return Snapshot(*store.read_data(tx, *key))

    def _replace(self, tx: Tx, *, context: SessionContext, data: CheckedData, expected_revision: int) -> int:
        self._require(tx, context)
        key = (self._runtime_id, context.app_scope, context.app_session_id)
        stored = store.load_stored(tx, *key)
        app_bytes = store.load_usage(tx, self._runtime_id, context.app_scope)
        fact = decide_replace(stored, app_bytes, data, expected_revision)
        store.save_replaced(tx, key, fact, self._clock.now_ms())
        snapshot = Snapshot(fact.text, fact.revision)
        tx.after_commit(partial(self._tell, (context.app_scope, context.app_session_id), snapshot))
        return fact.revision

    def _subscribe(self, tx: Tx, *, context: SessionContext, subscription: Subscription) -> None:
        snapshot = self._read(tx, context=context)
        key = (context.app_scope, context.app_session_id)
        tx.after_commit(partial(self._register, key, subscription, snapshot))

    def _require(self, tx: Tx, context: SessionContext) -> None:
        if not store.session_exists(tx, self._runtime_id, context.app_scope, context.app_session_id):
            raise LoopError("there is no such session", code=ErrorCode.SESSION_DATA_UNAVAILABLE)

    def _register(self, key: tuple[str, str], subscription: Subscription, snapshot: Snapshot) -> None:
        if not subscription.live:
            return
        self._subscriptions.setdefault(key, []).append(subscription)
        subscription.on_close = partial(self._unregister, key, subscription)
        subscription.tell(snapshot)

    def _unregister(self, key: tuple[str, str], subscription: Subscription) -> None:
        listeners = self._subscriptions.get(key)
        if listeners is not None and subscription in listeners:
            listeners.remove(subscription)
            if not listeners:
                del self._subscriptions[key]

    def _tell(self, key: tuple[str, str], snapshot: Snapshot) -> None:
        for subscription in tuple(self._subscriptions.get(key, ())):
            subscription.tell(snapshot)
