"""The person's side of a device: what they see is kept for chat, what they say is kept until it is said.

Decides which conversations are followed, that a message is persisted before anybody is told, and the order
in which sayings go out. It holds the person's credential: only the shell's own entry calls `say` and
`answer`; no agent and no app session has a way here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import structlog

from lineloop.client.loop import Loop
from lineloop.client.retry import is_transient
from lineloop.client.sse import MessageEvent, StreamEvent, View, stream_once
from lineloop.client.transport import Transport
from lineloop.device.apps import AppRegistry
from lineloop.device.commit_inbox import AppInbox, receiver_of
from lineloop.device.decide.inbox import InboxMessage
from lineloop.device.decide.person import CHAT, content_envelope, is_shown
from lineloop.device.foundation import Foundation
from lineloop.device.store import person as store
from lineloop.device.store.person import Saying
from lineloop.kit.backoff import Backoff
from lineloop.kit.database import Tx
from lineloop.kit.tasks import Tasks
from lineloop.protocol.actors import Actor
from lineloop.protocol.content import text_content
from lineloop.protocol.errors import LoopError
from lineloop.protocol.messages import Message

_log = structlog.get_logger(__name__)

MESSAGE = "device.person.message"
MAX_FOLLOWED = 50
LOOK_AGAIN_SECONDS = 30.0
BATCH = 100

Listener = Callable[[Message], None]


class PersonSide:
    """Follows the person's conversations and speaks as the person.

    `transport` carries the person's credential and belongs to this object from now on. Listeners hear every
    state of every shown message, streaming ones too, on the event loop; what is complete has been persisted
    by then.
    """

    def __init__(
        self, foundation: Foundation, transport: Transport, inbox: AppInbox, registry: AppRegistry
    ) -> None:
        self._foundation = foundation
        self._runtime_id = foundation.runtime_id
        self._clock = foundation.clock
        self._transport = transport
        self._loop = Loop(transport, clock=foundation.clock, faults=foundation.faults)
        self._inbox = inbox
        self._registry = registry
        self._tasks = Tasks("person")
        self._followed: set[str] = set()
        self._listeners: list[Listener] = []
        self._said = asyncio.Event()
        self._backoff = Backoff(0.2, 2.0, 10.0, 0.3)

    async def start(self) -> None:
        """Takes up what was followed and what was not yet said. Works without a server: it waits for one."""
        for root_id in await self._foundation.read(
            lambda tx: store.known_roots(tx, self._runtime_id, MAX_FOLLOWED)
        ):
            self.follow(root_id)
        self._said.set()
        self._tasks.spawn(self._send_all(), name="outbox")
        self._tasks.spawn(self._look_for_conversations(), name="conversations")

    async def close(self) -> None:
        """Stops following and sending; what is not sent stays for the next start."""
        await self._tasks.close()
        await self._loop.close()

    # ── seeing ──────────────────────────────────────────────────────────────────────────────────────────────

    def follow(self, root_id: str) -> None:
        """Follows a root conversation with its process conversations; again is no harm."""
        if root_id in self._followed or len(self._followed) >= MAX_FOLLOWED:
            return
        self._followed.add(root_id)
        self._tasks.spawn(self._follow(root_id), name=root_id)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Tells `listener` of every state of every shown message. Returns how to stop."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    async def history(self, conversation_id: str, *, after: int = 0, limit: int = 100) -> list[Message]:
        """Kept messages of one conversation by ordinal, also without a server."""
        return await self._foundation.read(
            lambda tx: store.history(tx, self._runtime_id, conversation_id, after, limit)
        )

    async def _look_for_conversations(self) -> None:
        while True:
            try:
                page = await self._loop.conversations(limit=MAX_FOLLOWED)
                for conversation in page.items:
                    self.follow(conversation.id)
            except LoopError as error:
                _log.info("person_conversations_unknown", code=str(error.code))
            await self._clock.sleep(LOOK_AGAIN_SECONDS)

    async def _follow(self, root_id: str) -> None:
        """One stream for ever, from where it was kept. A refusal ends it; the next look takes it up again."""
        attempt = 0
        path = f"/v1/conversations/{root_id}/stream"
        while True:
            view = View()
            last = await self._foundation.read(lambda tx: store.last_event_id(tx, self._runtime_id, root_id))
            try:
                async for event_id, event in stream_once(self._transport, path, last):
                    attempt = 0
                    await self._take(root_id, view, event_id, event)
            except LoopError as error:
                if not is_transient(error):
                    _log.warning("person_stream_refused", conversation_id=root_id, code=str(error.code))
                    self._followed.discard(root_id)
                    return
            await self._clock.sleep(self._backoff.delay(attempt))
            attempt += 1

    async def _take(self, root_id: str, view: View, event_id: str | None, event: StreamEvent) -> None:
        message = view.apply(event)
        if isinstance(event, MessageEvent):
            shown = message if message is not None and is_shown(message) else None
            await self._keep(root_id, shown, event_id)
            if event.message.status.ended:
                view.messages.pop(event.message.id, None)
        if message is not None and is_shown(message):
            for listener in tuple(self._listeners):
                listener(message)

    async def _keep(self, root_id: str, message: Message | None, event_id: str | None) -> None:
        """Message, inbox entry and place in the stream are one commit."""

        def job(tx: Tx) -> None:
            now = self._clock.now_ms()
            if message is not None:
                envelope = content_envelope(message, root_id)
                store.save_message(tx, self._runtime_id, root_id, message, envelope, now)
                if message.status.ended:
                    chat = receiver_of(self._registry.app_in(tx, CHAT))
                    entry = InboxMessage(CHAT, root_id, message.id, envelope["type"], envelope["payload"])
                    self._inbox.receive_in(tx, entry, chat)
            store.save_stream(tx, self._runtime_id, root_id, event_id, now)

        await self._foundation.write(job, MESSAGE)

    # ── saying ──────────────────────────────────────────────────────────────────────────────────────────────

    async def say(
        self,
        conversation_id: str,
        content: str | Mapping[str, Any],
        *,
        key: str | None = None,
        target: Actor | None = None,
        reply_to_id: str | None = None,
    ) -> str:
        """Keeps what the person says and sends it as soon as there is a server. Returns its key.

        Saying it again under the same key changes nothing. Raises StorageUnavailable.
        """
        body: dict[str, Any] = {"content": _content(content)}
        if target is not None:
            body["target"] = target.to_wire()
        if reply_to_id is not None:
            body["reply_to_id"] = reply_to_id
        name = key or self._foundation.ids.make("say")
        await self._queue(conversation_id, name, "speak", body)
        return name

    async def answer(
        self, conversation_id: str, question_id: str, value: str | None, *, reply_to_id: str | None = None
    ) -> str:
        """Keeps the answer to a question, None to dismiss it. Returns the key under which it is kept."""
        body: dict[str, Any] = {"question_id": question_id, "reply_to_id": reply_to_id or question_id}
        if value is None:
            body["dismiss"] = True
        else:
            body["value"] = value
        key = f"answer/{question_id}"
        await self._queue(conversation_id, key, "answer", body)
        return key

    async def unsent(self) -> int:
        """How much the person has said that the server does not have."""
        return await self._foundation.read(lambda tx: store.count_pending(tx, self._runtime_id))

    async def refusal(self, conversation_id: str, key: str) -> str | None:
        """The code with which the server refused a saying for good, or None."""
        return await self._foundation.read(
            lambda tx: store.refusal_of(tx, self._runtime_id, conversation_id, key)
        )

    async def _queue(self, conversation_id: str, key: str, kind: str, body: dict[str, Any]) -> None:
        saying = Saying(self._foundation.ids.make("out"), conversation_id, key, kind, body)
        await self._foundation.write(
            lambda tx: store.queue(tx, self._runtime_id, saying, self._clock.now_ms())
        )
        self._said.set()

    async def _send_all(self) -> None:
        """Everything in the order it was said; when the server is away, from there on again."""
        attempt = 0
        while True:
            await self._said.wait()
            self._said.clear()
            try:
                while waiting := await self._foundation.read(
                    lambda tx: store.pending(tx, self._runtime_id, BATCH)
                ):
                    for saying in waiting:
                        await self._send(saying)
                        attempt = 0
            except LoopError as error:
                _log.info("person_outbox_waits", code=str(error.code))
                self._said.set()
                await self._clock.sleep(self._backoff.delay(attempt))
                attempt += 1

    async def _send(self, saying: Saying) -> None:
        refusal: str | None = None
        try:
            if saying.kind == "speak":
                await self._speak(saying)
            else:
                body = dict(saying.body)
                path = f"/v1/questions/{body.pop('question_id')}/answer"
                await self._loop.request("POST", path, json=body)
        except LoopError as error:
            if is_transient(error):
                raise
            refusal = str(error.code)
            _log.warning("person_saying_refused", conversation_id=saying.conversation_id, code=refusal)
        await self._foundation.write(
            lambda tx: store.settle(tx, self._runtime_id, saying.outbox_id, refusal, self._clock.now_ms())
        )

    async def _speak(self, saying: Saying) -> None:
        path = f"/v1/conversations/{saying.conversation_id}/messages"
        await self._loop.request("POST", path, json={"key": saying.key, **saying.body})


def _content(content: str | Mapping[str, Any]) -> dict[str, Any]:
    return text_content(content) if isinstance(content, str) else dict(content)
