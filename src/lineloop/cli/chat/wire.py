"""What the chat needs of a server: one conversation, its history, its stream, sending and answering.

Decides routes and the order of loading and following; leaves what is shown to transcript.py.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from lineloop.cli.chat.speakers import Profile
from lineloop.client.event_stream import epoch_of
from lineloop.client.transport import Transport
from lineloop.kit.json import loads
from lineloop.protocol.actors import Actor
from lineloop.protocol.errors import ConnectionLost, NotFound
from lineloop.protocol.messages import Message
from lineloop.protocol.paths import segment

HISTORY = 60
NAME = "Terminal"


class Event(NamedTuple):
    """One stream event: a whole message, or a patch to a known one. `id` resumes after it; all empty =
    connected. `anew`: the server was put back to a backup, and everything comes again.
    """

    id: str | None
    message: Message | None = None
    message_id: str = ""
    patch: dict[str, Any] | None = None
    anew: bool = False


class ChatWire:
    def __init__(self, transport: Transport, root_id: str, to: Actor) -> None:
        self._transport = transport
        self.root_id = root_id
        self.to = to

    @classmethod
    async def join(
        cls, transport: Transport, wanted: str | None, remembered: str | None, to: Actor
    ) -> ChatWire:
        """The wanted conversation, else the remembered one if it still exists, else a new one. Raises
        NotFound.
        """
        for root_id in filter(None, (wanted, remembered)):
            try:
                answer = await transport.request("GET", f"/v1/conversations/{segment(root_id)}")
            except NotFound:
                if wanted:
                    raise
                break
            return cls(transport, answer.body["id"], to)
        answer = await transport.request("POST", "/v1/conversations", json={"name": NAME})
        return cls(transport, answer.body["id"], to)

    async def history(self) -> tuple[list[Message], str]:
        """The last messages by ordinal, and the event id to follow from without missing anything."""
        spoken = await self._page({})
        # Read second, and not counted: what appears in between comes again from the stream.
        envelopes = await self._page({"purpose": "envelope"})
        after = max((message.change for message in spoken), default=0)
        return sorted([*spoken, *envelopes], key=lambda message: message.ordinal), str(after)

    async def _page(self, extra: dict[str, str]) -> list[Message]:
        params = {"order": "desc", "limit": str(HISTORY), **extra}
        answer = await self._transport.request(
            "GET", f"/v1/conversations/{segment(self.root_id)}/messages", params=params
        )
        return [Message.from_wire(item) for item in answer.body["items"]]

    async def follow(self, after: str | None) -> AsyncIterator[Event]:
        """Events from `after` on. Raises ConnectionLost when the stream breaks or ends."""
        path = f"/v1/conversations/{segment(self.root_id)}/stream"
        async with self._transport.events(path, last_event_id=after) as stream:
            yield Event(None)  # connected, even when there is nothing to tell
            known = epoch_of(after)
            async for event in stream:
                epoch = epoch_of(event.id)
                if known and epoch and epoch != known:
                    yield Event(None, anew=True)
                known = epoch or known
                data = loads(event.data) if event.data else {}
                match event.event:
                    case "message":
                        yield Event(event.id, message=Message.from_wire(data["message"]))
                    case "patch":
                        yield Event(event.id, message_id=data["message_id"], patch=data["patch"])
                    case _:
                        yield Event(event.id)
        raise ConnectionLost("the stream ended")

    async def say(self, key: str, text: str) -> Message:
        """Speaks as the person; the same key never speaks twice."""
        body = {"key": key, "text": text, "target": self.to.to_wire()}
        answer = await self._transport.request(
            "POST", f"/v1/conversations/{segment(self.root_id)}/messages", json=body
        )
        return Message.from_wire(answer.body)

    async def answer(self, question_id: str, value: str | None) -> Message:
        """Answers a card, or dismisses it with None; the reply as it is stored."""
        body: dict[str, Any] = {"reply_to_id": question_id}
        body |= {"dismiss": True} if value is None else {"value": value}
        answer = await self._transport.request(
            "POST", f"/v1/questions/{segment(question_id)}/answer", json=body
        )
        return Message.from_wire(answer.body["answer"])

    async def online(self) -> list[Profile]:
        """Everybody who is online now, with the names they go by."""
        found: list[Profile] = []
        after: str | None = None
        while True:
            params = {"limit": "500", **({"after": after} if after else {})}
            answer = await self._transport.request("GET", "/v1/actors", params=params)
            found += [
                Profile(Actor(one["kind"], one["key"]), one["display_name"], one.get("description") or "")
                for one in answer.body["items"]
            ]
            after = answer.body["next"]
            if after is None:
                return found

    async def consumed(self, offset: int, by: Actor | None = None) -> bool:
        """Whether the one we talk to, or `by`, has dealt with everything up to `offset`."""
        from lineloop.protocol.resources import participant

        answer = await self._transport.request("GET", f"/v1/conversations/{segment(self.root_id)}/resource")
        line = participant(answer.body, by or self.to)
        return line is not None and line.committed >= offset
