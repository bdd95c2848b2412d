"""One `messages.subscribe`: what is in a conversation, then all that happens in it, at the page's pace.

Decides what waits for a slow page: of each message either the patches that follow what the page knows, or
only that it must come whole; of calls and sayings only which. Too much of all that begins again with a
snapshot. So what waits is bounded and nothing is missed; what comes twice the page tells by its revision.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from itertools import islice, takewhile
from typing import Any

from lineloop.device.bridge.frames import encode
from lineloop.device.core_apps.outgoing import Outgoing
from lineloop.device.core_apps.port import CoreParts
from lineloop.device.core_apps.wire_size import first_within, fitted, newest_within
from lineloop.device.person.side import PersonSide
from lineloop.device.person.streams import BeganAnew, Changed, Patched
from lineloop.device.store import call_views, person, person_conversations
from lineloop.kit.database import Tx
from lineloop.kit.records import record

SNAPSHOT_MESSAGES = 50
SNAPSHOT_CALLS = 100
# What may wait for a slow page, in messages or calls, and in patches of one message.
MAX_WAITING = 500
MAX_PATCHES = 256
CALLS_AT_ONCE = 50
MESSAGES_AT_ONCE = 50


@record
class _Snapshot:
    messages: list[dict[str, Any]]
    more: bool
    calls: list[dict[str, Any]]
    sayings: list[dict[str, Any]]
    processes: list[dict[str, Any]]


class MessageFeed:
    """The feed of one subscription to a root conversation with its process conversations."""

    def __init__(
        self, subscription: str, root_id: str, parts: CoreParts, side: PersonSide, outgoing: Outgoing
    ) -> None:
        self._subscription = subscription
        self._root_id = root_id
        self._parts = parts
        self._runtime_id = parts.foundation.runtime_id
        self._side = side
        self._outgoing = outgoing
        self._from_beginning = True
        self._closed = False
        # None: whole, as it stands when there is room.
        self._messages: dict[str, list[dict[str, Any]] | None] = {}
        self._calls: dict[str, None] = {}
        self._sayings: dict[str, dict[str, Any]] = {}
        self._cut: set[str] = set()
        # It listens before it reads: what happens in between is told again rather than missed.
        self._stops: list[Callable[[], None]] = [
            side.streams.watch(root_id, self._heard),
            side.outbox.subscribe(self._heard_saying),
            parts.room.watch_calls(self._heard_calls),
        ]
        outgoing.mark(self)

    @property
    def waiting(self) -> int:
        """How much waits for room."""
        patches = sum(len(one) for one in self._messages.values() if one is not None)
        return len(self._messages) + patches + len(self._calls) + len(self._sayings)

    def close(self) -> None:
        """Nothing more is told. Idempotent."""
        self._closed = True
        for stop in self._stops:
            stop()
        self._stops.clear()
        self._outgoing.forget(self)

    def failed(self) -> None:
        self._begin_again()

    # ── what happens ────────────────────────────────────────────────────────────────────────────────────────

    def _heard(self, event: Changed | Patched | BeganAnew) -> None:
        if isinstance(event, BeganAnew):
            self._begin_again()
            self._outgoing.mark(self)
        elif self._from_beginning:
            self._outgoing.mark(self)
        elif isinstance(event, Changed):
            self._messages[event.message["id"]] = None
            self._news()
        elif event.message_id not in self._cut:
            patches = self._messages.setdefault(event.message_id, [])
            if patches is not None:
                patches.append(event.patch)
                if len(patches) > MAX_PATCHES:
                    self._messages[event.message_id] = None
            self._news()

    def _heard_saying(self, saying: dict[str, Any]) -> None:
        if saying["conversation_id"] == self._root_id and not self._from_beginning:
            self._sayings[saying["key"]] = saying
            self._news()

    def _heard_calls(self, changed: frozenset[tuple[str, str]]) -> None:
        if self._from_beginning:
            return
        refs = [ref for conversation_id, ref in changed if conversation_id == self._root_id]
        if refs:
            self._calls.update(dict.fromkeys(refs))
            self._news()

    def _news(self) -> None:
        if max(len(self._messages), len(self._calls), len(self._sayings)) > MAX_WAITING:
            self._begin_again()
        self._outgoing.mark(self)

    def _begin_again(self) -> None:
        self._from_beginning = True
        self._messages.clear()
        self._calls.clear()
        self._sayings.clear()

    # ── telling it ──────────────────────────────────────────────────────────────────────────────────────────

    async def frames(self) -> AsyncGenerator[str, None]:
        while not self._closed:
            if self._from_beginning:
                yield await self._snapshot_frame()
            elif self._messages:
                whole = self._next_whole()
                if whole:
                    for message in await self._whole(whole):
                        if not self._closed:
                            yield self._frame("message", message=self._fitted(message))
                    continue
                message_id = next(iter(self._messages))
                for patch in self._messages.pop(message_id) or ():
                    yield self._frame("patch", message_id=message_id, patch=patch)
            elif self._sayings:
                key = next(iter(self._sayings))
                yield self._frame("saying", saying=self._sayings.pop(key))
            elif self._calls:
                for call in await self._changed_calls():
                    if not self._closed:
                        yield self._frame("call", call=call)
            else:
                return

    def _frame(self, kind: str, **payload: Any) -> str:
        return encode(f"messages.{kind}", {"subscription": self._subscription, **payload})

    def _next_whole(self) -> list[str]:
        """The messages that are told whole before the next patches, not too many at once."""
        waiting = islice(self._messages.items(), MESSAGES_AT_ONCE)
        whole = [message_id for message_id, _ in takewhile(lambda one: one[1] is None, waiting)]
        for message_id in whole:
            del self._messages[message_id]
        return whole

    async def _whole(self, message_ids: list[str]) -> list[dict[str, Any]]:
        """Messages as they stand, those being written from what is open."""
        streams = self._side.streams
        stored = [one for one in message_ids if streams.open_message(one) is None]
        found = {one["id"]: one for one in await self._side.history_pages.messages(stored)} if stored else {}
        shown = (streams.open_message(one) or found.get(one) for one in message_ids)
        return [one for one in shown if one is not None]

    def _fitted(self, message: dict[str, Any]) -> dict[str, Any]:
        shown, _ = fitted(message)
        if shown.get("cut") and shown["status"] == "streaming":
            # Patches do not apply to what was shortened: it comes again at its end.
            self._cut.add(shown["id"])
        else:
            self._cut.discard(shown["id"])
        return shown

    async def _changed_calls(self) -> list[dict[str, Any]]:
        refs = list(self._calls)[:CALLS_AT_ONCE]
        for ref in refs:
            del self._calls[ref]
        apps = self._parts.registry.apps
        return await self._parts.foundation.read(
            lambda tx: call_views.views_of(tx, self._runtime_id, refs, apps)
        )

    async def _snapshot_frame(self) -> str:
        self._from_beginning = False
        self._cut.clear()
        read = await self._parts.foundation.read(self._read)
        # No turn of the loop from here on: what is open is told as it stands, so its patches need not be.
        being_written = self._side.streams.open_messages(self._root_id)
        kept = [being_written.get(one["id"], one) for one in read.messages]
        ids = {one["id"] for one in kept}
        others = [one for known, one in being_written.items() if known not in ids]
        shown_others, room = newest_within(others)
        shown, room = newest_within(kept, room)
        told = {one["id"]: one for one in (*shown, *shown_others)}
        for message_id, message in being_written.items():
            if message_id not in told:
                self._messages.setdefault(message_id, None)
            elif self._messages.get(message_id) is not None:
                del self._messages[message_id]
            if message_id in told:
                self._fitted(message)
        return self._frame(
            "snapshot",
            messages=list(told.values()),
            more=read.more or len(shown) < len(kept),
            calls=first_within(read.calls[::-1], max(room, 0) + 100_000)[::-1],
            sayings=read.sayings,
            processes=read.processes,
        )

    def _read(self, tx: Tx) -> _Snapshot:
        runtime_id, root_id = self._runtime_id, self._root_id
        rows = person.page_before(tx, runtime_id, root_id, person.LAST_ORDINAL, SNAPSHOT_MESSAGES + 1)
        place = person_conversations.place(tx, runtime_id, root_id)
        begins_here = place is not None and place.held_from is not None and place.held_from <= 1
        return _Snapshot(
            messages=rows[-SNAPSHOT_MESSAGES:],
            more=len(rows) > SNAPSHOT_MESSAGES or not begins_here,
            calls=call_views.views_of_conversation(
                tx, runtime_id, root_id, self._parts.registry.apps, limit=SNAPSHOT_CALLS
            ),
            sayings=self._side.outbox.unsettled_in(tx, root_id),
            processes=self._side.processes_in(tx, root_id),
        )
