"""Hints as they travel between replicas: ids and numbers, never a word of what anybody said.

Decides what a waiting bundle holds, what is thrown away when it grows too long, and its text. A bundle is
JSON `{"o": origin, "p": patches, "m": messages, "j": joined, "q": closed questions, "c": touched
conversations, "a": participants that changed}`; every entry is a list.
Unknown names are passed over, so that replicas of two versions can live side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from lineloop.kit import json
from lineloop.kit.records import record
from lineloop.server.wakeup.bus import (
    ConversationTouched,
    Hint,
    MessageChanged,
    ParticipantJoined,
    ParticipantsChanged,
    PatchesAppended,
    QuestionClosed,
)

MAX_WAITING_HINTS = 10_000
# A message to more actors than this is told without them: their sweep finds it.
MAX_RECIPIENTS = 64


@record
class PatchesLogged:
    """The patches `first` to `last` of an open message were logged elsewhere."""

    message_id: str
    root_id: str
    first: int
    last: int


@record
class MessageMoved:
    """A message was created, ended or closed elsewhere. Recipients are (kind, key, previous end offset)."""

    message_id: str
    conversation_id: str
    root_id: str
    change: int
    offset: int | None
    recipients: Sequence[tuple[str, str, int]]


RemoteHint = (
    PatchesLogged
    | MessageMoved
    | ParticipantJoined
    | ParticipantsChanged
    | QuestionClosed
    | ConversationTouched
)


@dataclass(slots=True)
class Bundle:
    """Hints that wait to be sent. Patches of one message are one entry, however many there are."""

    _patches: dict[str, tuple[str, int, int]] = field(default_factory=dict[str, tuple[str, int, int]])
    _moved: list[list[Any]] = field(default_factory=list[list[Any]])
    _joined: list[list[Any]] = field(default_factory=list[list[Any]])
    _closed: list[list[Any]] = field(default_factory=list[list[Any]])
    _touched: list[list[Any]] = field(default_factory=list[list[Any]])
    _people: list[list[Any]] = field(default_factory=list[list[Any]])

    def __len__(self) -> int:
        lists = (self._moved, self._joined, self._closed, self._touched, self._people)
        return len(self._patches) + sum(map(len, lists))

    def add(self, hint: Hint) -> bool:
        """Whether it was taken: what concerns this process only, and what is too much, is not."""
        if isinstance(hint, PatchesAppended):
            known = self._patches.get(hint.message_id)
            if known is None and len(self) >= MAX_WAITING_HINTS:
                return False
            first = hint.first if known is None else known[1]
            self._patches[hint.message_id] = (hint.root_id, first, hint.last)
            return True
        if len(self) >= MAX_WAITING_HINTS:
            return False
        if isinstance(hint, MessageChanged):
            told = [[one.kind, one.key, one.previous] for one in hint.recipients[:MAX_RECIPIENTS]]
            place = [hint.message_id, hint.conversation_id, hint.root_id]
            self._moved.append([*place, hint.change, hint.offset, told])
        elif isinstance(hint, ParticipantJoined):
            self._joined.append([hint.conversation_id, hint.kind, hint.key, list(hint.runtimes)])
        elif isinstance(hint, QuestionClosed):
            self._closed.append([hint.question_id, hint.root_id, *hint.asker])
        elif isinstance(hint, ConversationTouched):
            self._touched.append([hint.root_id, hint.conversation_id, hint.user_key])
        elif isinstance(hint, ParticipantsChanged):
            left = [list(one) for one in hint.left]
            self._people.append([hint.root_id, list(hint.conversations), left, list(hint.runtimes)])
        else:
            return False
        return True

    def texts(self, origin: str, max_bytes: int) -> Iterator[str]:
        """The bundle as texts of at most `max_bytes` each; one entry that is larger alone is left out."""
        entries: list[tuple[str, Any]] = [("p", [name, *place]) for name, place in self._patches.items()]
        entries += [("m", one) for one in self._moved]
        entries += [("j", one) for one in self._joined]
        entries += [("q", one) for one in self._closed]
        entries += [("c", one) for one in self._touched]
        entries += [("a", one) for one in self._people]
        frame = len(json.dumps({"o": origin, "p": [], "m": [], "j": [], "q": [], "c": [], "a": []}).encode())
        batch: dict[str, list[str]] = {}
        size = frame
        for name, entry in entries:
            text = json.dumps(entry)
            weight = len(text.encode()) + 1
            if frame + weight > max_bytes:
                continue
            if size + weight > max_bytes:
                yield _text(origin, batch)
                batch, size = {}, frame
            batch.setdefault(name, []).append(text)
            size += weight
        if batch:
            yield _text(origin, batch)


def _text(origin: str, batch: dict[str, list[str]]) -> str:
    parts = "".join(f',"{name}":[{",".join(texts)}]' for name, texts in batch.items())
    return f'{{"o":{json.dumps(origin)}{parts}}}'


def parse_bundle(text: str | bytes) -> tuple[str, list[RemoteHint]]:
    """The origin and the hints. Raises ValueError for what no replica wrote."""
    try:
        value = json.loads(text)
        hints: list[RemoteHint] = [
            PatchesLogged(_text_of(name), _text_of(root), _number(first), _number(last))
            for name, root, first, last in value.get("p", ())
        ]
        hints += [
            MessageMoved(
                _text_of(name),
                _text_of(place),
                _text_of(root),
                _number(change),
                None if offset is None else _number(offset),
                [(_text_of(kind), _text_of(key), _number(before)) for kind, key, before in told],
            )
            for name, place, root, change, offset, told in value.get("m", ())
        ]
        hints += _plain_hints(value)
        return _text_of(value["o"]), hints
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"no bundle of hints: {error}") from error


def _plain_hints(value: dict[str, Any]) -> list[RemoteHint]:
    """Those that say everything themselves: nothing is read for them."""
    hints: list[RemoteHint] = [
        ParticipantJoined(_text_of(place), _text_of(kind), _text_of(key), [_text_of(one) for one in runtimes])
        for place, kind, key, runtimes in value.get("j", ())
    ]
    hints += [
        ParticipantsChanged(
            _text_of(root),
            [_text_of(one) for one in places],
            [(_text_of(kind), _text_of(key)) for kind, key in left],
            [_text_of(one) for one in runtimes],
        )
        for root, places, left, runtimes in value.get("a", ())
    ]
    hints += [
        QuestionClosed(_text_of(name), _text_of(root), (_text_of(kind), _text_of(key)))
        for name, root, kind, key in value.get("q", ())
    ]
    hints += [
        ConversationTouched(_text_of(root), _text_of(place), None if user is None else _text_of(user))
        for root, place, user in value.get("c", ())
    ]
    return hints


def _text_of(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a name is text")
    return value


def _number(value: Any) -> int:
    if type(value) is not int:
        raise TypeError("a counter is a number")
    return value
