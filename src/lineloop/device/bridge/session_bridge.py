"""What an app session may ask of the Runtime, whatever carries its frames (logic container or surface).

Decides which request goes where and that every request gets exactly one answer. Tools are not here: their
frames belong to the container. Identity is the session given at construction; payloads cannot change it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from lineloop.device.bridge.frames import (
    Answer,
    Direction,
    Frame,
    FrameRefused,
    decode,
    encode,
    encode_error,
    encode_ok,
)
from lineloop.device.commit_inbox import AppInbox, InboxSubscription
from lineloop.device.commit_session_data import SessionData, Snapshot, Subscription
from lineloop.device.containers.port import SessionContext
from lineloop.device.decide.inbox import InboxEntry
from lineloop.kit import json
from lineloop.kit.tasks import Tasks
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import LoopError

_log = structlog.get_logger(__name__)

MAX_REQUESTS_AT_ONCE = 200
MAX_SUBSCRIPTIONS = 32

Request = Callable[[dict[str, Any]], Awaitable[Any]]
Told = Callable[[dict[str, Any]], None]


class SessionBridge:
    """The Runtime's end of one app session.

    `send` takes one encoded frame. `core` says whether the app is a core app; `more` adds requests that other
    parts answer (frame type → async function of the payload), `told` events that they take (frame type →
    function of the payload, may raise LoopError). Frames may come from `receive` (text) or, already decoded,
    from `handle`.
    """

    def __init__(
        self,
        session: SessionContext,
        send: Callable[[str], None],
        *,
        session_data: SessionData,
        inbox: AppInbox,
        tasks: Tasks,
        core: bool = False,
        more: dict[str, Request] | None = None,
        told: dict[str, Told] | None = None,
    ) -> None:
        self._session = session
        self._send = send
        self._session_data = session_data
        self._inbox = inbox
        self._tasks = tasks
        self._core = core
        self._told = told or {}
        self._closed = False
        self._running = 0
        self._data_subscriptions: dict[str, Subscription] = {}
        self._inbox_subscriptions: dict[str, InboxSubscription] = {}
        self.refused: Counter[str] = Counter()
        self._requests: dict[str, Request] = {
            "session.get": self._get,
            "session.replace": self._replace,
            "session.subscribe": self._subscribe,
            "session.unsubscribe": self._unsubscribe,
            "inbox.list": self._inbox_list,
            "inbox.ack": self._inbox_ack,
            "inbox.subscribe": self._inbox_subscribe,
            "inbox.unsubscribe": self._inbox_unsubscribe,
            **(more or {}),
        }

    def receive(self, text: str) -> None:
        """One frame as it came. A frame that is not valid is counted and, when it has an id, answered."""
        try:
            frame = decode(text, Direction.TO_RUNTIME, core=self._core)
        except FrameRefused as refused:
            self._refuse(refused, refused.request_id)
            return
        if isinstance(frame, Answer):
            self._refuse(FrameRefused("nothing was asked"), None)
            return
        self.handle(frame)

    def handle(self, frame: Frame) -> None:
        """One decoded frame.

        Requests run beside each other; those that write keep their order in the writer.
        """
        if self._closed:
            return
        request = self._requests.get(frame.type)
        if frame.id is None:
            self._take_event(frame)
            return
        if request is None:
            message = f"{frame.type} is not offered by this Runtime"
            self._refuse(LoopError(message, code=ErrorCode.SDK_INCOMPATIBLE), frame.id)
            return
        if self._running >= MAX_REQUESTS_AT_ONCE:
            self._refuse(LoopError("too many requests at once", code=ErrorCode.OVERLOADED), frame.id)
            return
        self._running += 1
        self._tasks.spawn(self._answer(frame.id, request, frame.payload), name=frame.type)

    def _take_event(self, frame: Frame) -> None:
        told = self._told.get(frame.type)
        if told is None:
            self._refuse(FrameRefused(f"{frame.type} is not taken here"), None)
            return
        try:
            told(frame.payload)
        except LoopError as error:
            self._refuse(error, None)

    def close(self) -> None:
        """Ends every subscription; nothing is sent any more. Idempotent."""
        self._closed = True
        for subscription in [*self._data_subscriptions.values(), *self._inbox_subscriptions.values()]:
            subscription.close()
        self._data_subscriptions.clear()
        self._inbox_subscriptions.clear()

    async def _answer(self, request_id: str, request: Request, payload: dict[str, Any]) -> None:
        try:
            answer = encode_ok(request_id, await request(payload))
        except LoopError as error:
            answer = encode_error(request_id, error)
        except Exception:
            _log.exception("bridge_request_failed", app_scope=self._session.app_scope)
            answer = encode_error(request_id, LoopError("the Runtime failed to answer"))
        finally:
            self._running -= 1
        if not self._closed:
            self._send(answer)

    def _refuse(self, error: LoopError, request_id: str | None) -> None:
        self.refused[str(error.code)] += 1
        _log.warning(
            "bridge_refused",
            app_scope=self._session.app_scope,
            app_session_id=self._session.app_session_id,
            code=str(error.code),
            why=error.message[:200],
        )
        if request_id is not None and not self._closed:
            self._send(encode_error(request_id, error))

    # ── session data ────────────────────────────────────────────────────────────────────────────────────────

    async def _get(self, _: dict[str, Any]) -> dict[str, Any]:
        snapshot = await self._session_data.get(self._session)
        return {"data": snapshot.data, "revision": snapshot.revision}

    async def _replace(self, payload: dict[str, Any]) -> dict[str, Any]:
        revision = await self._session_data.replace(
            self._session, payload["data"], payload["expected_revision"]
        )
        return {"revision": revision}

    async def _subscribe(self, payload: dict[str, Any]) -> dict[str, Any]:
        name = payload["subscription"]
        self._check_new(name, self._data_subscriptions)

        def changed(snapshot: Snapshot) -> None:
            if not self._closed:
                self._send(_session_changed(name, snapshot))

        subscription = await self._session_data.subscribe(self._session, changed)
        self._keep(name, subscription, self._data_subscriptions)
        return {"subscription": name}

    async def _unsubscribe(self, payload: dict[str, Any]) -> dict[str, Any]:
        subscription = self._data_subscriptions.pop(payload["subscription"], None)
        if subscription is not None:
            subscription.close()
        return {}

    # ── inbox ───────────────────────────────────────────────────────────────────────────────────────────────

    async def _inbox_list(self, payload: dict[str, Any]) -> dict[str, Any]:
        page = await self._inbox.list(
            self._session, after=payload.get("after", 0), limit=payload.get("limit", 50)
        )
        return {"items": [inbox_message(entry) for entry in page.items], "next": page.next}

    async def _inbox_ack(self, payload: dict[str, Any]) -> dict[str, Any]:
        await self._inbox.acknowledge(self._session, payload["id"])
        return {}

    async def _inbox_subscribe(self, payload: dict[str, Any]) -> dict[str, Any]:
        name = payload["subscription"]
        self._check_new(name, self._inbox_subscriptions)

        def deliver(entry: InboxEntry) -> None:
            if not self._closed:
                message = {"subscription": name, "message": inbox_message(entry)}
                self._send(encode("inbox.message", message))

        subscription = await self._inbox.subscribe(
            self._session,
            deliver,
            types=payload.get("types"),
            conversation_id=payload.get("conversation_id"),
            include_pending=payload.get("include_pending", True),
        )
        self._keep(name, subscription, self._inbox_subscriptions)
        return {"subscription": name}

    async def _inbox_unsubscribe(self, payload: dict[str, Any]) -> dict[str, Any]:
        subscription = self._inbox_subscriptions.pop(payload["subscription"], None)
        if subscription is not None:
            subscription.close()
        return {}

    def _check_new(self, name: str, subscriptions: dict[str, Any]) -> None:
        if name in subscriptions:
            raise LoopError("this subscription exists", code=ErrorCode.BRIDGE_INVALID)
        if len(subscriptions) >= MAX_SUBSCRIPTIONS:
            raise LoopError("too many subscriptions", code=ErrorCode.LIMIT_EXCEEDED)

    def _keep(self, name: str, subscription: Any, subscriptions: dict[str, Any]) -> None:
        """Remembers a new subscription, unless the session ended or the name was taken meanwhile."""
        if self._closed or name in subscriptions:
            subscription.close()
            return
        subscriptions[name] = subscription


def inbox_message(entry: InboxEntry) -> dict[str, Any]:
    """A message as an app sees it."""
    message = entry.message
    return {
        "id": entry.inbox_id,
        "position": entry.position,
        "message_id": message.message_id,
        "conversation_id": message.conversation_id,
        "type": message.type,
        "payload": message.payload,
        "needs_ack": message.critical,
    }


def _session_changed(subscription: str, snapshot: Snapshot) -> str:
    # The stored text goes out as it is: large data are not parsed to be written again.
    return (
        f'{{"v":1,"type":"session.changed","payload":{{"subscription":{json.dumps(subscription)},'
        f'"data":{snapshot.text or "null"},"revision":{snapshot.revision}}}}}'
    )
