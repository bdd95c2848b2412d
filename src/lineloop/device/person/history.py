"""What was said, page by page: from what is kept here, and from the server what is not kept yet.

Decides when the server is asked: only for what lies before everything that is held here without a gap. Away
from the server it answers what it has.
"""

from __future__ import annotations

from typing import Any

import structlog

from lineloop.client.loop import Loop
from lineloop.client.retry import is_transient
from lineloop.device.foundation import Foundation
from lineloop.device.person.keeping import Keeper
from lineloop.device.person.streams import Streams
from lineloop.device.store import person as store
from lineloop.device.store import person_conversations as places
from lineloop.kit.database import Tx
from lineloop.kit.records import record
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import LoopError, NotFound
from lineloop.protocol.messages import Message

_log = structlog.get_logger(__name__)

MAX_PAGE = 100


@record
class HistoryPage:
    """Messages (wire) ascending; `more` says that there are earlier ones."""

    messages: list[dict[str, Any]]
    more: bool


class History:
    """The kept history of one person."""

    def __init__(self, foundation: Foundation, loop: Loop, streams: Streams, keeper: Keeper) -> None:
        self._foundation = foundation
        self._runtime_id = foundation.runtime_id
        self._loop = loop
        self._streams = streams
        self._keeper = keeper

    async def page(
        self, conversation_id: str, *, before: int | None = None, limit: int = MAX_PAGE
    ) -> HistoryPage:
        """The last `limit` messages before an ordinal, of a root or process conversation."""
        limit = min(max(limit, 1), MAX_PAGE)
        end = store.LAST_ORDINAL if before is None else before
        kept, held_from = await self._kept(conversation_id, end, limit)
        reaches = held_from is not None and (
            held_from <= 1 or (len(kept) >= limit and kept[-limit]["ordinal"] >= held_from)
        )
        # Where it is not known from where on all is held, there may be more: only the server can tell.
        earlier = held_from is None or held_from > 1
        if not reaches:
            try:
                earlier = await self._fetch(conversation_id, end, limit, held_from)
            except LoopError as error:
                if not is_transient(error) and error.code is not ErrorCode.CONVERSATION_NOT_FOUND:
                    raise
                _log.info("person_history_incomplete", code=str(error.code))
            kept, held_from = await self._kept(conversation_id, end, limit)
        first = kept[-limit:][0]["ordinal"] if kept else end
        more = len(kept) > limit or (earlier and first > 1)
        return HistoryPage([self._as_it_stands(one) for one in kept[-limit:]], more)

    async def message(self, message_id: str) -> dict[str, Any]:
        """One message (wire) as it stands. Raises NotFound."""
        known = self._streams.open_message(message_id)
        if known is not None:
            return known
        kept = await self._foundation.read(lambda tx: store.message_by_id(tx, self._runtime_id, message_id))
        if kept is not None and kept["status"] != "streaming":
            return kept
        try:
            message = await self._loop.message(message_id)
        except LoopError as error:
            if kept is not None and is_transient(error):
                return kept
            raise
        return message.to_wire()

    async def messages(self, message_ids: list[str]) -> list[dict[str, Any]]:
        """As `message`, of many: without those that there are none of."""

        def read(tx: Tx) -> list[dict[str, Any] | None]:
            return [store.message_by_id(tx, self._runtime_id, one) for one in message_ids]

        found: list[dict[str, Any]] = []
        for message_id, kept in zip(message_ids, await self._foundation.read(read), strict=True):
            if kept is not None and kept["status"] != "streaming":
                found.append(kept)
                continue
            try:
                found.append(await self.message(message_id))
            except NotFound:
                continue
        return found

    async def _kept(
        self, conversation_id: str, before: int, limit: int
    ) -> tuple[list[dict[str, Any]], int | None]:
        def read(tx: Tx) -> tuple[list[dict[str, Any]], int | None]:
            place = places.place(tx, self._runtime_id, conversation_id)
            page = store.page_before(tx, self._runtime_id, conversation_id, before, limit + 1)
            return page, place.held_from if place is not None else None

        return await self._foundation.read(read)

    async def _fetch(self, conversation_id: str, before: int, limit: int, held_from: int | None) -> bool:
        """Brings one page from the server; with what is held already it makes one piece, or begins one.

        Whether the server has earlier ones.
        """
        about = self._loop.conversation(conversation_id)
        named = before if before != store.LAST_ORDINAL else None
        found = (
            await about.read(newest_first=True, limit=limit)
            if named is None
            else await about.read(newest_first=True, limit=limit, before=named)
        )
        root_id = await self._root_of(conversation_id)
        lowest = 0 if found.next is None else min(message.ordinal for message in found.items)
        # Only what is followed stays without a gap at its newer end.
        joins = self._streams.follow(root_id, insist=True) and (
            named is None or (held_from is not None and named >= held_from)
        )
        held = min(lowest, held_from if held_from is not None else lowest)
        await self._keep(root_id, conversation_id, found.items, held if joins else None)
        return found.next is not None

    async def _keep(
        self, root_id: str, conversation_id: str, found: list[Message], held_from: int | None
    ) -> None:
        def job(tx: Tx) -> None:
            for message in found:
                self._keeper.keep_old_in(tx, root_id, message)
            if held_from is not None:
                places.meet(tx, self._runtime_id, conversation_id, root_id, None)
                places.set_held_from(tx, self._runtime_id, conversation_id, held_from)

        await self._foundation.write(job)

    async def _root_of(self, conversation_id: str) -> str:
        place = await self._foundation.read(lambda tx: places.place(tx, self._runtime_id, conversation_id))
        if place is not None:
            return place.root_id
        info = await self._loop.conversation(conversation_id).info()
        return info.parent_id or info.id

    def _as_it_stands(self, wire: dict[str, Any]) -> dict[str, Any]:
        """A message that is being written has come further than what is kept of it."""
        if wire["status"] != "streaming":
            return wire
        return self._streams.open_message(wire["id"]) or wire
