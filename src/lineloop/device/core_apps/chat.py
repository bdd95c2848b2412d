"""The answers of the chat app: conversations, messages, calls, what the person says.

Decides which request leads where and what an action must carry. What is kept and sent is the person's side;
how it is told, the feeds.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from lineloop.device.bridge.session_bridge import MAX_SUBSCRIPTIONS, Request
from lineloop.device.core_apps.message_feed import MessageFeed
from lineloop.device.core_apps.params import Params
from lineloop.device.core_apps.port import SessionParts
from lineloop.device.core_apps.state_feed import States
from lineloop.device.core_apps.wire_size import (
    MAX_CONVERSATIONS_BYTES,
    first_within,
    fitted,
    newest_within,
)
from lineloop.device.person.side import PersonSide
from lineloop.device.store import call_views, person
from lineloop.kit.clock import parse_rfc3339
from lineloop.kit.database import Tx
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import Forbidden, InvalidRequest, LoopError

MAX_PAGE_CALLS = 200
MAX_HITS = 50
MAX_SEARCH_CHARS = 500

Action = Callable[[Params], Awaitable[dict[str, Any]]]


class ChatSession:
    """One open session of the chat app."""

    def __init__(self, session: SessionParts) -> None:
        self._parts = session.parts
        self._model = session.model
        self._outgoing = session.outgoing
        self._receipts = session.receipts
        self._states = States(session.outgoing, self.state, self._watched)
        self._feeds: dict[str, MessageFeed] = {}
        self._stops = [self._parts.connection.subscribe(self._states.changed)]
        self._actions: dict[str, Action] = {
            "say": self._say,
            "answer": self._answer,
            "forget_saying": self._forget_saying,
            "stop_run": self._stop_run,
            "create_conversation": self._create_conversation,
            "mark_read": self._mark_read,
            "rename": self._rename,
            "archive": self._archive,
            "invite": self._invite,
            "take_out": self._take_out,
        }

    @property
    def requests(self) -> dict[str, Request]:
        return {
            **self._states.requests,
            "messages.list": self._list,
            "messages.get": self._get,
            "messages.search": self._search,
            "messages.subscribe": self._subscribe,
            "messages.unsubscribe": self._unsubscribe,
            "questions.get": self._question,
            "participants.list": self._participants,
            "action.dispatch": self._dispatch,
        }

    async def state(self) -> dict[str, Any]:
        """The connection, the person, conversations and recipients, the default model."""
        owner, side = self._parts.person, self._parts.person_side
        conversations = [] if side is None else side.conversations.to_wire()
        return {
            "connection": self._parts.connection.now(),
            "person": None if owner is None else owner.to_wire(),
            "conversations": first_within(conversations, MAX_CONVERSATIONS_BYTES),
            "recipients": [] if side is None else side.recipients.to_wire(),
            "recipients_known": side is None or side.recipients.known,
            "model": self._model(),
        }

    def model_changed(self) -> None:
        self._states.changed()

    def close(self) -> None:
        for stop in self._stops:
            stop()
        for feed in self._feeds.values():
            feed.close()
        self._feeds.clear()
        self._states.close()

    def _watched(self) -> None:
        """The first who looks at the state lets conversations and recipients be looked for."""
        side = self._parts.person_side
        if side is not None:
            self._stops.append(side.conversations.subscribe(self._states.changed))
            self._stops.append(side.recipients.subscribe(self._states.changed))

    @property
    def _side(self) -> PersonSide:
        side = self._parts.person_side
        if side is None:
            raise Forbidden("this device does not have its person's credential")
        return side

    # ── messages ────────────────────────────────────────────────────────────────────────────────────────────

    async def _list(self, payload: dict[str, Any]) -> dict[str, Any]:
        """A page of a root or process conversation, ascending, and the calls of its time."""
        conversation_id, before = payload["conversation_id"], payload.get("before")
        page = await self._side.history_pages.page(
            conversation_id, before=before, limit=payload.get("limit", 50)
        )
        shown, room = newest_within(page.messages)
        more = page.more or len(shown) < len(page.messages)
        calls = await self._calls_of(conversation_id, shown, before, more=more)
        return {"messages": shown, "more": more, "calls": first_within(calls[::-1], room + 100_000)[::-1]}

    async def _calls_of(
        self, conversation_id: str, shown: list[dict[str, Any]], before: int | None, *, more: bool
    ) -> list[dict[str, Any]]:
        """The calls between the first message of a page and the first message behind it."""
        if not shown:
            return []
        runtime_id, apps = self._parts.foundation.runtime_id, self._parts.registry.apps
        since = parse_rfc3339(shown[0]["created_at"]) if more else 0

        def read(tx: Tx) -> list[dict[str, Any]]:
            until = None
            if before is not None:
                behind = person.history(tx, runtime_id, conversation_id, before - 1, 1)
                until = parse_rfc3339(behind[0].created_at) if behind else None
            return call_views.views_of_conversation(
                tx,
                runtime_id,
                conversation_id,
                apps,
                since_ms=since,
                until_ms=until,
                limit=MAX_PAGE_CALLS,
            )

        return await self._parts.foundation.read(read)

    async def _get(self, payload: dict[str, Any]) -> dict[str, Any]:
        message, _ = fitted(await self._side.history_pages.message(payload["message_id"]))
        return {"message": message}

    async def _search(self, payload: dict[str, Any]) -> dict[str, Any]:
        """One page of hits; the server's, because only it has everything."""
        words = payload["words"]
        if len(words) > MAX_SEARCH_CHARS:
            raise InvalidRequest("too many words", pointer="/words")
        found = await self._side.search(
            words,
            conversation_id=payload.get("conversation_id"),
            after=payload.get("after"),
            limit=min(max(payload.get("limit", 20), 1), MAX_HITS),
        )
        return {"items": found["items"], "next": found.get("next")}

    async def _subscribe(self, payload: dict[str, Any]) -> dict[str, Any]:
        name = payload["subscription"]
        if name in self._feeds:
            raise LoopError("this subscription exists", code=ErrorCode.BRIDGE_INVALID)
        if len(self._feeds) >= MAX_SUBSCRIPTIONS:
            raise LoopError("too many subscriptions", code=ErrorCode.LIMIT_EXCEEDED)
        self._feeds[name] = MessageFeed(
            name, payload["conversation_id"], self._parts, self._side, self._outgoing
        )
        return {"subscription": name}

    async def _unsubscribe(self, payload: dict[str, Any]) -> dict[str, Any]:
        feed = self._feeds.pop(payload["subscription"], None)
        if feed is not None:
            feed.close()
        return {}

    async def _question(self, payload: dict[str, Any]) -> dict[str, Any]:
        return (await self._side.question(payload["question_id"])).to_wire()

    async def _participants(self, payload: dict[str, Any]) -> dict[str, Any]:
        found = await self._side.members.listed(payload["conversation_id"])
        return {"items": first_within(found, MAX_CONVERSATIONS_BYTES)}

    # ── actions ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _dispatch(self, payload: dict[str, Any]) -> dict[str, Any]:
        action = self._actions.get(payload["action"])
        if action is None:
            raise InvalidRequest(f"there is no action {payload['action'][:40]!r}", pointer="/action")
        params = Params(payload["params"], payload["id"])
        return await self._receipts.once(payload["id"], lambda: action(params))

    async def _say(self, params: Params) -> dict[str, Any]:
        """Kept when this answers; sent as soon as there is a server."""
        saying = await self._side.said(
            params.name("conversation_id"),
            params.text("text"),
            key=params.name("key"),
            target=params.actor("target"),
            reply_to_id=params.optional_name("reply_to_id"),
        )
        return saying.to_wire()

    async def _answer(self, params: Params) -> dict[str, Any]:
        saying = await self._side.answered(
            params.name("conversation_id"), params.name("question_id"), params.optional_text("value")
        )
        return saying.to_wire()

    async def _forget_saying(self, params: Params) -> dict[str, Any]:
        await self._side.outbox.forget(params.optional_name("conversation_id"), params.name("key"))
        return {}

    async def _stop_run(self, params: Params) -> dict[str, Any]:
        return {"phase": await self._side.stop_run(params.name("message_id"))}

    async def _create_conversation(self, params: Params) -> dict[str, Any]:
        """The same key is the same conversation, also after a restart; without one the action's id is it."""
        key = params.optional_name("key") or params.action_id
        return await self._side.conversations.create(params.optional_text("name"), key)

    async def _mark_read(self, params: Params) -> dict[str, Any]:
        await self._side.conversations.mark_read(params.name("conversation_id"), params.count("ordinal"))
        return {}

    async def _rename(self, params: Params) -> dict[str, Any]:
        return await self._side.conversations.change(params.name("conversation_id"), name=params.text("name"))

    async def _archive(self, params: Params) -> dict[str, Any]:
        """`archived` false brings it back."""
        conversation_id = params.name("conversation_id")
        return await self._side.conversations.change(conversation_id, archived=params.flag("archived"))

    async def _invite(self, params: Params) -> dict[str, Any]:
        return await self._side.members.invite(params.name("conversation_id"), params.whom("participant"))

    async def _take_out(self, params: Params) -> dict[str, Any]:
        conversation_id, whom = params.name("conversation_id"), params.whom("participant")
        await self._side.members.take_out(conversation_id, whom)
        if whom == self._parts.person:
            await self._side.conversations.left(conversation_id)
        return {}
