"""What clients did, attempt by attempt, and what they were told.

`began` and `ended` are seconds of one monotonic clock. An attempt whose answer was lost is `UNKNOWN`: it may
or may not have happened, and may still happen later. Actors are written `KIND/KEY`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from lineloop.kit import json
from lineloop.kit.records import record

T = TypeVar("T")


class Outcome(StrEnum):
    """DONE: acknowledged. REFUSED: answered with an error that says that nothing was stored."""

    DONE = "done"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@record
class Spoke:
    """One attempt to create a message. `content` is the fingerprint of a one-shot message's content;
    `initial` is what a stream starts from. With DONE the answer's `message_id`, `ordinal` and `offset`.
    """

    began: float
    ended: float
    outcome: Outcome
    conversation_id: str
    actor: str
    key: str
    target: str | None = None
    content: str | None = None
    initial: Mapping[str, Any] | None = None
    message_id: str | None = None
    ordinal: int | None = None
    offset: int | None = None


@record
class Appended:
    """One attempt to append one patch."""

    began: float
    ended: float
    outcome: Outcome
    message_id: str
    seq: int
    patch: Mapping[str, Any]


@record
class Ended:
    """One attempt to end a stream as event `seq` with `status`."""

    began: float
    ended: float
    outcome: Outcome
    message_id: str
    seq: int
    status: str


@record
class Polled:
    """An answered poll. `after` None: from what was committed. `got` are (offset, message id) in the
    answer's order; `full` says that `limit` cut it.
    """

    began: float
    ended: float
    conversation_id: str
    actor: str
    after: int | None
    got: tuple[tuple[int, str], ...]
    position: int
    committed: int
    full: bool = False


@record
class Committed:
    """One attempt to move a cursor."""

    began: float
    ended: float
    outcome: Outcome
    conversation_id: str
    actor: str
    position: int


@record
class Delivered:
    """A message that a link pushed; `session` names the connection."""

    at: float
    session: str
    conversation_id: str
    actor: str
    offset: int
    message_id: str


@record
class Asked:
    """One attempt to open a question under `effect_key`."""

    began: float
    ended: float
    outcome: Outcome
    conversation_id: str
    actor: str
    effect_key: str
    question_id: str | None = None


@record
class Answered:
    """One attempt of the person to close a question as `state` (success, dismissed) with `value`."""

    began: float
    ended: float
    outcome: Outcome
    question_id: str
    state: str
    value: str | None


@record
class Seen:
    """The state of a question, a run or a message as somebody was told. `terminal`: it must stay so."""

    began: float
    ended: float
    kind: str
    id: str
    state: str
    value: str | None = None
    terminal: bool = False


class Sight(StrEnum):
    """What a viewer's event was: a whole message, one patch, or its own model after what it applied."""

    WHOLE = "whole"
    PATCH = "patch"
    MODEL = "model"


@record
class Watched:
    """From now on `viewer` follows everything in a root conversation and those below it."""

    viewer: str
    root_id: str


@record
class Viewed:
    """What a viewer has of a message: `digest` is the fingerprint of the whole, the patch, or its model."""

    viewer: str
    message_id: str
    sight: Sight
    revision: int
    digest: str
    status: str = ""


Operation = (
    Spoke | Appended | Ended | Polled | Committed | Delivered | Asked | Answered | Seen | Watched | Viewed
)


@dataclass(slots=True)
class History:
    """Operations in the order in which they were recorded."""

    operations: list[Operation] = field(default_factory=list[Operation])

    def add(self, operation: Operation) -> None:
        self.operations.append(operation)

    def of(self, kind: type[T]) -> Iterator[T]:
        """The operations of one kind, in order."""
        return (one for one in self.operations if isinstance(one, kind))

    def __len__(self) -> int:
        return len(self.operations)


def fingerprint(value: Any) -> str:
    """Short and equal for equal JSON values, whatever the order of their names."""
    return hashlib.blake2b(json.canonical(value), digest_size=8).hexdigest()
