"""The person's conversations: what they are called, when something last happened, what was not read yet.

Decides titles, order and what counts as unread. Which of them are followed is the streams' affair; what is in
them, the history's.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import structlog

from lineloop.client.loop import Loop
from lineloop.client.retry import is_transient
from lineloop.device.decide.person import counts_as_unread, title_from
from lineloop.device.foundation import Foundation
from lineloop.device.person.streams import Streams
from lineloop.device.store import person as messages
from lineloop.device.store import person_conversations as store
from lineloop.device.store.person_conversations import Place
from lineloop.kit.clock import with_timeout
from lineloop.kit.database import Tx
from lineloop.protocol.actors import Actor
from lineloop.protocol.errors import InvalidRequest, LoopError
from lineloop.protocol.messages import ConversationInfo, Message

_log = structlog.get_logger(__name__)

MAX_LISTED = 500
MAX_UNREAD = 999
MAX_NAME_CHARS = 120
PAGE = 500
LOOK_SECONDS = 30.0
LOOK_WATCHED_SECONDS = 2.0
# While somebody watches, new conversations are looked for often, and all of them from time to time.
WHOLE_LOOKS = 15


@dataclass(slots=True)
class Known:
    """One root conversation as it stands. Times are RFC 3339."""

    id: str
    name: str = ""
    created_at: str | None = None
    opening: str | None = None
    opening_asked: bool = False
    last_at: str | None = None
    last_ordinal: int = 0
    read_ordinal: int = 0
    unread: set[int] = field(default_factory=set[int])
    owner: str = ""
    archived_at: str | None = None

    @property
    def active_at(self) -> str:
        return max(self.last_at or "", self.created_at or "")

    def to_wire(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "title": title_from(self.name) or self.opening or "",
            "name": self.name[:MAX_NAME_CHARS] or None,
            "created_at": self.created_at,
            "last_at": self.active_at or None,
            "last_ordinal": self.last_ordinal,
            "unread": len(self.unread),
            "read_ordinal": self.read_ordinal,
            "archived_at": self.archived_at,
            "owner": self.owner or None,
        }


class Conversations:
    """The list of one person's conversations. Listeners are called on the loop after a change."""

    def __init__(self, foundation: Foundation, loop: Loop, streams: Streams, person: Actor) -> None:
        self._foundation = foundation
        self._runtime_id = foundation.runtime_id
        self._clock = foundation.clock
        self._loop = loop
        self._streams = streams
        self._person = person
        self._known: dict[str, Known] = {}
        self._met: set[str] = set()
        self._listeners: list[Callable[[], None]] = []
        self._look_now = asyncio.Event()
        self._last_id: str | None = None
        # What the server does not know yet of what was read here.
        self._unsaid: set[str] = set()
        self._read = asyncio.Event()
        streams.on_conversation = self._changed

    # ── what is known ───────────────────────────────────────────────────────────────────────────────────────

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Calls `listener` after every change. Returns how to stop."""
        self._listeners.append(listener)
        self._look_now.set()
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    def to_wire(self) -> list[dict[str, Any]]:
        """The newest activity first, at most MAX_LISTED."""
        newest = sorted(self._known.values(), key=lambda one: (one.active_at, one.id), reverse=True)
        return [one.to_wire() for one in newest[:MAX_LISTED]]

    async def load(self) -> None:
        """What a former process knew."""

        def read(tx: Tx) -> list[Known]:
            return [self._load_one(tx, place) for place in store.roots(tx, self._runtime_id)]

        for known in await self._foundation.read(read):
            self._known[known.id] = known
        self._tell()

    def _load_one(self, tx: Tx, place: Place) -> Known:
        known = Known(
            place.conversation_id,
            place.name,
            place.created_at,
            place.opening,
            read_ordinal=place.read_ordinal,
            owner=place.owner,
            archived_at=place.archived_at,
        )
        last = store.last_message(tx, self._runtime_id, known.id)
        if last is not None:
            known.last_ordinal, known.last_at = last[0], last[1]["updated_at"]
            if known.last_ordinal > known.read_ordinal:
                person = str(self._person)
                found = messages.unread_ordinals(
                    tx, self._runtime_id, known.id, known.read_ordinal, person, MAX_UNREAD
                )
                known.unread.update(found)
        return known

    # ── what happens ────────────────────────────────────────────────────────────────────────────────────────

    def saw_in(self, tx: Tx, root_id: str, message: Message) -> None:
        """Takes note of a shown message within the job that keeps it."""
        place = message.conversation_id
        if place not in self._met:
            is_others = message.speaker != self._person
            actor = str(message.speaker) if place != root_id and is_others else None
            store.meet(tx, self._runtime_id, place, root_id, actor)
        opening = None
        known = self._known.get(root_id)
        if place == root_id and message.ordinal == 1 and (known is None or known.opening is None):
            opening = title_from(message.text) or None
            if opening is not None:
                store.set_opening(tx, self._runtime_id, root_id, opening)
        tx.after_commit(lambda: self._saw(root_id, message, opening))

    def _saw(self, root_id: str, message: Message, opening: str | None) -> None:
        self._met.add(message.conversation_id)
        if message.conversation_id != root_id:
            return
        known = self._known.get(root_id)
        if known is None:
            known = self._known[root_id] = Known(root_id)
            self._look_now.set()
        known.opening = known.opening or opening
        known.last_ordinal = max(known.last_ordinal, message.ordinal)
        known.last_at = max(known.last_at or "", message.updated_at)
        if (
            message.ordinal > known.read_ordinal
            and len(known.unread) < MAX_UNREAD
            and counts_as_unread(message, self._person)
        ):
            known.unread.add(message.ordinal)
        self._tell()

    async def mark_read(self, conversation_id: str, ordinal: int) -> None:
        """The person has seen everything up to here. Never moves back; the server hears of it when it can."""
        if await self._was_read(conversation_id, ordinal):
            self._unsaid.add(conversation_id)
            self._read.set()

    async def _was_read(self, conversation_id: str, ordinal: int) -> bool:
        """Whether that is news."""
        known = self._known.get(conversation_id)
        if known is None or ordinal <= known.read_ordinal:
            return False
        await self._foundation.write(
            lambda tx: store.set_read(tx, self._runtime_id, conversation_id, ordinal)
        )
        known.read_ordinal = max(known.read_ordinal, ordinal)
        known.unread = {one for one in known.unread if one > known.read_ordinal}
        self._tell()
        return True

    async def tell_read(self) -> None:
        """Tells the server what was read here, for ever: of each conversation only the newest."""
        while True:
            await self._read.wait()
            self._read.clear()
            for conversation_id in list(self._unsaid):
                ordinal = self._known[conversation_id].read_ordinal
                try:
                    await self._loop.conversation(conversation_id).mark_read(ordinal)
                except LoopError as error:
                    _log.info("read_position_waits", code=str(error.code))
                    if is_transient(error):
                        self._read.set()
                        await self._clock.sleep(LOOK_WATCHED_SECONDS)
                        break
                if ordinal == self._known[conversation_id].read_ordinal:
                    self._unsaid.discard(conversation_id)

    async def left(self, conversation_id: str) -> None:
        """The person takes no part any more: it is not listed, and what was kept of it is not shown."""
        await self._foundation.write(lambda tx: store.forget_root(tx, self._runtime_id, conversation_id))
        self._known.pop(conversation_id, None)
        self._unsaid.discard(conversation_id)
        self._tell()

    async def change(
        self, conversation_id: str, *, name: str | None = None, archived: bool | None = None
    ) -> dict[str, Any]:
        """Renames, archives or brings back, for everyone in the conversation; it needs the server.

        Raises LoopError: connection_lost, invalid_request, forbidden, conversation_not_found.
        """
        about = self._loop.conversation(conversation_id)
        info: ConversationInfo | None = None
        if name is not None:
            info = await about.rename(name)
        if archived is not None:
            info = await (about.archive() if archived else about.unarchive())
        if info is None:
            raise InvalidRequest("there is nothing to change", pointer="/params")
        await self._take([info])
        return self._known[info.id].to_wire()

    async def create(self, name: str | None, key: str) -> dict[str, Any]:
        """A new conversation, the same one for the same `key`, also after a restart; it needs the server.

        Raises LoopError: connection_lost, invalid_request.
        """
        if name is not None and not name.strip():
            raise InvalidRequest("a name is not blank", pointer="/params/name")
        digest = hashlib.sha256(key.encode()).hexdigest()[:32]
        info = await self._loop.create_conversation(name, key=f"{self._runtime_id}/{digest}")
        await self._take([info])
        # Nothing is older than this: its history is complete from the beginning.
        await self._foundation.write(lambda tx: store.set_held_from(tx, self._runtime_id, info.id, 0))
        return self._known[info.id].to_wire()

    async def knows(self, conversation_id: str) -> bool:
        """Whether this is a conversation of the person. One that is not known yet is looked for at once."""
        if conversation_id not in self._known:
            try:
                await with_timeout(self._clock, LOOK_WATCHED_SECONDS, self._look(whole=False))
            except (LoopError, TimeoutError) as error:
                _log.info("person_conversations_unknown", why=repr(error))
        return conversation_id in self._known

    # ── looking for them ────────────────────────────────────────────────────────────────────────────────────

    async def run(self) -> None:
        """Looks for conversations made elsewhere, for ever: often while somebody watches."""
        looks = 0
        while True:
            self._look_now.clear()
            try:
                await self._look(whole=looks % WHOLE_LOOKS == 0 or not self._listeners)
                looks += 1
            except LoopError as error:
                _log.info("person_conversations_unknown", code=str(error.code))
            pause = LOOK_WATCHED_SECONDS if self._listeners else LOOK_SECONDS
            try:
                await with_timeout(self._clock, pause, self._look_now.wait())
            except TimeoutError:
                continue

    async def _look(self, *, whole: bool) -> None:
        after = None if whole else self._last_id
        while True:
            page = await self._loop.conversations(after=after, limit=PAGE, archived=None)
            await self._take(page.items)
            if page.items:
                after = self._last_id = page.items[-1].id
            if page.next is None:
                break
        for known in list(self._known.values()):
            if not known.name and known.opening is None and not known.opening_asked:
                await self._ask_for_opening(known)

    async def _take(self, found: list[ConversationInfo] | tuple[ConversationInfo, ...]) -> None:
        news = [info for info in found if self._is_news(info)]
        if news:

            def job(tx: Tx) -> None:
                for info in news:
                    store.set_facts(tx, self._runtime_id, info)

            await self._foundation.write(job)
        for info in news:
            known = self._known.setdefault(info.id, Known(info.id))
            known.name, known.created_at = info.name, info.created_at
            known.owner, known.archived_at = str(info.owner), info.archived_at
        for info in reversed(found):
            if info.archived_at is None:
                self._streams.follow(info.id)
            known = self._known[info.id]
            # What was read here while the server was away, or before it was told.
            if info.read_ordinal is not None and info.read_ordinal < known.read_ordinal:
                self._unsaid.add(info.id)
                self._read.set()
        if news:
            self._tell()

    async def _changed(self, info: ConversationInfo) -> None:
        """It was renamed, archived, or read on another device of the person."""
        await self._take([info])
        if info.read_ordinal is not None:
            await self._was_read(info.id, info.read_ordinal)

    def _is_news(self, info: ConversationInfo) -> bool:
        known = self._known.get(info.id)
        if known is None:
            return True
        kept = (known.name, known.created_at, known.owner, known.archived_at)
        return kept != (info.name, info.created_at, str(info.owner), info.archived_at)

    async def _ask_for_opening(self, known: Known) -> None:
        """The beginning of a conversation that is older than what is kept here."""
        page = await self._loop.conversation(known.id).read(limit=1)
        if not page.items:
            return
        opening = title_from(page.items[0].text)
        known.opening_asked = page.items[0].status.ended
        if opening:
            await self._foundation.write(
                lambda tx: store.set_opening(tx, self._runtime_id, known.id, opening)
            )
            known.opening = opening
            self._tell()

    def _tell(self) -> None:
        for listener in tuple(self._listeners):
            listener()
