"""What every job of the server has at hand: clock, ids, hints, hooks, and three bounded memories.

The memories only save statements. None is trusted: an open stream is checked against the log, a participant
against the counter of those who left, and to which root something belongs never changes. Losing them changes
nothing but speed.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lineloop.kit.clock import Clock
from lineloop.kit.database import Tx
from lineloop.kit.ids import Ids
from lineloop.kit.records import record
from lineloop.protocol.actors import Actor
from lineloop.server.decide.questions import QuestionFacts
from lineloop.server.records import Conversation, QuestionRow, StoredMessage
from lineloop.server.wakeup.bus import Bus

MAX_OPEN_STREAMS = 2048
MAX_KNOWN_MEMBERS = 50_000
MAX_KNOWN_ROOTS = 200_000

OnMessage = Callable[[Tx, StoredMessage], None]
OnRemoved = Callable[[Tx, str, Actor], None]
OnQuestion = Callable[[Tx, QuestionRow, QuestionFacts], None]


@record
class CommitLimits:
    """Bytes unless said otherwise."""

    message_bytes: int = 16 * 1024 * 1024
    fold_floor_bytes: int = 16 * 1024
    fold_in_job_bytes: int = 128 * 1024
    silent_stream_ms: int = 24 * 3600 * 1000


@dataclass(slots=True)
class Hooks:
    """What others run inside a job, in its transaction. A hook that raises undoes the job."""

    message_saved: list[OnMessage] = field(default_factory=list[OnMessage])
    question_closed: list[OnQuestion] = field(default_factory=list[OnQuestion])
    participant_removed: list[OnRemoved] = field(default_factory=list[OnRemoved])


@dataclass(slots=True)
class OpenStream:
    """The reducer state of an open message. `shape` is its content without mass, valid at `revision`.

    `snapshot_bytes` and `log_bytes` say how much is folded and how much is not; together, less
    `spared_bytes`, an upper bound of the content's size.
    """

    revision: int
    shape: Mapping[str, Any]
    snapshot_bytes: int
    log_bytes: int
    spared_bytes: int = 0
    folding: bool = False


@dataclass(slots=True)
class OpenStreams:
    """The least recently used is forgotten first. Used by the threads of writers."""

    limit: int = MAX_OPEN_STREAMS
    _streams: OrderedDict[str, OpenStream] = field(default_factory=OrderedDict[str, OpenStream])
    _mutex: threading.Lock = field(default_factory=threading.Lock)

    def get(self, message_id: str, revision: int) -> OpenStream | None:
        """The state, if it is that of `revision`. What an undone job left behind is dropped."""
        with self._mutex:
            stream = self._streams.get(message_id)
            if stream is None:
                return None
            if stream.revision != revision:
                del self._streams[message_id]
                return None
            self._streams.move_to_end(message_id)
            return stream

    def put(self, message_id: str, stream: OpenStream) -> None:
        with self._mutex:
            self._streams[message_id] = stream
            self._streams.move_to_end(message_id)
            while len(self._streams) > self.limit:
                self._streams.popitem(last=False)

    def drop(self, message_id: str) -> None:
        with self._mutex:
            self._streams.pop(message_id, None)

    def __len__(self) -> int:
        return len(self._streams)


@dataclass(slots=True)
class Members:
    """Who is known to take part: (conversation, kind, key) to (membership, whether its process conversation
    exists). What was learned under another membership of the conversation is not known any more.
    """

    limit: int = MAX_KNOWN_MEMBERS
    _known: dict[tuple[str, str, str], tuple[int, bool]] = field(
        default_factory=dict[tuple[str, str, str], tuple[int, bool]]
    )

    def knows(self, conversation: Conversation, actor: Actor) -> bool:
        known = self._known.get((conversation.id, actor.kind, actor.key))
        return known is not None and known[0] == conversation.membership

    def has_process(self, conversation: Conversation, actor: Actor) -> bool:
        known = self._known.get((conversation.id, actor.kind, actor.key))
        return known == (conversation.membership, True)

    def add(self, conversation: Conversation, actor: Actor, *, process: bool = False) -> None:
        """Call it after the commit, with the conversation as the commit saw it."""
        if len(self._known) >= self.limit:
            self._known.clear()
        has_process = process or self.has_process(conversation, actor)
        self._known[conversation.id, actor.kind, actor.key] = (conversation.membership, has_process)


@dataclass(slots=True)
class Roots:
    """To which root conversation a conversation, message or Run belongs: a fact that never changes."""

    limit: int = MAX_KNOWN_ROOTS
    _known: dict[str, str] = field(default_factory=dict[str, str])

    def of(self, name: str) -> str | None:
        return self._known.get(name)

    def keep(self, name: str, root_id: str | None) -> str | None:
        """Remember it, if it is known; returns it."""
        if root_id is not None:
            if len(self._known) >= self.limit:
                self._known.clear()
            self._known[name] = root_id
        return root_id


def _no_fold(_: str) -> None:
    """Nobody folds: the log then grows until the message ends."""


@dataclass(slots=True)
class CommitContext:
    """Handed to every job function as `ctx`. `fold_due` is called on the loop when a log is worth folding."""

    clock: Clock
    ids: Ids
    bus: Bus
    limits: CommitLimits = field(default_factory=CommitLimits)
    hooks: Hooks = field(default_factory=Hooks)
    streams: OpenStreams = field(default_factory=OpenStreams)
    members: Members = field(default_factory=Members)
    roots: Roots = field(default_factory=Roots)
    fold_due: Callable[[str], None] = _no_fold
