"""Rules of questions and runs: one terminal state each, kept for ever, and one answer to a question."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from lineloop.protocol.machines import LIVE_RUN_PHASES
from lineloop.testing.history.operations import Answered, Asked, History, Outcome, Seen
from lineloop.testing.history.reading import Reading
from lineloop.testing.history.verdicts import Rule, Violation

QUESTION, RUN, MESSAGE = "question", "run", "message"
_PENDING = "pending"
_WITH_ANSWER = ("success", "dismissed")


def outcome_violations(history: History, reading: Reading, *, healed: bool) -> Iterator[Violation]:
    yield from _asked(history, reading)
    yield from _answers(history, reading)
    yield from _observations(history, reading)
    if healed:
        for question in reading.questions:
            if question.state == _PENDING:
                yield Violation(Rule.STUCK, question.id, "the question is still open")
        for run_id, phase in reading.runs.items():
            if phase in LIVE_RUN_PHASES:
                yield Violation(Rule.STUCK, run_id, f"the run is still {phase}")


def _asked(history: History, reading: Reading) -> Iterator[Violation]:
    known = {question.id for question in reading.questions}
    under: dict[tuple[str, str, str], str] = {}
    for ask in history.of(Asked):
        if ask.outcome is not Outcome.DONE or ask.question_id is None:
            continue
        place = (ask.conversation_id, ask.actor, ask.effect_key)
        first = under.setdefault(place, ask.question_id)
        if first != ask.question_id:
            yield Violation(Rule.DOUBLED, "/".join(place), f"questions {first} and {ask.question_id}")
        if ask.question_id not in known:
            yield Violation(Rule.LOST, ask.question_id, f"asked as {ask.effect_key!r}")


def _answers(history: History, reading: Reading) -> Iterator[Violation]:
    """An acknowledged answer is the outcome; an answered question has one answer message, others none."""
    states = {question.id: (question.state, question.value) for question in reading.questions}
    for answer in history.of(Answered):
        final = states.get(answer.question_id)
        if answer.outcome is not Outcome.DONE or final is None:
            continue
        if final[0] == _PENDING:
            yield Violation(Rule.LOST, answer.question_id, f"answered {answer.value!r}, is open")
        elif final != (answer.state, answer.value):
            words = f"answered {(answer.state, answer.value)}, is {final}"
            yield Violation(Rule.TWO_OUTCOMES, answer.question_id, words)
    replies = Counter(one.reply_to_id for one in reading.messages if one.purpose == "answer")
    for question in reading.questions:
        count = replies[question.id]
        if count > 1:
            yield Violation(Rule.DOUBLED, question.id, f"{count} answers")
        elif count == 0 and question.state in _WITH_ANSWER:
            yield Violation(Rule.LOST, question.id, f"{question.state} without an answer message")
        elif count and question.state not in _WITH_ANSWER:
            yield Violation(Rule.INVENTED, question.id, f"{question.state} with an answer message")


def _observations(history: History, reading: Reading) -> Iterator[Violation]:
    """What was seen as ended stays as it was seen, and is so at the end."""
    finals: dict[tuple[str, str], tuple[str, str | None]] = {
        **{(QUESTION, one.id): (one.state, one.value) for one in reading.questions},
        **{(RUN, run_id): (phase, None) for run_id, phase in reading.runs.items()},
        **{(MESSAGE, one.id): (one.status, None) for one in reading.messages},
    }
    seen: defaultdict[tuple[str, str], list[Seen]] = defaultdict(list)
    for one in history.of(Seen):
        seen[one.kind, one.id].append(one)
    for (kind, subject), sights in seen.items():
        ends = [one for one in sights if one.terminal]
        if not ends:
            continue
        known = min(one.ended for one in ends)
        reopened = [one for one in sights if not one.terminal and one.began > known]
        if reopened:
            yield Violation(Rule.TWO_OUTCOMES, subject, f"{kind} {reopened[0].state} after its end")
        outcomes = {(one.state, one.value) for one in ends}
        final = finals.get((kind, subject))
        if final is None:
            yield Violation(Rule.LOST, subject, f"the {kind} was seen as {ends[0].state}")
        elif outcomes != {final}:
            words = f"{kind} seen as {sorted(map(str, outcomes))}, is {final}"
            yield Violation(Rule.TWO_OUTCOMES, subject, words)
