"""A page of the shell as the chat app sees it: sends frames, folds what comes by the rules of the protocol.

It checks what every page relies on: every frame is valid, a patch follows what is known or repeats it,
nothing comes for a subscription that has ended.
"""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

from lineloop.device.bridge.frames import Answer, Direction, decode, encode
from lineloop.device.core_apps.sessions import CoreSession, CoreSessions
from lineloop.protocol.content import content_text
from lineloop.protocol.patches import apply_patch
from lineloop.testing.waiting import until

Json = dict[str, Any]


class Refused(Exception):
    """An answer with an error."""

    def __init__(self, error: Json) -> None:
        super().__init__(error["message"])
        self.code = error["code"]


class View:
    """One `messages.subscribe`, as the page has folded it."""

    def __init__(self) -> None:
        self.messages: dict[str, Json] = {}
        self.calls: dict[str, Json] = {}
        self.sayings: dict[str, Json] = {}
        self.processes: list[Json] = []
        self.more = False
        self.snapshots = 0
        self.patches = 0
        self.gaps: list[str] = []
        self.closed = False

    def texts(self, conversation_id: str | None = None) -> list[str]:
        """The texts by ordinal, of one conversation or of all."""
        chosen = [one for one in self.messages.values() if conversation_id in (None, one["conversation_id"])]
        chosen.sort(key=lambda one: (one["conversation_id"], one["ordinal"]))
        return [content_text(one["content"]) for one in chosen]

    def take(self, kind: str, payload: Json) -> None:
        assert not self.closed, f"{kind} for a subscription that has ended"
        match kind:
            case "messages.snapshot":
                self.snapshots += 1
                self.more = payload["more"]
                self.messages = {}
                for message in payload["messages"]:
                    self.replace(message)
                self.calls = {call["call_id"]: call for call in payload["calls"]}
                self.sayings = {saying["key"]: saying for saying in payload["sayings"]}
                self.processes = payload["processes"]
            case "messages.message":
                self.replace(payload["message"])
            case "messages.patch":
                self.patch(payload["message_id"], payload["patch"])
            case "messages.call":
                self.calls[payload["call"]["call_id"]] = payload["call"]
            case "messages.saying":
                self.sayings[payload["saying"]["key"]] = payload["saying"]
            case _:
                raise AssertionError(kind)

    def replace(self, message: Json) -> None:
        known = self.messages.get(message["id"])
        if known is not None and (
            known["revision"] > message["revision"]
            or (known["status"] != "streaming" and message["status"] == "streaming")
        ):
            return
        self.messages[message["id"]] = message

    def patch(self, message_id: str, patch: Json) -> None:
        known = self.messages.get(message_id)
        if known is None or patch["seq"] > known["revision"] + 1:
            self.gaps.append(message_id)
        elif patch["seq"] == known["revision"] + 1:
            self.patches += 1
            content = apply_patch(known["content"], patch)
            self.messages[message_id] = {**known, "content": content, "revision": patch["seq"]}


class Page:
    """One open core session. `hold` makes its send queue full, `let_go` empty again."""

    def __init__(self, sessions: CoreSessions, app_scope: str = "chat") -> None:
        self._ids = count(1)
        self._answers: dict[str, asyncio.Future[Any]] = {}
        self.views: dict[str, View] = {}
        self.states: list[Json] = []
        self.init: Json | None = None
        self.frames = 0
        self._room = asyncio.Event()
        self._room.set()
        self.session: CoreSession = sessions.open(app_scope, self._receive, drained=self._drained)

    async def _drained(self) -> None:
        await self._room.wait()

    def hold(self) -> None:
        self._room.clear()

    def let_go(self) -> None:
        self._room.set()

    @property
    def state(self) -> Json:
        return self.states[-1] if self.states else {}

    def _receive(self, text: str) -> None:
        self.frames += 1
        frame = decode(text, Direction.TO_APP, core=True)
        if isinstance(frame, Answer):
            waiting = self._answers.pop(frame.reply_to)
            if frame.error is not None:
                waiting.set_exception(Refused(frame.error))
            else:
                waiting.set_result(frame.ok)
        elif frame.type == "init":
            self.init = frame.payload
        elif frame.type == "state.changed":
            self.states.append(frame.payload["state"])
        else:
            self.views[frame.payload["subscription"]].take(frame.type, frame.payload)

    async def ask(self, kind: str, **payload: Any) -> Any:
        """The answer to a request. Raises Refused."""
        request_id = f"r{next(self._ids)}"
        answer = self._answers[request_id] = asyncio.get_running_loop().create_future()
        self.session.receive(encode(kind, payload, request_id))
        return await answer

    async def hello(self) -> Page:
        """Greets and waits for `init`."""
        await self.ask("hello", sdk="test/1")
        await until(lambda: self.init is not None)
        return self

    async def act(self, action: str, *, action_id: str | None = None, **params: Any) -> Any:
        """The receipt of an action. Raises Refused."""
        name = action_id or f"a{next(self._ids)}"
        return await self.ask("action.dispatch", id=name, action=action, params=params)

    async def open(self, conversation_id: str, subscription: str | None = None) -> View:
        """Subscribes to a conversation; returns once its snapshot is there."""
        name = subscription or f"s{next(self._ids)}"
        view = self.views[name] = View()
        await self.ask("messages.subscribe", subscription=name, conversation_id=conversation_id)
        await until(lambda: view.snapshots)
        return view

    async def leave(self, subscription: str) -> None:
        await self.ask("messages.unsubscribe", subscription=subscription)
        self.views[subscription].closed = True

    async def watch(self) -> None:
        """Subscribes to the state; returns once it is there."""
        before = len(self.states)
        await self.ask("state.subscribe", subscription="state")
        await until(lambda: len(self.states) > before)
