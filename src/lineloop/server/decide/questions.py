"""Rules of questions to people: open, answer, dismiss, time out (spec/protocol.md §6.1). Pure.

Decides what an answer makes of a question's stored facts. Leaves clocks, rows and messages to `commit`; which
values are offered is decided by the protocol's `check_answer`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lineloop.kit.records import record
from lineloop.protocol.actors import USER, Actor
from lineloop.protocol.errors import Conflict, ErrorCode, Forbidden, InvalidRequest
from lineloop.protocol.machines import QUESTION, QuestionEvent, QuestionState
from lineloop.protocol.questions import QuestionKind, QuestionTerms, check_answer

MAX_TIMEOUT_MS = 366 * 24 * 3600 * 1000


@record
class QuestionFacts:
    """What is stored of a question. `deadline_at` UTC milliseconds, fixed when it was first saved."""

    terms: QuestionTerms
    deadline_at: int
    state: QuestionState = QuestionState.PENDING
    value: str | None = None
    reason: str | None = None
    answer_id: str | None = None

    @property
    def is_open(self) -> bool:
        return self.state is QuestionState.PENDING

    def to_stored(self) -> dict[str, Any]:
        terms = self.terms
        return {
            "kind": terms.kind.value,
            "text": terms.text,
            "choices": [list(choice) for choice in terms.choices],
            "allow_other": terms.allow_other,
            "accept_label": terms.accept_label,
            "decline_label": terms.decline_label,
            "deadline_at": self.deadline_at,
            "state": self.state.value,
            "value": self.value,
            "reason": self.reason,
            "answer_id": self.answer_id,
        }

    @classmethod
    def from_stored(cls, facts: Mapping[str, Any]) -> QuestionFacts:
        return cls(
            terms=QuestionTerms(
                kind=QuestionKind(facts["kind"]),
                text=facts["text"],
                choices=tuple((value, label) for value, label in facts["choices"]),
                allow_other=facts["allow_other"],
                accept_label=facts["accept_label"],
                decline_label=facts["decline_label"],
            ),
            deadline_at=facts["deadline_at"],
            state=QuestionState(facts["state"]),
            value=facts["value"],
            reason=facts["reason"],
            answer_id=facts["answer_id"],
        )


@record
class Reply:
    """What a person said to a question; `value` None dismisses it."""

    person: Actor
    reply_to_id: str
    value: str | None


def decide_open_question(terms: QuestionTerms, to: Actor, timeout_ms: int) -> None:
    """Raises InvalidRequest for terms that nobody could answer, or a deadline that is none (L72)."""
    if to.kind != USER:
        raise InvalidRequest("a question goes to a person", pointer="/to")
    if not 0 < timeout_ms <= MAX_TIMEOUT_MS:
        raise InvalidRequest("timeout_ms is positive and at most a year", pointer="/timeout_ms")
    if not terms.text.strip():
        raise InvalidRequest("a question has a text", pointer="/text")
    if terms.kind is QuestionKind.CONFIRM:
        if terms.choices or terms.allow_other:
            raise InvalidRequest("a confirm is accepted or declined", pointer="/choices")
        return
    if not terms.choices and not terms.allow_other:
        raise InvalidRequest("an ask offers choices or takes free text", pointer="/choices")
    values = [value for value, _ in terms.choices]
    if any(not value or not label for value, label in terms.choices):
        raise InvalidRequest("choices have a value and a label", pointer="/choices")
    if len(set(values)) != len(values):
        raise InvalidRequest("the values of choices differ", pointer="/choices")


def decide_repeated_question(stored_digest: str, digest: str) -> None:
    """The same effect key asks the same question; else `question_conflict` (L65)."""
    if stored_digest != digest:
        raise Conflict("this effect key was used for another question", code=ErrorCode.QUESTION_CONFLICT)


def decide_answer(
    question_id: str, person: Actor, facts: QuestionFacts, reply: Reply
) -> QuestionFacts | None:
    """The question's facts after the reply; None when exactly this reply closed it before.

    The caller has closed an overdue question first. Raises Forbidden for anyone but the named person,
    InvalidRequest for a wrong reference, `answer_invalid`, `answer_conflict` (L63, L64).
    """
    if reply.person != person:
        raise Forbidden("only the person who was asked may answer")
    if reply.reply_to_id != question_id:
        raise InvalidRequest("reply_to_id names the question that is answered", pointer="/reply_to_id")
    if reply.value is not None:
        check_answer(facts.terms, reply.value)
    event = QuestionEvent.DISMISS if reply.value is None else QuestionEvent.ANSWER
    if not facts.is_open:
        outcome = QUESTION.next(QuestionState.PENDING, event)
        if facts.state is outcome and facts.value == reply.value:
            return None
        raise answer_conflict(facts.state, facts.value)
    return QuestionFacts(
        terms=facts.terms,
        deadline_at=facts.deadline_at,
        state=QUESTION.next(facts.state, event),
        value=reply.value,
    )


def decide_timeout(facts: QuestionFacts, now: int) -> QuestionFacts | None:
    """The facts of a question whose time is up; None while it is not, or when it is closed."""
    if not facts.is_open or now < facts.deadline_at:
        return None
    state = QUESTION.next(facts.state, QuestionEvent.TIME_OUT)
    return QuestionFacts(terms=facts.terms, deadline_at=facts.deadline_at, state=state)


def decide_failure(facts: QuestionFacts, reason: str) -> QuestionFacts | None:
    """The facts of a question that nobody needs answered any more; None when it is closed already."""
    if not facts.is_open:
        return None
    state = QUESTION.next(facts.state, QuestionEvent.FAIL)
    return QuestionFacts(terms=facts.terms, deadline_at=facts.deadline_at, state=state, reason=reason)


def answer_conflict(state: QuestionState, value: str | None) -> Conflict:
    """The refusal of a reply that came too late or differs, with the stored outcome."""
    return Conflict(
        f"the question is closed: {state}",
        code=ErrorCode.ANSWER_CONFLICT,
        detail={"state": state.value, "value": value},
    )
