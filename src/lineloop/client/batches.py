"""Which queued items travel in the next link frame, and whom an answer belongs to. Pure: no I/O, no clock.

Decides batching (all that queued while frames were in flight goes together), the order of results, and what a
broken connection means for each item. Leaves sending, reconnecting and time to `lineloop.client.link`
(spec/protocol.md §8.3).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from lineloop.protocol.errors import ConnectionLost, LoopError, Overloaded


class ItemKind(StrEnum):
    """The lists of a frame, in the order in which their results come back."""

    SPEAK = "speak"
    COMMIT = "commit"
    PATCHES = "patches"
    END = "end"


_ORDER = tuple(ItemKind)

MAX_FRAME_ITEMS = 256
MAX_FRAME_WEIGHT = 512 * 1024
MAX_BROKEN = 3


class Answer(Protocol):
    """Where an item's outcome goes; an asyncio.Future fits."""

    def done(self) -> bool: ...
    def set_result(self, result: dict[str, Any], /) -> None: ...
    def set_exception(self, exception: BaseException, /) -> None: ...


@dataclass(slots=True, eq=False)
class LinkItem:
    """One write that may be repeated (same key, sequence number or position) and where its answer goes.

    `text` is the wire item as JSON text.
    """

    kind: ItemKind
    text: str
    answer: Answer
    queued_at: float = 0.0
    broken: int = 0

    def resolve(self, result: dict[str, Any]) -> None:
        """Hand over `{"ok": true, …}` or the error. The waiter may have gone: then nobody is told."""
        if self.answer.done():
            return
        problem = result.get("error")
        if problem is None:
            self.answer.set_result(result)
        else:
            self.answer.set_exception(LoopError.from_problem(problem))

    def fail(self, error: LoopError) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


def _is_suspect(item: LinkItem) -> bool:
    """Two connections broke under it, so it may be what breaks them (too large for a proxy, say).

    It then flies alone, so that no other item falls with it.
    """
    return item.broken >= MAX_BROKEN - 1


@dataclass(slots=True)
class Batches:
    """The queue and the frames in flight of one link. Items keep their order within a kind.

    Raises Overloaded from `add` when `queue_limit` items wait.
    """

    frames_in_flight: int = 4
    queue_limit: int = 10_000
    _queue: deque[LinkItem] = field(default_factory=deque[LinkItem])
    _flying: dict[int, list[LinkItem]] = field(default_factory=dict[int, list[LinkItem]])
    _last_id: int = 0

    @property
    def queued(self) -> int:
        return len(self._queue)

    @property
    def flying(self) -> int:
        return len(self._flying)

    def add(self, item: LinkItem) -> None:
        if len(self._queue) >= self.queue_limit:
            raise Overloaded(f"{self.queue_limit} items already wait for the link")
        self._queue.append(item)

    def next_frame(self) -> str | None:
        """The text of the next frame to send, now counted as in flight;

        None when nothing waits or enough is in flight.
        """
        if not self._queue or len(self._flying) >= self.frames_in_flight or self._suspect_waits_or_flies():
            return None
        taken = [self._queue.popleft()]
        if self._queue and not _is_suspect(taken[0]):
            weight = len(taken[0].text)
            while self._queue and len(taken) < MAX_FRAME_ITEMS and not _is_suspect(self._queue[0]):
                weight += len(self._queue[0].text)
                if weight > MAX_FRAME_WEIGHT:
                    break
                taken.append(self._queue.popleft())
        self._last_id += 1
        lists: dict[ItemKind, list[str]] = {}
        for item in taken:
            lists.setdefault(item.kind, []).append(item.text)
        if len(lists) > 1:
            taken.sort(key=lambda item: _ORDER.index(item.kind))  # stable: order within a kind stays
        self._flying[self._last_id] = taken
        parts = [f',"{kind}":[{",".join(texts)}]' for kind, texts in lists.items()]
        return f'{{"id":{self._last_id}{"".join(parts)}}}'

    def _suspect_waits_or_flies(self) -> bool:
        if not self._flying:
            return False
        return _is_suspect(self._queue[0]) or any(_is_suspect(items[0]) for items in self._flying.values())

    def acknowledge(self, frame_id: Any, results: list[dict[str, Any]]) -> bool:
        """Give each item its result. False when the frame is not ours or the number of results differs."""
        items = self._flying.get(frame_id)
        if items is None or len(items) != len(results):
            return False
        del self._flying[frame_id]
        for item, result in zip(items, results, strict=True):
            item.resolve(result)
        return True

    def refuse(self, frame_id: Any, error: LoopError) -> bool:
        """The whole frame was refused: each of its items gets the error."""
        items = self._flying.pop(frame_id, None)
        for item in items or ():
            item.fail(error)
        return items is not None

    def connection_broken(self) -> None:
        """What was in flight goes back to the front in its order; an item that saw too many breaks fails."""
        returned: list[LinkItem] = []
        for frame_id in sorted(self._flying):
            for item in self._flying[frame_id]:
                item.broken += 1
                if item.broken >= MAX_BROKEN:
                    item.fail(ConnectionLost(f"the link broke {item.broken} times before the answer arrived"))
                else:
                    returned.append(item)
        self._flying.clear()
        self._queue.extendleft(reversed(returned))

    def drop_where(self, condition: Callable[[LinkItem], bool], error: LoopError) -> int:
        """Fail the waiting items for which the condition holds; how many."""
        kept: deque[LinkItem] = deque()
        dropped = 0
        for item in self._queue:
            if condition(item):
                item.fail(error)
                dropped += 1
            else:
                kept.append(item)
        self._queue = kept
        return dropped

    def fail_all(self, error: LoopError) -> None:
        """The link ends for good: nobody waits for ever."""
        for items in self._flying.values():
            for item in items:
                item.fail(error)
        self._flying.clear()
        self.drop_where(lambda _: True, error)
