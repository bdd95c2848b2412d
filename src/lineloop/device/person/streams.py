"""Follows the person's conversations and tells what happens in them, as it happens.

Decides which conversations are followed, that a message is kept before anybody is told of it, and when a
stream is opened again. What is open is known here as it stands, so that whoever comes late gets the whole and
then only what follows it. Which messages are shown, and where they are kept, is not decided here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import structlog

from lineloop.client.loop import Loop
from lineloop.client.retry import asked_pause_seconds, is_transient
from lineloop.client.sse import (
    ConversationEvent,
    MessageEvent,
    PatchEvent,
    PingEvent,
    StreamEvent,
    stream_once,
)
from lineloop.client.transport import Transport
from lineloop.device.decide.person import is_shown
from lineloop.device.foundation import Foundation
from lineloop.device.person.arrivals import gathered
from lineloop.device.store import person as store
from lineloop.kit.backoff import Backoff
from lineloop.kit.records import record
from lineloop.kit.tasks import Tasks
from lineloop.protocol.errors import LoopError
from lineloop.protocol.messages import ConversationInfo, Message
from lineloop.protocol.sse import MESSAGE_EVENT, PATCH_EVENT, StreamView
from lineloop.protocol.sse import StreamEvent as Told

_log = structlog.get_logger(__name__)

MAX_FOLLOWED = 50
# The second ping of a connection says that everything missed has been sent (spec/protocol.md §8.4).
PINGS_OF_CATCHING_UP = 2


@record
class Changed:
    """A shown message as it is now, whole (wire). What has ended is kept, and no longer open."""

    root_id: str
    message: dict[str, Any]


@record
class Patched:
    """One patch that led an open message to `revision`."""

    root_id: str
    message_id: str
    patch: dict[str, Any]
    revision: int


@record
class BeganAnew:
    """The server was put back to a backup: what was told of this conversation may not be so any more."""

    root_id: str


Listener = Callable[[Changed | Patched | BeganAnew], None]
Arrived = tuple[Message, str | None]
"""A message, and the place in the stream after it when it came that way."""
Keep = Callable[[str, Sequence[Arrived]], Awaitable[None]]


class _Gap(Exception):
    """Something was lost on the way: open the stream again."""


@dataclass(slots=True, eq=False)
class _Root:
    """One followed root conversation. `view` holds open messages only; `used` orders by last use."""

    root_id: str
    view: StreamView = field(default_factory=StreamView)
    listeners: list[Listener] = field(default_factory=list[Listener])
    pings: int = 0
    used: int = 0
    seen: dict[str, int] = field(default_factory=dict[str, int])
    lacking: frozenset[str] = frozenset()
    refused: bool = False
    anew: bool = False
    task: Any = None

    @property
    def live(self) -> bool:
        return self.pings >= PINGS_OF_CATCHING_UP


async def _nothing_kept(_: str) -> None:
    """Until somebody keeps what is told."""


async def _nobody_listens(_: ConversationInfo) -> None:
    """Until somebody keeps the list of conversations."""


class Streams:
    """The streams of one person. `keep(root_id, arrived)` stores messages with their places in the stream, in
    one commit, before they are told; `on_moved` is called when a stream has caught up or broken;
    `on_conversation` when a conversation was renamed, archived or read elsewhere.
    """

    def __init__(
        self,
        foundation: Foundation,
        transport: Transport,
        loop: Loop,
        *,
        keep: Keep,
        on_moved: Callable[[], None],
    ) -> None:
        self._foundation = foundation
        self._clock = foundation.clock
        self._transport = transport
        self._loop = loop
        self._keep = keep
        self._on_moved = on_moved
        self._tasks = Tasks("person streams")
        self._roots: dict[str, _Root] = {}
        self._everywhere: list[Listener] = []
        self._backoff = Backoff(0.2, 2.0, 10.0, 0.3)
        self._uses = 0
        self._started = False
        self.on_conversation: Callable[[ConversationInfo], Awaitable[None]] = _nobody_listens
        # The server began anew: before everything is told again, and when it has been.
        self.on_anew: Callable[[str], Awaitable[None]] = _nothing_kept
        self.on_told_again: Callable[[str], Awaitable[None]] = _nothing_kept

    @property
    def behind(self) -> bool:
        """Whether some followed conversation has not caught up."""
        return any(not root.live and not root.refused for root in self._roots.values())

    def start(self) -> None:
        self._started = True
        for root in self._roots.values():
            self._run(root)

    async def close(self) -> None:
        await self._tasks.close()

    # ── who is followed, who listens ────────────────────────────────────────────────────────────────────────

    def follows(self, root_id: str) -> bool:
        return root_id in self._roots

    def follow(self, root_id: str, *, insist: bool = False) -> bool:
        """Follows a root conversation with its process conversations; again is no harm.

        With too many of them, only who insists gets in, for one that nobody watches. Returns whether it is
        followed.
        """
        root = self._roots.get(root_id)
        if root is None:
            if len(self._roots) >= MAX_FOLLOWED and not (insist and self._let_one_go()):
                return False
            root = self._roots[root_id] = _Root(root_id)
            if self._started:
                self._run(root)
            self._on_moved()
        self._use(root)
        return True

    def watch(self, root_id: str, listener: Listener) -> Callable[[], None]:
        """Tells `listener` of everything in one root conversation from now on. Returns how to stop."""
        self.follow(root_id, insist=True)
        root = self._roots.get(root_id)
        if root is None:
            return lambda: None
        root.listeners.append(listener)
        return lambda: root.listeners.remove(listener) if listener in root.listeners else None

    def watch_all(self, listener: Listener) -> Callable[[], None]:
        """Tells `listener` of everything that is followed. Returns how to stop."""
        self._everywhere.append(listener)
        return lambda: self._everywhere.remove(listener) if listener in self._everywhere else None

    def open_messages(self, root_id: str) -> dict[str, dict[str, Any]]:
        """The shown messages (wire) that are being written in a root conversation now, as they stand."""
        root = self._roots.get(root_id)
        if root is None:
            return {}
        return {known: wire for known, wire in root.view.messages.items() if is_shown(wire["purpose"])}

    def open_message(self, message_id: str) -> dict[str, Any] | None:
        """One message that is being written, as it stands."""
        for root in self._roots.values():
            if message_id in root.view.messages:
                return root.view.messages[message_id]
        return None

    def _let_one_go(self) -> bool:
        idle = [root for root in self._roots.values() if not root.listeners]
        if not idle:
            return False
        root = min(idle, key=lambda one: one.used)
        del self._roots[root.root_id]
        if root.task is not None:
            root.task.cancel()
        return True

    def _use(self, root: _Root) -> None:
        self._uses += 1
        root.used = self._uses

    # ── one stream ──────────────────────────────────────────────────────────────────────────────────────────

    def _run(self, root: _Root) -> None:
        root.task = self._tasks.spawn(self._follow(root), name=root.root_id)

    async def _follow(self, root: _Root) -> None:
        """One stream for ever, from where it was kept. A refusal ends it, unless somebody watches: it may be
        lifted.
        """
        attempt = 0
        path = f"/v1/conversations/{root.root_id}/stream"
        while True:
            asked = 0.0
            try:
                last = await self._foundation.read(
                    lambda tx: store.last_event_id(tx, self._foundation.runtime_id, root.root_id)
                )
                async with aclosing(gathered(stream_once(self._transport, path, last))) as arrivals:
                    async for events in arrivals:
                        attempt = 0
                        root.refused = False
                        await self._take_all(root, events)
            except _Gap:
                _log.info("person_stream_gap", conversation_id=root.root_id)
            except LoopError as error:
                if not is_transient(error):
                    _log.warning("person_stream_refused", conversation_id=root.root_id, code=str(error.code))
                    root.refused = True
                    if not root.listeners:
                        self._roots.pop(root.root_id, None)
                        return
                asked = asked_pause_seconds(error)
            finally:
                self._broken(root)
            await self._clock.sleep(max(asked, self._backoff.delay(attempt)))
            attempt += 1

    def _broken(self, root: _Root) -> None:
        root.pings = 0
        root.seen.clear()
        root.lacking = frozenset()
        self._on_moved()

    async def _take_all(self, root: _Root, events: list[tuple[str | None, StreamEvent]]) -> None:
        """In order; messages that follow each other are kept together."""
        for _, alike in groupby(events, key=lambda one: type(one[1])):
            together = list(alike)
            arrived = [(one.message, event_id) for event_id, one in together if isinstance(one, MessageEvent)]
            if arrived:
                await self._take_messages(root, arrived)
                continue
            for _, event in together:
                await self._take(root, event)

    async def _take(self, root: _Root, event: StreamEvent) -> None:
        if isinstance(event, PingEvent):
            self._take_ping(root, event.ordinals)
            if root.anew and root.live:
                root.anew = False
                await self.on_told_again(root.root_id)
        elif isinstance(event, ConversationEvent):
            await self.on_conversation(event.conversation)
        elif isinstance(event, PatchEvent):
            await self._take_patch(root, event)
        else:
            await self.on_anew(root.root_id)
            root.anew = True
            root.view.messages.clear()
            root.seen.clear()
            self._tell(root, BeganAnew(root.root_id))

    async def _take_messages(self, root: _Root, arrived: Sequence[Arrived]) -> None:
        for message, _ in arrived:
            place = message.conversation_id
            root.seen[place] = max(root.seen.get(place, 0), message.ordinal)
        await self._keep(root.root_id, arrived)
        for message, _ in arrived:
            self._show(root, message)

    def _show(self, root: _Root, message: Message) -> None:
        wire = message.to_wire()
        root.view.take(Told(MESSAGE_EVENT, "", {"message": wire}))
        if root.view.messages.get(message.id) is not wire:
            return  # What is known is newer.
        if message.status.ended:
            del root.view.messages[message.id]
        self._use(root)
        if is_shown(wire["purpose"]):
            self._tell(root, Changed(root.root_id, wire))

    async def _take_patch(self, root: _Root, event: PatchEvent) -> None:
        before = root.view.messages.get(event.message_id)
        patch = {"message_id": event.message_id, "patch": event.patch}
        if root.view.take(Told(PATCH_EVENT, "", patch)):
            await self._take_messages(root, [(await self._loop.message(event.message_id), None)])
            return
        after = root.view.messages.get(event.message_id)
        if after is not None and after is not before and is_shown(after["purpose"]):
            self._tell(root, Patched(root.root_id, event.message_id, event.patch, after["revision"]))

    def _take_ping(self, root: _Root, ordinals: dict[str, int]) -> None:
        """What a ping names and nothing has brought, twice in a row, was lost."""
        root.pings += 1
        if root.pings <= PINGS_OF_CATCHING_UP:
            for place, highest in ordinals.items():
                root.seen[place] = max(root.seen.get(place, 0), highest)
            if root.live:
                self._on_moved()
            return
        lacking = frozenset(place for place, highest in ordinals.items() if highest > root.seen.get(place, 0))
        if lacking & root.lacking:
            raise _Gap
        root.lacking = lacking

    def _tell(self, root: _Root, event: Changed | Patched | BeganAnew) -> None:
        for listener in (*root.listeners, *self._everywhere):
            listener(event)
