"""The verbs of one conversation: read, poll, commit, speak, and its stream.

Decides how verbs become calls and which of them are repeated by themselves (those with a key or a position).
Leaves orders, cursors and rights to the server (spec/protocol.md §2, §5).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, NotRequired, TypedDict, TypeVar, Unpack

from lineloop.client.message_handle import MessageHandle
from lineloop.client.retry import Retry
from lineloop.client.sse import StreamEvent, stream_resumed
from lineloop.client.transport import Transport
from lineloop.client.writes import Writes
from lineloop.kit.records import record
from lineloop.protocol.actors import Actor
from lineloop.protocol.errors import InvalidRequest
from lineloop.protocol.messages import ConversationInfo, Message, MessageStatus, Purpose
from lineloop.protocol.paths import actor_segments, segment

T = TypeVar("T")

Content = str | Mapping[str, Any]


@record
class Page(Generic[T]):
    """One page of a list.

    `next` goes into `after` (into `before` when reading newest first); None at the end.
    """

    items: list[T]
    next: str | None

    @classmethod
    def from_wire(cls, body: Mapping[str, Any], item: Callable[[Mapping[str, Any]], T]) -> Page[T]:
        return cls([item(one) for one in body["items"]], body.get("next"))


@record
class Polled:
    """Deliverable messages in offset order, the recorded position and the committed one (offsets)."""

    messages: list[Message]
    position: int
    committed: int


@record
class ReadMark:
    """How far this person has read, an ordinal, and how much of others is unread beyond it (200 at most)."""

    ordinal: int
    unread: int


@record
class Participant:
    """Who takes part. `display_name`: when it was registered; `joined_at`: RFC 3339.

    `process_conversation_id`: where an operator works on what it is told here, once there is such a place.
    """

    actor: Actor
    is_owner: bool
    display_name: str | None
    process_conversation_id: str | None
    joined_at: str

    @classmethod
    def from_wire(cls, body: Mapping[str, Any]) -> Participant:
        return cls(
            Actor(body["kind"], body["key"]),
            body["owner"],
            body["display_name"],
            body["process_conversation_id"],
            body["joined_at"],
        )


class ReadOptions(TypedDict, total=False):
    """`after` and `before`: an ordinal or a page's `next`. `limit`: items per page. `newest_first`: order.

    `purpose`: one purpose, several with commas, or `all`; without it envelopes and inventories are left out.
    """

    after: int | str
    before: int | str
    limit: int
    newest_first: bool
    reply_to: str
    purpose: Purpose | str
    call_id: str


class SpeakOptions(TypedDict):
    """`target`: who is addressed (none = everyone). `reply_to`: a message id. `stream`: stay open for Emit.

    `status`: the end of a one-shot message (completed, failed, cancelled). `meta`: public facts beside
    content.
    """

    target: NotRequired[Actor | None]
    reply_to: NotRequired[str | None]
    stream: NotRequired[bool]
    status: NotRequired[MessageStatus | str]
    meta: NotRequired[Mapping[str, Any]]


class Conversation:
    """One conversation, seen and written as `actor` (none = the token's actor).

    Local until a verb is called.
    """

    def __init__(
        self, conversation_id: str, actor: Actor | None, transport: Transport, writes: Writes, retry: Retry
    ) -> None:
        self.id = conversation_id
        self.actor = actor
        self._transport = transport
        self._writes = writes
        self._retry = retry
        self._path = f"/v1/conversations/{segment(conversation_id)}"

    async def info(self) -> ConversationInfo:
        """Name, owner and parent [read].

        Raises LoopError `conversation_not_found`. Spec: spec/protocol.md §2.4.
        """
        return ConversationInfo.from_wire((await self._get(self._path)).body)

    async def rename(self, name: str) -> ConversationInfo:
        """Another name, for everyone who takes part; 1 to 200 characters [write].

        Repeating it is harmless. Raises LoopError `conversation_not_found`, InvalidRequest (a process
        conversation, too). Spec: spec/protocol.md §2.6.
        """
        return await self._change({"name": name})

    async def archive(self) -> ConversationInfo:
        """Out of the lists, for everyone who takes part; the next thing said in it brings it back [write].

        Raises as `rename` does. Spec: spec/protocol.md §2.6.
        """
        return await self._change({"archived": True})

    async def unarchive(self) -> ConversationInfo:
        """Back into the lists [write]. Raises as `rename` does. Spec: spec/protocol.md §2.6."""
        return await self._change({"archived": False})

    async def _change(self, body: dict[str, Any]) -> ConversationInfo:
        answer = await self._retry.run(lambda: self._transport.request("PATCH", self._path, json=body))
        return ConversationInfo.from_wire(answer.body)

    async def participants(self, *, after: str | None = None, limit: int | None = None) -> Page[Participant]:
        """Who takes part in the root conversation, by kind and key [read].

        `limit`: 50 by default, 500 at most. Raises LoopError `conversation_not_found`. Spec: spec/protocol.md
        §2.9.
        """
        answer = await self._get(f"{self._path}/participants", {"after": after, "limit": limit})
        return Page[Participant].from_wire(answer.body, Participant.from_wire)

    async def invite(self, actor: Actor) -> Participant:
        """Bring somebody in, also back; for the owner [write].

        Repeating it is harmless. Raises Forbidden for anybody else, LoopError `not_participant` for a device
        of somebody else, InvalidRequest, LoopError `conversation_not_found`. Spec: spec/protocol.md §2.9.
        """
        path = f"{self._path}/participants"
        answer = await self._retry.run(lambda: self._transport.request("POST", path, json=actor.to_wire()))
        return Participant.from_wire(answer.body)

    async def remove(self, actor: Actor) -> None:
        """Take somebody out, for the owner; or leave [write].

        What it has open here ends with it, and it comes back by `invite` only. Repeating it is harmless.
        Raises NotFound when it never took part, Forbidden, InvalidRequest for the owner and for a device,
        LoopError `conversation_not_found`. Spec: spec/protocol.md §2.9.
        """
        path = f"{self._path}/participants/{actor_segments(actor)}"
        await self._retry.run(lambda: self._transport.request("DELETE", path))

    def export(self, export_format: str = "json") -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """`async with conversation.export() as parts`: all of it as one document, in parts [read].

        `export_format`: `json` or `markdown`. With the process conversations that one sees; attachments by
        their hash. Raises LoopError `conversation_not_found` on entering, ConnectionLost in the middle. Spec:
        spec/protocol.md §5.5.
        """
        return self._transport.parts(f"{self._path}/export", params={"format": export_format})

    async def mark_read(self, ordinal: int) -> ReadMark:
        """This person has read everything up to `ordinal`; it never moves back [write].

        Raises Forbidden for anybody but a person, LoopError `conversation_not_found`. Spec: spec/protocol.md
        §2.7.
        """
        answer = await self._retry.run(
            lambda: self._transport.request("PUT", f"{self._path}/read", json={"ordinal": ordinal})
        )
        return ReadMark(answer.body["ordinal"], answer.body["unread"])

    async def resource(self) -> dict[str, Any]:
        """The Conversation resource: spec, status, metadata [read].

        `participant` reads an actor's line of it. Raises LoopError `conversation_not_found`. Spec:
        spec/protocol.md §9.1.
        """
        return (await self._get(f"{self._path}/resource")).body

    async def read(self, **options: Unpack[ReadOptions]) -> Page[Message]:
        """A page of the shared history by ordinal; moves no cursor [read].

        Raises LoopError `conversation_not_found`, `forbidden`. Spec: spec/protocol.md §5.3.
        """
        params: dict[str, Any] = {
            "after": options.get("after"),
            "before": options.get("before"),
            "limit": options.get("limit"),
            "order": "desc" if options.get("newest_first") else None,
            "reply_to_id": options.get("reply_to"),
            "purpose": options.get("purpose"),
            "call_id": options.get("call_id"),
        }
        answer = await self._get(f"{self._path}/messages", params)
        return Page[Message].from_wire(answer.body, Message.from_wire)

    async def message(self, message_id: str) -> Message:
        """One message [read]. Raises LoopError `message_not_found`. Spec: spec/protocol.md §2.1."""
        return Message.from_wire((await self._get(f"/v1/messages/{segment(message_id)}")).body)

    async def poll(
        self, after: int | None = None, limit: int | None = None, purpose: Sequence[Purpose | str] = ()
    ) -> Polled:
        """Deliverable messages to this actor, or broadcast by others, of every purpose; records the position
        [write].

        Without `after` it resumes from what was committed; the same `after` gives the same answer again.
        Commits nothing. Raises LoopError `not_participant`. Spec: spec/protocol.md §5.1.
        """
        body: dict[str, Any] = {}
        if self.actor is not None:
            body["actor"] = self.actor.to_wire()
        if after is not None:
            body["after"] = after
        if limit is not None:
            body["limit"] = limit
        if purpose:
            body["purpose"] = [str(one) for one in purpose]
        answer = await self._retry.run(
            lambda: self._transport.request("POST", f"{self._path}/poll", json=body)
        )
        messages = [Message.from_wire(wire) for wire in answer.body["messages"]]
        return Polled(messages, answer.body["position"], answer.body["committed"])

    async def commit(self, position: int) -> None:
        """Everything up to `position`, an offset, is safely done; monotonic, repeatable [write].

        Raises Conflict `position_conflict` beyond what was polled: poll again. Spec: spec/protocol.md §5.2.
        """
        await self._retry.run(lambda: self._writes.commit(self.id, position, self.actor))

    async def speak(
        self, content: Content | None = None, *, key: str, **options: Unpack[SpeakOptions]
    ) -> MessageHandle:
        """Say something once per key, whole or as a stream to be emitted and ended [write].

        `content` is text or a content object; an open stream may begin without. Speaking again with the same
        key returns the stored message unchanged, and rebuilds its handle. Raises Conflict `key_conflict` when
        target or reply_to differ, InvalidRequest when `stream` and `status` are both given or nothing is
        said, LoopError `block_protected`, LimitExceeded. Spec: spec/protocol.md §2.2.
        """
        body = _speak_body(content, key, options)
        message = await self._retry.run(lambda: self._writes.speak(self.id, body, self.actor))
        return MessageHandle(message, self._writes, self._retry)

    def stream(self, last_event_id: str | None = None) -> AsyncGenerator[StreamEvent, None]:
        """Messages and updates of this conversation and its process conversations, for ever [read].

        Breaks are healed with Last-Event-ID; `View` folds the events into messages. Raises the LoopError of a
        refusal. Spec: spec/protocol.md §8.4.
        """
        return stream_resumed(self._transport, f"{self._path}/stream", self._retry.clock, last_event_id)

    async def _get(self, path: str, params: Mapping[str, Any] | None = None) -> Any:
        return await self._retry.run(lambda: self._transport.request("GET", path, params=params))


def _speak_body(content: Content | None, key: str, options: SpeakOptions) -> dict[str, Any]:
    stream = options.get("stream", False)
    if stream and options.get("status") is not None:
        raise InvalidRequest("a stream has no status before its End", pointer="/status")
    body: dict[str, Any] = {"key": key}
    if isinstance(content, str):
        body["text"] = content
    elif content is not None:
        body["content"] = dict(content)
    elif not stream:
        raise InvalidRequest("a message that is no stream says something", pointer="/content")
    if (target := options.get("target")) is not None:
        body["target"] = target.to_wire()
    if (reply_to := options.get("reply_to")) is not None:
        body["reply_to_id"] = reply_to
    if stream:
        body["stream"] = True
    if (status := options.get("status")) is not None:
        body["status"] = str(status)
    if (meta := options.get("meta")) is not None:
        body["meta"] = dict(meta)
    return body
