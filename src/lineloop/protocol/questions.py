"""Questions to people, as they look on the wire (spec/protocol.md §6.1).

Decides the shape of a question, of its card and of the reply's card, and which values answer it. Leaves time,
identity and storage to the server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Self

from lineloop.kit.records import record
from lineloop.protocol.content import ASK_BLOCK, CONFIRM_BLOCK, HUMAN_REPLY_BLOCK
from lineloop.protocol.errors import ErrorCode, InvalidRequest, LoopError
from lineloop.protocol.machines import QuestionState
from lineloop.protocol.patches import empty_content

ACCEPTED = "accepted"
DECLINED = "declined"


class QuestionKind(StrEnum):
    ASK = "ask"
    CONFIRM = "confirm"


@record
class Question:
    """A question's state. `id` is the id of the question's message; `deadline_at` RFC 3339 UTC.

    `value` is set only when `state` is success, `reason` only when it is failure.
    """

    id: str
    message_id: str
    state: QuestionState
    value: str | None
    reason: str | None
    deadline_at: str

    def to_wire(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "message_id": self.message_id,
            "state": self.state.value,
            "value": self.value,
            "reason": self.reason,
            "deadline_at": self.deadline_at,
        }

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> Self:
        """Raises InvalidRequest."""
        try:
            return cls(
                id=wire["id"],
                message_id=wire["message_id"],
                state=QuestionState(wire["state"]),
                value=wire.get("value"),
                reason=wire.get("reason"),
                deadline_at=wire["deadline_at"],
            )
        except (KeyError, ValueError) as error:
            raise InvalidRequest(f"this is not a question: {error}") from error


@record
class QuestionTerms:
    """What was asked: fixed at the first save. `choices` are (value, label) pairs."""

    kind: QuestionKind
    text: str
    choices: tuple[tuple[str, str], ...] = ()
    allow_other: bool = False
    accept_label: str | None = None
    decline_label: str | None = None

    def options(self) -> tuple[tuple[str, str], ...]:
        """The values one may pick, with the words people see."""
        if self.kind is QuestionKind.CONFIRM:
            return ((ACCEPTED, self.accept_label or "Yes"), (DECLINED, self.decline_label or "No"))
        return self.choices

    def label_of(self, value: str) -> str:
        """The words for a value; a free text stands for itself."""
        return dict(self.options()).get(value, value)


def check_answer(terms: QuestionTerms, value: str) -> None:
    """Raises LoopError `answer_invalid` unless `value` is offered, or a non-blank free text where allowed."""
    if any(value == offered for offered, _ in terms.options()):
        return
    if terms.kind is QuestionKind.ASK and terms.allow_other and value.strip():
        return
    raise LoopError(
        "the answer is not one of the offered values", code=ErrorCode.ANSWER_INVALID, pointer="/value"
    )


def question_content(
    terms: QuestionTerms, *, deadline_at: str, state: QuestionState, value: str | None = None
) -> dict[str, Any]:
    """The card: one controlled block with the terms, the deadline and, when closed, the outcome."""
    block: dict[str, Any] = {
        "id": "question",
        "type": ASK_BLOCK if terms.kind is QuestionKind.ASK else CONFIRM_BLOCK,
        "text": terms.text,
        "choices": _choices(terms.options()),
        "allow_other": terms.allow_other,
        "deadline_at": deadline_at,
        "state": state.value,
        "value": value,
    }
    return {**empty_content(), "blocks": [block]}


def reply_content(terms: QuestionTerms, *, question_id: str, value: str | None) -> dict[str, Any]:
    """The reply's card, with a snapshot of the question; `value` None means dismissed."""
    block: dict[str, Any] = {
        "id": "reply",
        "type": HUMAN_REPLY_BLOCK,
        "question_id": question_id,
        "kind": terms.kind.value,
        "question": terms.text,
        "choices": _choices(terms.options()),
        "dismissed": value is None,
        "value": value,
        "label": None if value is None else terms.label_of(value),
    }
    return {**empty_content(), "blocks": [block]}


def _choices(options: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"value": value, "label": label} for value, label in options]
