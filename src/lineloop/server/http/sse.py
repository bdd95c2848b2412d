"""Conversation streams for viewers: messages whole, then patches, over server-sent events (spec/protocol.md
§8.4).

Decides what one viewer is told: it subscribes before it reads, its queue is bounded, and after a gap of any
kind it is given what it lacks from the database. A patch goes out only as the next one of what the viewer
knows, a change only as the next one of its root conversation. The id of an event is that change, up to which
the viewer has everything. What is read for a viewer is read and sent in parts: one that takes nothing holds
one part, and its queue.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from lineloop.kit import json
from lineloop.kit.database import Tx
from lineloop.protocol.errors import LoopError
from lineloop.protocol.messages import ConversationInfo, MessageStatus
from lineloop.server.commit.caring import card_in
from lineloop.server.commit.visibility import visible_conversation
from lineloop.server.decide.access import Grant
from lineloop.server.http.services import Services
from lineloop.server.http.sight import Sight
from lineloop.server.records import Conversation, StoredMessage
from lineloop.server.store import conversations, messages, viewing
from lineloop.server.store.viewing import Place
from lineloop.server.wakeup.bus import (
    ConversationTouched,
    Hint,
    MessageChanged,
    ParticipantsChanged,
    PatchesAppended,
    RootSeen,
    Stopping,
)

MAX_QUEUED_EVENTS = 1024
MAX_QUEUED_BYTES = 2 * 1024 * 1024
# A part holds this much, or one message that is larger.
PART_BYTES = 512 * 1024
PAGE = 100
FIRST_MESSAGES = 200
_UNSAFE = str.maketrans({"\u2028": "\\u2028", "\u2029": "\\u2029", "\x85": "\\u0085"})


@dataclass(slots=True)
class Cards:
    """What the viewer knows of conversations themselves; `due` are those to look at again.

    How they stand at the beginning it reads elsewhere, so that the stream tells of nothing but news.
    """

    root_id: str
    due: set[str] = field(default_factory=set[str])
    _told: dict[str, tuple[Any, ...]] = field(default_factory=dict[str, tuple[Any, ...]])

    def hear(self, hint: ConversationTouched | MessageChanged, user_key: str | None) -> bool:
        """Whether there is something to look at. What is said brings an archived conversation back."""
        if isinstance(hint, MessageChanged):
            archived_at = self._told.get(self.root_id, (None,))[0]
            if archived_at is None or hint.conversation_id != self.root_id:
                return False
        elif hint.user_key is not None and hint.user_key != user_key:
            return False
        self.due.add(hint.conversation_id)
        return True

    def is_news(self, info: ConversationInfo) -> bool:
        """Whether the viewer was told otherwise, or nothing yet."""
        shown = (info.archived_at, info.name, info.read_ordinal)
        if self._told.get(info.id) == shown:
            return False
        self._told[info.id] = shown
        return True


class Viewer:
    """One viewer of a root conversation and its process conversations.

    `after` is the change up to which it has everything, None when it knows nothing: then it is given the
    newest messages and all open streams. It is told of those process conversations that `grant` sees.
    """

    def __init__(
        self, services: Services, conversation: Conversation, after: int | None, grant: Grant
    ) -> None:
        root_id = conversation.root_id
        self._services = services
        self._commits = services.commits
        self._root_id = root_id
        self._sight = Sight(services.commits, root_id, conversation.id, grant)
        self._after = after
        self._change = after or 0
        self._revisions: dict[str, int] = {}
        # The change of what was shown before its turn came.
        self._ahead: dict[str, int] = {}
        self._grant = grant
        self._hidden: set[str] = set()
        self._queue: deque[MessageChanged | PatchesAppended] = deque()
        self._queued_bytes = 0
        self._resync = True
        self._behind = False
        self._ping_due = False
        self._cards = Cards(root_id)
        self._people_changed = False
        self._wake = asyncio.Event()

    async def events(self) -> AsyncIterator[str]:
        """SSE text, several events at a time, until the viewer goes or the server stops."""
        stop = self._services.bus.listen_root(self._root_id, self._hear)
        self._services.metrics.viewers.inc()
        # One timer per heartbeat: one per wait would cost more than the events that it is for.
        beat = self._services.tasks.spawn(self._beat(), name="viewer_beat")
        try:
            await self._forget_the_future()
            self._cards.due.add(self._root_id)
            await self._looked_at()
            yield await self._ping()
            while self._services.ready and await self._sight.lasts():
                self._wake.clear()
                if self._resync or self._behind:
                    async for text in self._caught_up_with():
                        if not await self._sight.lasts():
                            return
                        yield text
                elif self._queue:
                    if text := await self._drained():
                        yield text
                elif self._ping_due:
                    self._ping_due = False
                    self._cards.due.add(self._root_id)  # what no hint told of
                    yield await self._ping()
                elif self._cards.due:
                    if text := await self._looked_at():
                        yield text
                elif self._people_changed:
                    self._people_changed = False
                    yield _event("participants", self._change, f'{{"conversation_id":"{self._root_id}"}}')
                else:
                    await self._wake.wait()
        except LoopError:
            # The storage is gone: the viewer comes back and is told by the route.
            return
        finally:
            beat.cancel()
            stop()
            self._services.metrics.viewers.dec()

    async def _beat(self) -> None:
        while True:
            await self._services.clock.sleep(self._services.settings.heartbeat_seconds)
            self._ping_due = True
            self._wake.set()

    def _hear(self, hint: Hint) -> None:
        if isinstance(hint, PatchesAppended):
            self._keep(hint, hint.weight)
        elif isinstance(hint, RootSeen):
            if self._sight.hear(hint):
                self._people_changed = True
                self._wake.set()
            if self._lags(hint):
                self._behind = True
                self._wake.set()
        elif isinstance(hint, ParticipantsChanged):
            self._sight.hear(hint)
            self._people_changed = self._people_changed or self._root_id in hint.conversations
            self._wake.set()
        elif isinstance(hint, Stopping):
            self._wake.set()
        elif isinstance(hint, ConversationTouched | MessageChanged):
            person = self._grant.person
            if self._cards.hear(hint, person.key if person else None):
                self._wake.set()
            if isinstance(hint, MessageChanged):
                self._keep(hint, _weight(hint))

    def _keep(self, hint: MessageChanged | PatchesAppended, weight: int) -> None:
        """Queues a hint; when there is no room, the viewer is given everything anew instead."""
        if self._resync:
            return
        if len(self._queue) >= MAX_QUEUED_EVENTS or self._queued_bytes + weight > MAX_QUEUED_BYTES:
            self._resync = True
            self._queue.clear()
            self._queued_bytes = 0
        else:
            self._queue.append(hint)
            self._queued_bytes += weight
        self._wake.set()

    def _lags(self, seen: RootSeen) -> bool:
        """Whether a hint was missed. With hints in the queue that is not known yet."""
        if self._resync or self._queue:
            return False
        return seen.change > self._change or any(
            self._revisions.get(name, -1) < seq
            for name, seq in seen.streams.items()
            if name not in self._hidden
        )

    async def _caught_up_with(self) -> AsyncIterator[str]:
        """What the queue does not have."""
        if self._resync:
            async for text in self._snapshot():
                yield text
            if not self._resync:
                yield await self._ping()  # The viewer learns that it has everything.
        else:
            self._behind = False
            async for text in self._missed():
                yield text

    async def _looked_at(self) -> str:
        """The conversations that are due, as far as they are news."""
        parts: list[str] = []
        while self._cards.due:
            conversation_id = self._cards.due.pop()

            def read(tx: Tx, conversation_id: str = conversation_id) -> ConversationInfo | None:
                found = visible_conversation(tx, conversation_id, self._grant)
                return card_in(tx, found, self._grant) if found is not None else None

            info = await self._commits.read(read)
            if info is not None and self._cards.is_news(info):
                data = json.dumps({"conversation": info.to_wire()})
                parts.append(_event("conversation", self._change, data))
        return "".join(parts)

    async def _drained(self) -> str:
        """What waits, up to a part; with the ping that is due, so that a busy stream has its pings too."""
        parts: list[str] = []
        size = 0
        while self._queue and not self._resync and size < PART_BYTES:
            hint = self._queue.popleft()
            self._queued_bytes -= _weight(hint)
            if isinstance(hint, PatchesAppended):
                text = self._next_patches(hint) or await self._patch_event(hint)
            elif hint.change == self._change + 1:
                text = await self._changed_event(hint)
            else:
                # Heard of already; or one before it was not heard of, and comes first.
                self._behind = self._behind or hint.change > self._change
                continue
            parts.append(text)
            size += len(text)
        if self._ping_due and not (self._queue or self._behind or self._resync):
            self._ping_due = False
            parts.append(await self._ping())
        return "".join(parts)

    def _next_patches(self, hint: PatchesAppended) -> str:
        """The events of patches that follow what the viewer knows; else nothing."""
        if self._revisions.get(hint.message_id) != hint.first - 1:
            return ""
        self._revisions[hint.message_id] = hint.last
        if hint.shown is None or hint.shown[0] != self._change:
            texts = [self._patch_text(hint.message_id, patch) for patch in hint.patches]
            hint.shown = (self._change, "".join(texts))
        return hint.shown[1]

    async def _patch_event(self, hint: PatchesAppended) -> str:
        """What the viewer lacks of a message up to patches that do not follow what it knows."""
        known = self._revisions.get(hint.message_id)
        if hint.message_id in self._hidden or (known is not None and hint.last <= known):
            return ""
        return await self._caught_up(hint.message_id)

    async def _caught_up(self, message_id: str) -> str:
        """The rest of the log when that is short and continues what is known, else the message whole."""
        known = self._revisions.get(message_id)

        def read(tx: Tx) -> list[tuple[int, str]] | StoredMessage | None:
            head = messages.head(tx, message_id)
            if head is not None and known is not None and not head.status.ended:
                log = viewing.patches_between(tx, message_id, known + 1, head.revision, max_bytes=PART_BYTES)
                if log and log[0][0] == known + 1:
                    return log
            return messages.get(tx, message_id)

        found = await self._commits.read(read)
        if isinstance(found, list):
            self._revisions[message_id] = found[-1][0]
            return "".join(self._patch_text(message_id, patch) for _, patch in found)
        return "" if found is None else await self._whole(found)

    async def _changed_event(self, hint: MessageChanged) -> str:
        self._change = hint.change
        message = hint.message
        if message is None:
            message = await self._commits.read(lambda tx: messages.get(tx, hint.message_id))
        if message is None or self._has_newer(message):
            return ""
        return await self._whole(message)

    def _has_newer(self, message: StoredMessage) -> bool:
        """Whether the viewer was shown as much of it: the hint was read before the viewer itself looked."""
        shown = self._ahead.get(message.id, 0)
        self._forget_passed()
        if shown != message.change:
            return shown > message.change
        is_open = message.status is MessageStatus.STREAMING
        return not is_open or self._revisions.get(message.id, -1) >= message.revision

    def _forget_passed(self) -> None:
        if self._ahead:
            self._ahead = {name: change for name, change in self._ahead.items() if change > self._change}

    async def _whole(self, message: StoredMessage) -> str:
        """The message whole, if the viewer sees it.

        It may be newer than `_change`, never older: what `_change` promises has been sent.
        """
        is_open = message.status is MessageStatus.STREAMING
        if not await self._sight.shows(message.conversation_id):
            (self._hidden.add if is_open else self._hidden.discard)(message.id)
            return ""
        if is_open:
            self._revisions[message.id] = message.revision
        else:
            self._revisions.pop(message.id, None)
        if message.change > self._change:
            self._ahead[message.id] = message.change
        return _event("message", self._change, f'{{"message":{message.to_json()}}}')

    def _patch_text(self, message_id: str, patch: str) -> str:
        return _event("patch", self._change, f'{{"message_id":"{message_id}","patch":{patch}}}')

    async def _snapshot(self) -> AsyncIterator[str]:
        """What the viewer lacks: all open streams whole, then what changed, in order of change.

        What is published from now on is queued meanwhile; the change and revision it carries tell whether it
        is news.
        """
        self._resync = self._behind = False
        self._revisions.clear()
        self._ahead.clear()
        self._hidden.clear()
        root_id, after = self._root_id, self._after

        def read(tx: Tx) -> tuple[list[Place], list[Place]]:
            first = viewing.newest(tx, root_id, limit=FIRST_MESSAGES) if after is None else []
            return viewing.open_streams(tx, root_id), first

        streams, first = await self._commits.read(read)
        if first:
            self._change = first[0].change - 1
        self._after = self._change
        async for text in self._in_parts(streams, advance=False):
            yield text
        if first:
            sent = {place.id for place in streams}
            async for text in self._in_parts([place for place in first if place.id not in sent]):
                yield text
            self._change = max(self._change, first[-1].change)
        async for text in self._changed():
            yield text
        self._after = self._change

    async def _changed(self) -> AsyncIterator[str]:
        """Every message with a larger change, in that order. With it the viewer has everything up to it."""
        while not self._resync:
            after = self._change

            def read(tx: Tx, after: int = after) -> tuple[list[Place], int]:
                # The counter first: nothing that it counts can be missing on the page that is read after it.
                change = viewing.change_of(tx, self._root_id)
                return viewing.changed(tx, self._root_id, after=after, limit=PAGE), change

            page, change = await self._commits.read(read)
            async for text in self._in_parts(page):
                yield text
            if len(page) == PAGE:
                self._change = max(self._change, page[-1].change)
                continue
            # A change without a message of its own counts as seen, too.
            self._change = max(self._change, change)
            self._forget_passed()
            return

    async def _in_parts(self, places: Sequence[Place], *, advance: bool = True) -> AsyncIterator[str]:
        """Whole messages in the order of their places; each part is read when the one before was taken.

        With `advance` they are in order of change, and the viewer has everything up to each of them.
        """
        for group in _groups(places):
            found = await self._commits.read(lambda tx, group=group: viewing.whole(tx, group))
            changes = {place.id: place.change for place in group}
            texts: list[str] = []
            for message in found:
                if advance:
                    self._change = max(self._change, changes[message.id])
                texts.append(await self._whole(message))
            if text := "".join(texts):
                yield text

    async def _missed(self) -> AsyncIterator[str]:
        """What no hint told of."""
        async for text in self._changed():
            yield text
        streams = await self._commits.read(lambda tx: viewing.stream_revisions(tx, [self._root_id]))
        for name, seq in streams.get(self._root_id, {}).items():
            is_news = name not in self._hidden and self._revisions.get(name, -1) < seq
            if is_news and (text := await self._caught_up(name)):
                yield text

    async def _forget_the_future(self) -> None:
        """A change that the database has not reached is of another life of it: the viewer knows nothing."""
        after = self._after
        if after is None:
            return
        if after > await self._commits.read(lambda tx: viewing.change_of(tx, self._root_id)):
            self._after, self._change = None, 0

    async def _ping(self) -> str:
        ordinals = await self._commits.read(lambda tx: conversations.highest_ordinals(tx, self._root_id))
        shown = {name: ordinal for name, ordinal in ordinals.items() if await self._sight.shows(name)}
        return _event("ping", self._change, json.dumps({"ordinals": shown, "epoch": self._services.epoch}))


def _groups(places: Sequence[Place]) -> Iterator[list[Place]]:
    group: list[Place] = []
    size = 0
    for place in places:
        if group and size + place.weight > PART_BYTES:
            yield group
            group, size = [], 0
        group.append(place)
        size += place.weight
    if group:
        yield group


def _weight(hint: MessageChanged | PatchesAppended) -> int:
    if isinstance(hint, PatchesAppended):
        return hint.weight
    return len(hint.message.content_json) if hint.message is not None else 0


def _event(name: str, change: int, data: str) -> str:
    # Some readers take these three for line ends, which would tear the event apart.
    if not data.isascii():
        data = data.translate(_UNSAFE)
    return f"event: {name}\nid: {change}\ndata: {data}\n\n"
