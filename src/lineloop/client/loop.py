"""Loop: one identity's connection to a Lineloop server, and the way to every verb.

Decides what a process holds (a transport, at most one link, the renewals of its registrations) and when it
ends. Which way a write takes is decided in `writes`; what verbs mean, in their own modules (spec/protocol.md
§8).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, suppress
from random import Random
from types import TracebackType
from typing import Any, Self

from lineloop.client.apis import Apis
from lineloop.client.blobs import Blobs, Source
from lineloop.client.conversation import Conversation, Page
from lineloop.client.harness import Call, Harness
from lineloop.client.hits import Hit
from lineloop.client.human import Human
from lineloop.client.link import Link
from lineloop.client.presence import Presence
from lineloop.client.retry import Retry
from lineloop.client.transport import Transport
from lineloop.client.writes import Writes
from lineloop.kit.clock import Clock, SystemClock
from lineloop.kit.faults import Faults
from lineloop.kit.ids import Ids
from lineloop.kit.tasks import Tasks
from lineloop.protocol.actors import HARNESS, OPERATOR, Actor
from lineloop.protocol.attachments import Blob
from lineloop.protocol.errors import Forbidden
from lineloop.protocol.messages import ConversationInfo, Message
from lineloop.protocol.paths import segment


class HarnessVerbs(Harness):
    """`loop.harness`: runs, and the registration of harness endpoints."""

    def __init__(self, transport: Transport, retry: Retry, presence: Presence) -> None:
        super().__init__(transport, retry)
        self.register = presence.register


class Loop:
    """The verbs, with the identity of the transport's token.

    Made by `connect`, or from any Transport. An async context manager; closing it ends its link, renewals and
    connections, and nothing on the server: runs go on, questions stay open, leases end by themselves.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        clock: Clock | None = None,
        faults: Faults | None = None,
        random: Random | None = None,
    ) -> None:
        self.clock: Clock = clock or SystemClock()
        self.faults = faults or Faults.none()
        self._transport = transport
        self._retry = Retry.usual(self.clock, random)
        self._ids = Ids(self.clock, random)
        self._writes = Writes(transport)
        self._tasks = Tasks("loop")
        self.human = Human(transport, self._retry)
        self.operators = Presence(OPERATOR, transport, self._retry, self._tasks)
        self.harness = HarnessVerbs(
            transport, self._retry, Presence(HARNESS, transport, self._retry, self._tasks)
        )
        self.apis = Apis(transport)
        self._blobs = Blobs(transport, self._retry)

    @classmethod
    async def connect(
        cls, server_url: str, token: str, *, clock: Clock | None = None, faults: Faults | None = None
    ) -> Self:
        """A Loop over HTTP, after the server has taken the token [read].

        Raises InvalidRequest for a bad URL, Unauthorized, ConnectionLost when nobody answers. Spec:
        spec/protocol.md §8.1.
        """
        from lineloop.client.http import HttpTransport  # late: parts of one process need no network

        loop = cls(HttpTransport(server_url, token), clock=clock, faults=faults)
        try:
            await loop.check_token()
        except BaseException:
            await loop.close()
            raise
        return loop

    async def check_token(self) -> None:
        """Returns when the server has taken the token [read].

        Raises Unauthorized, ConnectionLost. Spec: spec/protocol.md §8.1.
        """
        with suppress(Forbidden):  # the token is known; what it may do, each verb will tell
            await self.conversations(limit=1)

    def conversation(self, conversation_id: str, *, actor: Actor | None = None) -> Conversation:
        """The verbs of one conversation, as `actor` (none = the token's). Local."""
        return Conversation(conversation_id, actor, self._transport, self._writes, self._retry)

    async def create_conversation(
        self, name: str | None = None, *, key: str | None = None
    ) -> ConversationInfo:
        """A new root conversation, or the one that this identity made under `key` before [write].

        `key`: 1 to 256 bytes; keep it where a lost answer must make no second conversation even when this
        process ends. Without one, a fresh key covers the repetitions of this call. Raises InvalidRequest,
        LimitExceeded, Forbidden. Spec: spec/protocol.md §2.4.
        """
        body = {"key": key or self._ids.make("key")}
        if name is not None:
            body["name"] = name
        answer = await self._retry.run(
            lambda: self._transport.request("POST", "/v1/conversations", json=body)
        )
        return ConversationInfo.from_wire(answer.body)

    async def conversations(
        self,
        *,
        parent_id: str | None = None,
        actor: Actor | None = None,
        after: str | None = None,
        limit: int | None = None,
        archived: bool | None = False,
    ) -> Page[ConversationInfo]:
        """Root conversations, or the process conversations of `parent_id` (of one `actor`) [read].

        `archived`: False leaves archived ones out, True gives only those, None both. `limit`: 50 by default,
        500 at most. Raises InvalidRequest, Forbidden. Spec: spec/protocol.md §2.4, §5.3.
        """
        params = {
            "parent_id": parent_id,
            "actor": str(actor) if actor else None,
            "after": after,
            "limit": limit,
            "archived": None if archived is False else "any" if archived is None else True,
        }
        answer = await self._retry.run(
            lambda: self._transport.request("GET", "/v1/conversations", params=params)
        )
        return Page[ConversationInfo].from_wire(answer.body, ConversationInfo.from_wire)

    async def search(
        self,
        query: str,
        *,
        conversation_id: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> Page[Hit]:
        """Messages with all the words of `query`, in what this identity sees, the newest first [read].

        `conversation_id`: only there and in its process conversations. `limit`: 20 by default, 100 at most; a
        page may hold fewer and still have a `next`. Raises InvalidRequest, LoopError
        `conversation_not_found`. Spec: spec/protocol.md §5.4.
        """
        params = {"q": query, "conversation_id": conversation_id, "after": after, "limit": limit}
        answer = await self._retry.run(
            lambda: self._transport.request("GET", "/v1/messages/search", params=params)
        )
        return Page[Hit].from_wire(answer.body, Hit.from_wire)

    async def upload(
        self, source: Source, *, media_type: str | None = None, expected_hash: str | None = None
    ) -> Blob:
        """Store bytes, the file of a Path, or what an iterator gives; durable when this returns [write].

        `media_type`: else guessed from a file's name. `expected_hash`: what the bytes must be (`sha256:…`).
        Attach it with `blob.to_block(…)` in the blocks of a message within a day. Raises LimitExceeded
        `blob_bytes` (25 MiB by default), InvalidRequest, StorageUnavailable. Spec: spec/protocol.md §3.6.
        """
        return await self._blobs.upload(source, media_type=media_type, hash_=expected_hash)

    def download(
        self, blob_hash: str, *, message_id: str | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """`async with loop.download(…) as parts`: the bytes in parts [read].

        For who uploaded them or sees a message that has them. Raises LoopError `blob_not_found` on entering,
        ConnectionLost in the middle. Spec: spec/protocol.md §3.6.
        """
        return self._blobs.download(blob_hash, message_id)

    async def message(self, message_id: str) -> Message:
        """One message [read]. Raises LoopError `message_not_found`. Spec: spec/protocol.md §2.1."""
        answer = await self._retry.run(
            lambda: self._transport.request("GET", f"/v1/messages/{segment(message_id)}")
        )
        return Message.from_wire(answer.body)

    def call(self, run_id: str) -> Call:
        """The handle of a known run; the same as `harness.call`."""
        return self.harness.call(run_id)

    def link(self) -> Link:
        """This Loop's link; the first use makes it, `await link.start()` opens it.

        While it is open, speak, commit, emit and end travel over it.
        """
        if self._writes.link is None:
            self._writes.link = Link(self._transport.open_link, self.clock, faults=self.faults)
        return self._writes.link

    async def request(self, method: str, path: str, **options: Any) -> Any:
        """A route that has no verb (tokens, actors, health): the decoded answer. Raises its LoopError."""
        return (await self._transport.request(method, path, **options)).body

    async def close(self) -> None:
        """Let go of everything this process holds; repeating it is harmless."""
        await self._tasks.close()
        if self._writes.link is not None:
            await self._writes.link.close()
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
