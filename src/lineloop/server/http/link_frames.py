"""Frames of the link and the items in them: what a client's frame asks for becomes jobs, and jobs become
results.

Decides the order (speak, commit, patches, end) and the shape of results. Messages are rendered once and
shared.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import structlog

from lineloop.kit import json
from lineloop.kit.database import DatabaseError
from lineloop.kit.faults import FaultInjected
from lineloop.kit.ids import Ids
from lineloop.kit.records import record
from lineloop.protocol.errors import ErrorCode, LoopError
from lineloop.protocol.link_requests import LinkCommit, LinkEnd, LinkFrame, LinkPatches, LinkSpeak
from lineloop.server.commit import Commits
from lineloop.server.commit.speaking import SpeakAnswer
from lineloop.server.commit.storage import storage_error
from lineloop.server.commit.streaming import Progress
from lineloop.server.decide.access import Grant
from lineloop.server.http.bodies import append_command, commit_command, end_command, speak_command
from lineloop.server.records import StoredMessage

_log = structlog.get_logger(__name__)


class Frame(Protocol):
    """A frame on its way out: as text for a socket, as a value for a neighbour in the process."""

    def text(self) -> str: ...
    def value(self) -> dict[str, Any]: ...


@record
class PlainFrame:
    """hello, ping, participants, drain, error."""

    content: dict[str, Any]

    def text(self) -> str:
        return json.dumps(self.content)

    def value(self) -> dict[str, Any]:
        return self.content


@record
class DeliverFrame:
    """Messages that became deliverable, in offset order per conversation."""

    messages: Sequence[StoredMessage]

    def text(self) -> str:
        return f'{{"deliver":[{",".join(message.to_json() for message in self.messages)}]}}'

    def value(self) -> dict[str, Any]:
        return {"deliver": [message.to_wire() for message in self.messages]}


@dataclass(slots=True)
class Answer:
    """What became of one item: a job's future, or the error that kept it from being queued."""

    future: asyncio.Future[Any] | None = None
    error: LoopError | None = None

    @property
    def done(self) -> bool:
        return self.future is None or self.future.done()

    @property
    def refusal(self) -> LoopError | None:
        """Why the item was refused, once it is done and if it was."""
        failure = self.error if self.future is None else self.future.exception()
        return failure if isinstance(failure, LoopError) else None

    def abandon(self) -> None:
        """Nobody reads it any more; the job runs on, and its failure must not count as unseen."""
        if self.future is not None:
            self.future.add_done_callback(_seen)

    def outcome(self) -> LoopError | SpeakAnswer | Progress | None:
        if self.future is None:
            return self.error
        failure = self.future.exception()
        if failure is None:
            return self.future.result()
        if isinstance(failure, LoopError):
            return failure
        if isinstance(failure, DatabaseError | FaultInjected):
            return storage_error(failure)
        _log.error("link_item_failed", exc_info=failure)
        return LoopError("something broke on our side", code=ErrorCode.INTERNAL)


def _seen(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()


@record
class ResultsFrame:
    """The results of one frame, in the order of its items."""

    frame_id: str | int | None
    answers: Sequence[Answer]

    def text(self) -> str:
        results = ",".join(self._text(answer.outcome()) for answer in self.answers)
        return f'{{"id":{json.dumps(self.frame_id)},"results":[{results}]}}'

    def value(self) -> dict[str, Any]:
        return {"id": self.frame_id, "results": [self._value(answer.outcome()) for answer in self.answers]}

    def _text(self, outcome: LoopError | SpeakAnswer | Progress | None) -> str:
        if isinstance(outcome, SpeakAnswer):
            return f'{{"ok":true,"message":{outcome.message.to_json()}}}'
        return '{"ok":true}' if outcome is None else json.dumps(self._value(outcome))

    def _value(self, outcome: LoopError | SpeakAnswer | Progress | None) -> dict[str, Any]:
        if isinstance(outcome, SpeakAnswer):
            return {"ok": True, "message": outcome.message.to_wire()}
        if isinstance(outcome, Progress):
            return {"ok": True, **outcome.to_wire()}
        return {"ok": True} if outcome is None else failed(outcome)


def failed(error: LoopError) -> dict[str, Any]:
    return {"error": error.to_problem()}


def submit_items(
    commits: Commits, grant: Grant, ids: Ids, frame: LinkFrame, sent: Mapping[str, int]
) -> list[Answer]:
    """Queues every item of the frame now; one answer per item. `sent` is what this link pushed, by place."""

    def speak(item: LinkSpeak) -> asyncio.Future[Any]:
        return commits.submit_speak(speak_command(grant, item.conversation_id, item, ids))

    def commit(item: LinkCommit) -> asyncio.Future[Any]:
        pushed = sent.get(item.conversation_id, 0)
        return commits.submit_commit(commit_command(grant, item.conversation_id, item, pushed))

    def patches(item: LinkPatches) -> asyncio.Future[Any]:
        return commits.submit_append(append_command(grant, item.message_id, item))

    def end(item: LinkEnd) -> asyncio.Future[Any]:
        return commits.submit_end(end_command(grant, item.message_id, item))

    answers: list[Answer] = []
    _submit(answers, frame.speak, speak)
    _submit(answers, frame.commit, commit)
    _submit(answers, frame.patches, patches)
    _submit(answers, frame.end, end)
    return answers


def _submit(answers: list[Answer], items: Sequence[Any], queue: Callable[[Any], asyncio.Future[Any]]) -> None:
    for item in items:
        if isinstance(item, LoopError):
            answers.append(Answer(error=item))
            continue
        try:
            answers.append(Answer(queue(item)))
        except LoopError as error:
            answers.append(Answer(error=error))
