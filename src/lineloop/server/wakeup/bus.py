"""In-process hints: who should look at the database again, and often what it would find there.

Decides only who hears a hint. A hint is never the truth: it may be lost, and every listener has a sweep
behind it. Publishing and listening happen on the event loop's thread; a listener must not block and must not
raise. What is published here also goes to the other replicas when there is a relay; what came from them, and
what a sweep found, is told here only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import structlog

from lineloop.kit.records import record
from lineloop.server.records import StoredMessage

K = TypeVar("K")

_log = structlog.get_logger(__name__)


@record
class Recipient:
    """An actor to whom a message became deliverable; `previous` is the offset before it in that actor's
    inbox.
    """

    kind: str
    key: str
    previous: int


@record
class MessageChanged:
    """A message was created, ended, or a question closed. Without `message` it is too large to carry: re-
    read.
    """

    message_id: str
    conversation_id: str
    root_id: str
    change: int
    offset: int | None
    message: StoredMessage | None
    recipients: Sequence[Recipient] = ()


@dataclass(slots=True)
class PatchesAppended:
    """Patches were logged in one go: the first's seq, and their JSON texts in order. Treat it as immutable.

    `shown` is for viewers, who are many and show the same: the change at which one of them made text of it,
    and that text.
    """

    message_id: str
    root_id: str
    first: int
    patches: Sequence[str]
    shown: tuple[int, str] | None = field(default=None, repr=False, compare=False)
    last: int = field(init=False)
    weight: int = field(init=False)

    def __post_init__(self) -> None:
        self.last = self.first + len(self.patches) - 1
        self.weight = sum(map(len, self.patches))


@record
class ParticipantJoined:
    """An actor became a participant. `runtimes` are the keys of the devices that take part there."""

    conversation_id: str
    kind: str
    key: str
    runtimes: Sequence[str]


@record
class ParticipantsChanged:
    """Somebody came to `conversations` of a root conversation, or `left` them: (kind, key) of who did.

    `runtimes` are the keys of the devices that stay.
    """

    root_id: str
    conversations: Sequence[str]
    left: Sequence[tuple[str, str]] = ()
    runtimes: Sequence[str] = ()


@record
class QuestionClosed:
    """A question has its outcome. `asker` is (kind, key)."""

    question_id: str
    root_id: str
    asker: tuple[str, str]


@record
class ConsumersChanged:
    """The cursors or participants of a conversation changed: its resource is out of date."""

    conversation_id: str


@record
class RootSeen:
    """What a sweep read of a root conversation: its change counter, how far each open stream is logged, and
    the counter of those who left it.

    Whoever knows less has missed a hint.
    """

    root_id: str
    change: int
    streams: Mapping[str, int]
    membership: int


@record
class ConversationTouched:
    """A conversation was named or archived; with `user_key`, that person has read further in it."""

    root_id: str
    conversation_id: str
    user_key: str | None = None


@record
class Stopping:
    """The server stops: whoever waits looks up."""


Hint = (
    MessageChanged
    | PatchesAppended
    | ParticipantJoined
    | ParticipantsChanged
    | QuestionClosed
    | ConsumersChanged
    | RootSeen
    | ConversationTouched
    | Stopping
)
Listener = Callable[[Hint], None]
Stop = Callable[[], None]


@dataclass(slots=True)
class Bus:
    """Hints to listeners by actor (inboxes), by root conversation (viewers), or to everyone."""

    _by_actor: dict[tuple[str, str], list[Listener]] = field(default_factory=lambda: defaultdict(list))
    _by_root: dict[str, list[Listener]] = field(default_factory=lambda: defaultdict(list))
    _all: list[Listener] = field(default_factory=list[Listener])
    _outward: Listener | None = None

    def publish(self, hint: Hint) -> None:
        """Tell everyone concerned, in order of publication, and the other replicas."""
        self.tell(hint)
        if self._outward is not None:
            self._outward(hint)

    def relay_to(self, outward: Listener | None) -> None:
        """From now on `outward` hears what is published, and only that."""
        self._outward = outward

    def tell(self, hint: Hint) -> None:
        """Tell everyone concerned in this process only."""
        for listener in self._concerned(hint):
            try:
                listener(hint)
            except Exception:
                _log.exception("listener_failed", hint=type(hint).__name__)

    def listen_actor(self, kind: str, key: str, listener: Listener) -> Stop:
        """Hear of messages for this actor, and of participants beside it when it is a device."""
        return _add(self._by_actor, (kind, key), listener)

    def listen_root(self, root_id: str, listener: Listener) -> Stop:
        """Hear of everything in a root conversation and its process conversations."""
        return _add(self._by_root, root_id, listener)

    def listen_all(self, listener: Listener) -> Stop:
        self._all.append(listener)
        return lambda: self._all.remove(listener) if listener in self._all else None

    @property
    def viewed_roots(self) -> list[str]:
        """Root conversations in which somebody is interested."""
        return list(self._by_root)

    def hears_root(self, root_id: str) -> bool:
        return root_id in self._by_root

    def hears_actor(self, kind: str, key: str) -> bool:
        return (kind, key) in self._by_actor

    def _concerned(self, hint: Hint) -> list[Listener]:
        concerned: list[Listener] = list(self._all)
        if isinstance(hint, PatchesAppended | RootSeen | ConversationTouched):
            return [*concerned, *self._by_root.get(hint.root_id, ())]
        if isinstance(hint, MessageChanged):
            for one in hint.recipients:
                concerned.extend(self._by_actor.get((one.kind, one.key), ()))
            concerned.extend(self._by_root.get(hint.root_id, ()))
        elif isinstance(hint, ParticipantJoined):
            for runtime in hint.runtimes:
                concerned.extend(self._by_actor.get(("runtime", runtime), ()))
        elif isinstance(hint, ParticipantsChanged):
            concerned.extend(self._by_root.get(hint.root_id, ()))
            told = [*hint.left, *(("runtime", key) for key in hint.runtimes if hint.left)]
            for place in told:
                concerned.extend(self._by_actor.get(place, ()))
        elif isinstance(hint, QuestionClosed):
            concerned.extend(self._by_actor.get(hint.asker, ()))
            concerned.extend(self._by_root.get(hint.root_id, ()))
        elif isinstance(hint, Stopping):
            for listeners in self._by_root.values():
                concerned.extend(listeners)
        return concerned


def _add(table: dict[K, list[Listener]], key: K, listener: Listener) -> Stop:
    table[key].append(listener)

    def stop() -> None:
        listeners = table.get(key)
        if listeners and listener in listeners:
            listeners.remove(listener)
            if not listeners:
                del table[key]

    return stop
