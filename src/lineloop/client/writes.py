"""The four writes that travel over the link when one is open, and over HTTP when none is.

Decides the way of each write; both ways give the same answers and errors. Leaves repetition to `Retry` and
the handles, and meaning to the server (spec/protocol.md §8.2, §8.3).
"""

from __future__ import annotations

from typing import Any

from lineloop.client.batches import ItemKind
from lineloop.client.link import Link
from lineloop.client.transport import Transport
from lineloop.kit.records import record
from lineloop.protocol.actors import Actor
from lineloop.protocol.messages import Message, MessageStatus
from lineloop.protocol.paths import segment


@record
class Progress:
    """Where a message stands after a write: its last applied sequence number and its status."""

    revision: int
    status: MessageStatus

    @classmethod
    def from_wire(cls, wire: dict[str, Any]) -> Progress:
        return cls(int(wire["revision"]), MessageStatus(wire["status"]))


class Writes:
    """Speak, commit, patches and end, each by the quickest open way."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.link: Link | None = None

    def _link_for(self, actor: Actor | None) -> Link | None:
        """The link, if it is open and speaks for this actor (None: whoever the token belongs to)."""
        link = self.link
        if link is not None and link.connected and (actor is None or actor == link.actor):
            return link
        return None

    async def speak(self, conversation_id: str, body: dict[str, Any], actor: Actor | None) -> Message:
        if (link := self._link_for(actor)) is not None:
            return await link.speak(conversation_id, body)
        if actor is not None:
            body = {**body, "actor": actor.to_wire()}
        answer = await self._transport.request(
            "POST", f"/v1/conversations/{segment(conversation_id)}/messages", json=body
        )
        return Message.from_wire(answer.body)

    async def commit(self, conversation_id: str, position: int, actor: Actor | None) -> None:
        if (link := self._link_for(actor)) is not None:
            return await link.commit(conversation_id, position)
        body: dict[str, Any] = {"position": position}
        if actor is not None:
            body["actor"] = actor.to_wire()
        await self._transport.request(
            "POST", f"/v1/conversations/{segment(conversation_id)}/commit", json=body
        )
        return None

    async def patches(
        self, message_id: str, patches: list[dict[str, Any]], actor: Actor | None = None
    ) -> Progress:
        if (link := self._link_for(actor)) is not None:
            item = {"message_id": message_id, "patches": patches}
            return Progress.from_wire(await link.submit(ItemKind.PATCHES, item))
        answer = await self._transport.request(
            "POST", f"/v1/messages/{segment(message_id)}/patches", json={"patches": patches}
        )
        return Progress.from_wire(answer.body)

    async def end(
        self, message_id: str, seq: int, status: MessageStatus, actor: Actor | None = None
    ) -> Progress:
        body = {"seq": seq, "status": status.value}
        if (link := self._link_for(actor)) is not None:
            return Progress.from_wire(await link.submit(ItemKind.END, {"message_id": message_id, **body}))
        answer = await self._transport.request("POST", f"/v1/messages/{segment(message_id)}/end", json=body)
        return Progress.from_wire(answer.body)
