"""Conversation streams for viewers: messages whole, then patches, over server-sent events (spec/protocol.md
§8.4).

Decides what one viewer is told: it subscribes before it reads, its queue is bounded, and after a gap of any
kind it is given whole messages again. A patch goes out only as the next one of what the viewer knows. The id
of an event is the root conversation's change counter, up to which the viewer has everything.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping

from lineloop.kit import json
from lineloop.kit.clock import with_timeout
from lineloop.kit.database import Tx
from lineloop.protocol.errors import LoopError
from lineloop.protocol.messages import MessageStatus
from lineloop.server.commit.visibility import visible_conversation
from lineloop.server.decide.access import Grant
from lineloop.server.http.services import Services
from lineloop.server.records import StoredMessage
from lineloop.server.store import conversations, messages
from lineloop.server.wakeup.bus import Hint, MessageChanged, PatchAppended, Stopping

MAX_QUEUED_EVENTS = 1024
MAX_QUEUED_BYTES = 2 * 1024 * 1024
PAGE = 100
FIRST_MESSAGES = 200
_UNSAFE = str.maketrans({"\u2028": "\\u2028", "\u2029": "\\u2029", "\x85": "\\u0085"})


class Viewer:
    """One viewer of a root conversation and its process conversations.

    `after` is the change up to which it has everything, None when it knows nothing: then it is given the
    newest messages and all open streams. It is told of those process conversations that `grant` sees.
    """

    def __init__(self, services: Services, root_id: str, after: int | None, grant: Grant) -> None:
        self._services = services
        self._commits = services.commits
        self._root_id = root_id
        self._after = after
        self._change = after or 0
        self._revisions: dict[str, int] = {}
        self._grant = grant
        self._shown: dict[str, bool] = {root_id: True}
        self._hidden: set[str] = set()
        self._queue: deque[MessageChanged | PatchAppended] = deque()
        self._queued_bytes = 0
        self._resync = True
        self._wake = asyncio.Event()

    async def events(self) -> AsyncIterator[str]:
        """SSE text, several events at a time, until the viewer goes or the server stops."""
        stop = self._services.bus.listen_root(self._root_id, self._hear)
        self._services.metrics.viewers.inc()
        heartbeat = self._services.settings.heartbeat_seconds
        clock = self._services.clock
        try:
            yield await self._ping()
            ping_at = clock.monotonic() + heartbeat
            while self._services.ready:
                self._wake.clear()
                if self._resync:
                    async for text in self._snapshot():
                        yield text
                    if not self._resync:
                        yield await self._ping()  # The viewer learns that it has everything.
                    continue
                if self._queue:
                    if text := await self._drained():
                        yield text
                    continue
                try:
                    await with_timeout(clock, max(ping_at - clock.monotonic(), 0.0), self._wake.wait())
                except TimeoutError:
                    ping_at = clock.monotonic() + heartbeat
                    yield await self._ping()
                    yield await self._missed()
        except LoopError:
            # The storage is gone: the viewer comes back and is told by the route.
            return
        finally:
            stop()
            self._services.metrics.viewers.dec()

    def _hear(self, hint: Hint) -> None:
        if isinstance(hint, Stopping):
            self._wake.set()
        if not isinstance(hint, MessageChanged | PatchAppended) or self._resync:
            return
        weight = _weight(hint)
        if len(self._queue) >= MAX_QUEUED_EVENTS or self._queued_bytes + weight > MAX_QUEUED_BYTES:
            self._resync = True
            self._queue.clear()
            self._queued_bytes = 0
        else:
            self._queue.append(hint)
            self._queued_bytes += weight
        self._wake.set()

    async def _drained(self) -> str:
        """Everything that waits, as one text."""
        parts: list[str] = []
        while self._queue and not self._resync:
            hint = self._queue.popleft()
            self._queued_bytes -= _weight(hint)
            if isinstance(hint, PatchAppended):
                parts.append(await self._patch_event(hint))
            elif hint.change > self._change:
                parts.append(await self._changed_event(hint))
        return "".join(parts)

    async def _patch_event(self, hint: PatchAppended) -> str:
        if hint.message_id in self._hidden:
            return ""
        known = self._revisions.get(hint.message_id)
        if known is not None and hint.seq <= known:
            return ""
        if known is None or hint.seq != known + 1:
            return await self._whole(hint.message_id)
        self._revisions[hint.message_id] = hint.seq
        return _event("patch", self._change, f'{{"message_id":"{hint.message_id}","patch":{hint.patch}}}')

    async def _changed_event(self, hint: MessageChanged) -> str:
        if hint.message is None:
            text = await self._whole(hint.message_id)
            self._change = max(self._change, hint.change)
            return text
        if not await self._shows(hint.conversation_id):
            self._change = max(self._change, hint.change)
            return ""
        return self._message_event(hint.message)

    async def _shows(self, conversation_id: str) -> bool:
        """Whether the viewer sees this one of the root's conversations."""
        if self._grant.is_person:
            return True
        if conversation_id not in self._shown:
            self._shown[conversation_id] = await self._commits.read(
                lambda tx: visible_conversation(tx, conversation_id, self._grant) is not None
            )
        return self._shown[conversation_id]

    async def _seen(self, found: list[StoredMessage]) -> list[StoredMessage]:
        return [message for message in found if await self._shows(message.conversation_id)]

    async def _whole(self, message_id: str) -> str:
        message = await self._commits.read(lambda tx: messages.get(tx, message_id))
        if message is None:
            return ""
        if not await self._shows(message.conversation_id):
            self._hidden.add(message_id)
            return ""
        # The row may be newer than the hints that wait, never than what `_change` promises to have sent.
        self._know(message)
        return _event("message", self._change, f'{{"message":{message.to_json()}}}')

    def _message_event(self, message: StoredMessage) -> str:
        self._know(message)
        self._change = max(self._change, message.change)
        return _event("message", self._change, f'{{"message":{message.to_json()}}}')

    def _know(self, message: StoredMessage) -> None:
        if message.status is MessageStatus.STREAMING:
            self._revisions[message.id] = message.revision
        else:
            self._revisions.pop(message.id, None)

    async def _snapshot(self) -> AsyncIterator[str]:
        """What the viewer lacks: all open streams whole, then what changed, in order of change.

        What is published from now on is queued meanwhile; the change and revision it carries tell whether it
        is news.
        """
        self._resync = False
        self._revisions.clear()
        self._hidden.clear()
        self._shown = {self._root_id: True}
        root_id, after = self._root_id, self._after

        def read(tx: Tx) -> tuple[list[StoredMessage], list[StoredMessage]]:
            newest = messages.newest(tx, root_id, limit=FIRST_MESSAGES) if after is None else []
            return messages.open_streams(tx, root_id), newest

        streams, newest = await self._commits.read(read)
        if newest:
            self._change = newest[0].change - 1
        self._after = self._change
        for message in await self._seen(streams):
            self._know(message)
            yield _event("message", self._change, f'{{"message":{message.to_json()}}}')
        if newest:
            open_ids = {message.id for message in streams}
            whole = [message for message in await self._seen(newest) if message.id not in open_ids]
            yield "".join(self._message_event(message) for message in whole)
            self._change = max(self._change, newest[-1].change)
        while not self._resync and (page := await self._page()):
            seen = await self._seen(page)
            yield "".join(self._message_event(message) for message in seen)
            self._change = max(self._change, page[-1].change)
            if len(page) < PAGE:
                break
        self._after = self._change

    async def _page(self) -> list[StoredMessage]:
        after = self._change
        return await self._commits.read(
            lambda tx: messages.changed(tx, self._root_id, after=after, limit=PAGE)
        )

    async def _missed(self) -> str:
        """The sweep: what no hint told of."""
        if self._queue or self._resync:
            return ""
        known = dict(self._revisions)

        def read(tx: Tx) -> tuple[list[StoredMessage], list[StoredMessage]]:
            changed = messages.changed(tx, self._root_id, after=self._change, limit=PAGE)
            ahead = [one for one in messages.open_streams(tx, self._root_id) if _is_news(one, known)]
            return changed, ahead

        changed, ahead = await self._commits.read(read)
        parts = [self._message_event(message) for message in await self._seen(changed)]
        if changed:
            self._change = max(self._change, changed[-1].change)
        for message in await self._seen(ahead):
            if self._revisions.get(message.id, -1) < message.revision:
                self._know(message)
                parts.append(_event("message", self._change, f'{{"message":{message.to_json()}}}'))
        return "".join(parts)

    async def _ping(self) -> str:
        ordinals = await self._commits.read(lambda tx: conversations.highest_ordinals(tx, self._root_id))
        shown = {name: ordinal for name, ordinal in ordinals.items() if await self._shows(name)}
        return _event("ping", self._change, json.dumps({"ordinals": shown}))


def _is_news(message: StoredMessage, known: Mapping[str, int]) -> bool:
    return known.get(message.id, -1) < message.revision


def _weight(hint: MessageChanged | PatchAppended) -> int:
    if isinstance(hint, PatchAppended):
        return len(hint.patch)
    return len(hint.message.content_json) if hint.message is not None else 0


def _event(name: str, change: int, data: str) -> str:
    # Some readers take these three for line ends, which would tear the event apart.
    if not data.isascii():
        data = data.translate(_UNSAFE)
    return f"event: {name}\nid: {change}\ndata: {data}\n\n"
