"""The person's side of a device: what they see is kept for chat, what they say is kept until it is said.

Holds the person's credential and puts the parts together: streams, history, conversations, recipients, the
outbox. Only the shell's own entry calls `say`, `answer` and `stop_run`; no agent and no app session has a way
here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from lineloop.client.loop import Loop
from lineloop.client.transport import Transport
from lineloop.device.apps import AppRegistry
from lineloop.device.commit_inbox import AppInbox
from lineloop.device.connection import Connection
from lineloop.device.foundation import Foundation
from lineloop.device.person.conversations import Conversations
from lineloop.device.person.history import History
from lineloop.device.person.keeping import Keeper
from lineloop.device.person.members import Members
from lineloop.device.person.outbox import Outbox
from lineloop.device.person.recipients import Recipients
from lineloop.device.person.streams import MAX_FOLLOWED, BeganAnew, Changed, Patched, Streams
from lineloop.device.store import person as store
from lineloop.device.store import person_conversations as places
from lineloop.device.store.person_outbox import Saying
from lineloop.kit.database import Tx
from lineloop.kit.tasks import Tasks
from lineloop.protocol.actors import Actor
from lineloop.protocol.content import text_content
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import NotFound
from lineloop.protocol.messages import Message
from lineloop.protocol.questions import Question

Listener = Callable[[Message], None]

MAX_PROCESSES = 200


class PersonSide:
    """Follows the person's conversations and speaks as the person.

    `transport` carries the person's credential and belongs to this object from now on. Listeners hear every
    state of every shown message, streaming ones too, on the event loop; what is complete has been persisted
    by then.
    """

    def __init__(
        self,
        foundation: Foundation,
        transport: Transport,
        inbox: AppInbox,
        registry: AppRegistry,
        *,
        person: Actor | None = None,
        connection: Connection | None = None,
    ) -> None:
        self._foundation = foundation
        self._runtime_id = foundation.runtime_id
        self._connection = connection or Connection(foundation.clock)
        self._loop = Loop(transport, clock=foundation.clock, faults=foundation.faults)
        self._tasks = Tasks("person")
        keeper = Keeper(foundation, inbox, registry)
        self.streams = Streams(
            foundation, transport, self._loop, keep=keeper.keep, on_moved=self._streams_moved
        )
        self.history_pages = History(foundation, self._loop, self.streams, keeper)
        self.members = Members(self._loop)
        self.conversations = Conversations(
            foundation, self._loop, self.streams, person or Actor("user", "local")
        )
        self.recipients = Recipients(foundation, self._loop)
        self.outbox = Outbox(foundation, self._loop, self._connection.waiting_changed)
        self._connection.count(lambda: self.outbox.waiting)
        keeper.notice = self._notice
        self.streams.on_anew = keeper.forget
        self.streams.on_told_again = self.outbox.settle_lost

    async def start(self) -> None:
        """Takes up what was followed and what was not yet said. Works without a server: it waits for one."""
        await self.conversations.load()
        await self.recipients.load()
        await self.outbox.load()
        for root_id in await self._foundation.read(
            lambda tx: store.known_roots(tx, self._runtime_id, MAX_FOLLOWED)
        ):
            self.follow(root_id)
        self.streams.start()
        self._tasks.spawn(self.outbox.run(), name="outbox")
        self._tasks.spawn(self.conversations.run(), name="conversations")
        self._tasks.spawn(self.conversations.tell_read(), name="read positions")
        self._tasks.spawn(self.recipients.run(), name="recipients")

    async def close(self) -> None:
        """Stops following and sending; what is not sent stays for the next start."""
        await self._tasks.close()
        await self.streams.close()
        await self._loop.close()

    # ── seeing ──────────────────────────────────────────────────────────────────────────────────────────────

    def follow(self, root_id: str) -> None:
        """Follows a root conversation with its process conversations; again is no harm."""
        self.streams.follow(root_id)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Tells `listener` of every state of every shown message. Returns how to stop."""

        def tell(event: Changed | Patched | BeganAnew) -> None:
            if isinstance(event, BeganAnew):
                return  # Everything that is so is told again.
            wire = (
                event.message if isinstance(event, Changed) else self.streams.open_message(event.message_id)
            )
            if wire is not None:
                listener(Message.from_wire(wire))

        return self.streams.watch_all(tell)

    async def history(self, conversation_id: str, *, after: int = 0, limit: int = 100) -> list[Message]:
        """Kept messages of one conversation by ordinal, also without a server."""
        return await self._foundation.read(
            lambda tx: store.history(tx, self._runtime_id, conversation_id, after, limit)
        )

    def processes_in(self, tx: Tx, root_id: str) -> list[dict[str, Any]]:
        """The known process conversations (`{"conversation_id", "actor"}`) of a root conversation."""
        return [
            {"conversation_id": one.conversation_id, "actor": Actor.parse(one.actor).to_wire()}
            for one in places.processes(tx, self._runtime_id, root_id, MAX_PROCESSES)
            if one.actor is not None
        ]

    def _notice(self, tx: Tx, root_id: str, message: Message) -> None:
        self.conversations.saw_in(tx, root_id, message)
        self.recipients.saw_in(tx, message)

    def _streams_moved(self) -> None:
        self._connection.streams_are(behind=self.streams.behind)

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

        Saying it again under the same key changes nothing, unless the server refused it: then it goes again.
        Raises StorageUnavailable.
        """
        saying = await self.said(conversation_id, content, key=key, target=target, reply_to_id=reply_to_id)
        return saying.key

    async def said(
        self,
        conversation_id: str,
        content: str | Mapping[str, Any],
        *,
        key: str | None = None,
        target: Actor | None = None,
        reply_to_id: str | None = None,
    ) -> Saying:
        """As `say`: what is kept."""
        body: dict[str, Any] = {"content": _content(content)}
        if target is not None:
            body["target"] = target.to_wire()
        if reply_to_id is not None:
            body["reply_to_id"] = reply_to_id
        return await self.outbox.queue(
            conversation_id, key or self._foundation.ids.make("say"), "speak", body
        )

    async def answer(
        self, conversation_id: str, question_id: str, value: str | None, *, reply_to_id: str | None = None
    ) -> str:
        """Keeps the answer to a question, None to dismiss it. Returns the key under which it is kept."""
        return (await self.answered(conversation_id, question_id, value, reply_to_id=reply_to_id)).key

    async def answered(
        self, conversation_id: str, question_id: str, value: str | None, *, reply_to_id: str | None = None
    ) -> Saying:
        """As `answer`: what is kept."""
        body: dict[str, Any] = {"question_id": question_id, "reply_to_id": reply_to_id or question_id}
        if value is None:
            body["dismiss"] = True
        else:
            body["value"] = value
        return await self.outbox.queue(conversation_id, f"answer/{question_id}", "answer", body)

    async def unsent(self) -> int:
        """How much the person has said that the server does not have."""
        return self.outbox.waiting

    async def refusal(self, conversation_id: str, key: str) -> str | None:
        """The code with which the server refused a saying for good, or None."""
        return await self.outbox.refusal(conversation_id, key)

    # ── asking the server ───────────────────────────────────────────────────────────────────────────────────

    async def search(
        self, words: str, *, conversation_id: str | None, after: str | None, limit: int
    ) -> dict[str, Any]:
        """Messages (hits as §5.4 has them) with all the words, the newest first: `{"items", "next"}`.

        Raises LoopError: connection_lost, invalid_request, conversation_not_found.
        """
        params = {"q": words, "conversation_id": conversation_id, "after": after, "limit": limit}
        return await self._loop.request("GET", "/v1/messages/search", params=params)

    def export(
        self, conversation_id: str, export_format: str
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """All of a conversation as one document (`json`, `markdown`), as the server sends it.

        Raises LoopError on entering: connection_lost, conversation_not_found; ConnectionLost in the middle.
        """
        return self._loop.conversation(conversation_id).export(export_format)

    async def question(self, question_id: str) -> Question:
        """A question as the server has it. Raises LoopError: connection_lost, question_not_found."""
        answer = await self._loop.request("GET", f"/v1/questions/{question_id}")
        return Question.from_wire(answer)

    async def stop_run(self, message_id: str) -> str:
        """Asks the server to stop the run that writes a message; the run's phase as the server has stored it.

        Raises LoopError: run_not_found for a message that no run writes, connection_lost. Nothing is queued:
        a stop that comes later than it was meant would be another one.
        """
        message = await self.history_pages.message(message_id)
        run_id = message.get("run_id")
        if run_id is None:
            raise NotFound("no run writes this message", code=ErrorCode.RUN_NOT_FOUND)
        run = await self._loop.call(run_id).cancel()
        return str(run.phase)


def _content(content: str | Mapping[str, Any]) -> dict[str, Any]:
    return text_content(content) if isinstance(content, str) else dict(content)
