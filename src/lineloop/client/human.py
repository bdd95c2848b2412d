"""Questions to people: asked once by effect key, read and waited for by id.

Decides how a wait is made of long polls and survives broken connections. Deadlines, answers and their checks
are the server's; leaving a wait leaves the question as it is (spec/protocol.md §6).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, Required, TypedDict, Unpack

from lineloop.client.retry import MAX_PAUSE_SECONDS, Retry, is_transient
from lineloop.client.transport import Transport
from lineloop.kit.backoff import Backoff
from lineloop.protocol.actors import Actor
from lineloop.protocol.errors import LoopError
from lineloop.protocol.paths import segment
from lineloop.protocol.questions import Question, QuestionState

LONG_POLL_SECONDS = 25.0
# How long a wait bears a server that does not answer: a restart, not an outage.
WAIT_ATTEMPTS = 12

Choice = str | tuple[str, str] | Mapping[str, str]


class ConfirmOptions(TypedDict):
    """What `confirm` takes: `to` a user, a positive timeout in seconds, labels for the two buttons."""

    effect_key: Required[str]
    to: Required[Actor]
    timeout_seconds: Required[float]
    accept_label: NotRequired[str]
    decline_label: NotRequired[str]
    reply_to: NotRequired[str]
    actor: NotRequired[Actor]


class AskOptions(TypedDict):
    """What `ask` takes: `choices` are values, (value, label) pairs or `{"value", "label"}` objects."""

    effect_key: Required[str]
    to: Required[Actor]
    timeout_seconds: Required[float]
    choices: NotRequired[Sequence[Choice]]
    allow_other: NotRequired[bool]
    reply_to: NotRequired[str]
    actor: NotRequired[Actor]


class QuestionHandle:
    """One question; rebuilt from its id by `Human.question`."""

    def __init__(self, question_id: str, transport: Transport, retry: Retry) -> None:
        self.id = question_id
        self._transport = transport
        self._retry = retry

    async def get(self) -> Question:
        """The question now: pending or its one outcome [read].

        Raises LoopError `question_not_found`. Spec: spec/protocol.md §6.1.
        """
        return await self._retry.run(lambda: self._read(0.0))

    async def wait(self) -> Question:
        """The outcome, as soon as there is one: answered, dismissed, timeout or failure [read].

        Cancelling the wait leaves the question open; bound it with `with_timeout`. Raises LoopError when the
        server stays away for minutes, and `question_not_found`. Spec: spec/protocol.md §6.1.
        """
        backoff = Backoff(0.1, 2.0, 10.0, 0.3)
        failures = 0
        while True:
            try:
                question, pause = await self._looked(LONG_POLL_SECONDS)
            except LoopError as error:
                failures += 1
                if not is_transient(error) or failures >= WAIT_ATTEMPTS:
                    raise
                await self._retry.clock.sleep(backoff.delay(failures - 1))
                continue
            failures = 0
            if question.state is not QuestionState.PENDING:
                return question
            await self._retry.clock.sleep(pause)

    async def _read(self, wait_seconds: float) -> Question:
        return (await self._looked(wait_seconds))[0]

    async def _looked(self, wait_seconds: float) -> tuple[Question, float]:
        """The question, and for how many seconds a server that stops asks to be left alone."""
        answer = await self._transport.request(
            "GET",
            f"/v1/questions/{segment(self.id)}",
            params={"wait_ms": round(wait_seconds * 1000) or None},
            timeout_seconds=wait_seconds + 30.0,
        )
        asked = answer.headers.get("retry-after", "0")
        pause = min(int(asked), MAX_PAUSE_SECONDS) if asked.isdecimal() else 0.0
        return Question.from_wire(answer.body), pause


class Human:
    """The verbs towards people."""

    def __init__(self, transport: Transport, retry: Retry) -> None:
        self._transport = transport
        self._retry = retry

    async def ask(self, conversation_id: str, question: str, **options: Unpack[AskOptions]) -> QuestionHandle:
        """Ask one person, or find the question already asked under this effect key [write].

        Closed with `choices`, open with `allow_other`, or both. The deadline is fixed at the first save.
        Raises Conflict `question_conflict` when the key was used with other parameters, InvalidRequest for a
        question without any way to answer. Spec: spec/protocol.md §6.1.
        """
        body = _terms("ask", question, options)
        body["choices"] = [_choice(one) for one in options.get("choices", ())]
        body["allow_other"] = options.get("allow_other", False)
        return await self._open(conversation_id, body)

    async def confirm(
        self, conversation_id: str, question: str, **options: Unpack[ConfirmOptions]
    ) -> QuestionHandle:
        """Ask for a yes or no; the value is `accepted` or `declined`, and both are a success [write].

        `timeout_seconds`: how long the person has. Raises as `ask`. Spec: spec/protocol.md §6.1.
        """
        body = _terms("confirm", question, options)
        labels = {
            "accepted": options.get("accept_label"),
            "declined": options.get("decline_label"),
        }
        if given := {value: label for value, label in labels.items() if label}:
            body["labels"] = given
        return await self._open(conversation_id, body)

    def question(self, question_id: str) -> QuestionHandle:
        """The handle of a known question; asks nobody."""
        return QuestionHandle(question_id, self._transport, self._retry)

    async def _open(self, conversation_id: str, body: dict[str, Any]) -> QuestionHandle:
        path = f"/v1/conversations/{segment(conversation_id)}/questions"
        answer = await self._retry.run(lambda: self._transport.request("POST", path, json=body))
        return self.question(Question.from_wire(answer.body).id)


def _terms(kind: str, question: str, options: AskOptions | ConfirmOptions) -> dict[str, Any]:
    body: dict[str, Any] = {
        "kind": kind,
        "effect_key": options["effect_key"],
        "to": options["to"].to_wire(),
        "text": question,
        "timeout_ms": round(options["timeout_seconds"] * 1000),
    }
    if (reply_to := options.get("reply_to")) is not None:
        body["reply_to_id"] = reply_to
    if (actor := options.get("actor")) is not None:
        body["actor"] = actor.to_wire()
    return body


def _choice(choice: Choice) -> dict[str, str]:
    if isinstance(choice, str):
        return {"value": choice, "label": choice}
    if isinstance(choice, tuple):
        return {"value": choice[0], "label": choice[1]}
    return dict(choice)
