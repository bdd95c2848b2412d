"""Who takes part in the person's conversations, and who is brought in or taken out by the person.

Decides how much of a long list is shown. What the person may do, the server decides; nothing here is kept or
queued, because an invitation that goes out later than it was meant would be another one.
"""

from __future__ import annotations

from typing import Any

from lineloop.client.conversation import Participant
from lineloop.client.loop import Loop
from lineloop.protocol.actors import Actor

PAGE = 200
MAX_LISTED = 1000


class Members:
    """Participants of root conversations, asked of the server each time."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    async def listed(self, conversation_id: str) -> list[dict[str, Any]]:
        """Those who take part (wire), by kind and key; MAX_LISTED at most.

        Raises LoopError: connection_lost, conversation_not_found.
        """
        about = self._loop.conversation(conversation_id)
        found: list[dict[str, Any]] = []
        after: str | None = None
        while True:
            page = await about.participants(after=after, limit=PAGE)
            found += [_to_wire(one) for one in page.items]
            after = page.next
            if after is None or len(found) >= MAX_LISTED:
                return found

    async def invite(self, conversation_id: str, actor: Actor) -> dict[str, Any]:
        """Lets somebody take part. Raises LoopError: connection_lost, forbidden, invalid_request."""
        return _to_wire(await self._loop.conversation(conversation_id).invite(actor))

    async def take_out(self, conversation_id: str, actor: Actor) -> None:
        """Takes somebody out; oneself: leaves. Raises LoopError: connection_lost, forbidden, not_found."""
        await self._loop.conversation(conversation_id).remove(actor)


def _to_wire(one: Participant) -> dict[str, Any]:
    return {
        **one.actor.to_wire(),
        "owner": one.is_owner,
        "display_name": one.display_name,
        "joined_at": one.joined_at,
    }
