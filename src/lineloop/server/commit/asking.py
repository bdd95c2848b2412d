"""The jobs of questions to people: open, answer, time out (spec/protocol.md §6.1).

A question is a message whose card changes once. Closing it and storing the answer are one transaction; a
question whose time is up is closed before anything else is decided about it.
"""

from __future__ import annotations

import hashlib

from lineloop.kit import json
from lineloop.kit.clock import rfc3339
from lineloop.kit.database import Tx
from lineloop.kit.records import record
from lineloop.protocol.actors import Actor
from lineloop.protocol.errors import ErrorCode, NotFound
from lineloop.protocol.messages import Purpose
from lineloop.protocol.questions import Question, QuestionTerms, question_content, reply_content
from lineloop.server.commit.context import CommitContext
from lineloop.server.commit.locking import lock_conversation, lock_conversations, lock_message
from lineloop.server.commit.participation import conversation_not_found, notify_in
from lineloop.server.commit.speaking import QuestionPart, SpeakCommand, speak_in
from lineloop.server.commit.visibility import sees
from lineloop.server.decide.access import Grant
from lineloop.server.decide.questions import (
    QuestionFacts,
    Reply,
    answer_conflict,
    decide_answer,
    decide_failure,
    decide_open_question,
    decide_repeated_question,
    decide_timeout,
)
from lineloop.server.records import QuestionRow, StoredMessage
from lineloop.server.store import conversations, messages, questions
from lineloop.server.wakeup.bus import MessageChanged, QuestionClosed


@record
class OpenQuestion:
    """A question of `actor` to the person `to`. The deadline is fixed when it is first saved.

    `speaker` is the credential that asks, None the server itself.
    """

    message_id: str
    conversation_id: str
    actor: Actor
    to: Actor
    effect_key: str
    terms: QuestionTerms
    timeout_ms: int
    speaker: Grant | None
    reply_to_id: str | None = None


@record
class QuestionAnswer:
    """The question as it stands; `answer` is the person's reply when there is one."""

    question: Question
    created: bool = False
    answer: StoredMessage | None = None
    late: bool = False


def question_not_found(question_id: str) -> NotFound:
    return NotFound(
        "no such question", code=ErrorCode.QUESTION_NOT_FOUND, detail={"question_id": question_id}
    )


def to_question(question_id: str, facts: QuestionFacts) -> Question:
    return Question(
        id=question_id,
        message_id=question_id,
        state=facts.state,
        value=facts.value,
        reason=facts.reason,
        deadline_at=rfc3339(facts.deadline_at),
    )


def open_question_in(tx: Tx, ctx: CommitContext, command: OpenQuestion) -> QuestionAnswer:
    """Stores the question, or answers the one under its effect key (L65).

    Raises question_conflict, conversation_not_found, InvalidRequest.
    """
    decide_open_question(command.terms, command.to, command.timeout_ms)
    lock_conversation(tx, ctx, command.conversation_id)
    digest = _digest(command)
    key = f"question:{command.effect_key}"
    existing = messages.by_key(tx, command.conversation_id, command.actor, key)
    if existing is not None:
        _require_seen(tx, command)
        row = _row(tx, existing.id)
        decide_repeated_question(row.digest, digest)
        facts, _ = _close_if_due_in(tx, ctx, row)
        return QuestionAnswer(to_question(existing.id, facts))
    _require_seen(tx, command)
    facts = QuestionFacts(command.terms, ctx.clock.now_ms() + command.timeout_ms)
    spoken = speak_in(
        tx,
        ctx,
        SpeakCommand(
            message_id=command.message_id,
            conversation_id=command.conversation_id,
            actor=command.actor,
            key=key,
            content=_card(facts),
            target=command.to,
            reply_to_id=command.reply_to_id,
            purpose=Purpose.QUESTION,
            speaker=command.speaker,
            question=QuestionPart(digest, facts.deadline_at, json.dumps(facts.to_stored())),
        ),
    )
    return QuestionAnswer(to_question(spoken.message.id, facts), created=True)


def _require_seen(tx: Tx, command: OpenQuestion) -> None:
    found = conversations.get(tx, command.conversation_id)
    if found is None or (command.speaker is not None and not sees(tx, found, command.speaker)):
        raise conversation_not_found(command.conversation_id)


def get_question_in(tx: Tx, ctx: CommitContext, question_id: str) -> QuestionAnswer:
    """The question; if its time is up it is closed first."""
    lock_message(tx, ctx, question_id)
    row = _row(tx, question_id)
    facts, _ = _close_if_due_in(tx, ctx, row)
    return QuestionAnswer(to_question(question_id, facts))


def read_question(tx: Tx, question_id: str) -> tuple[QuestionRow, QuestionFacts]:
    """As stored, whatever the time. Raises question_not_found."""
    row = _row(tx, question_id)
    return row, QuestionFacts.from_stored(row.facts)


def answer_in(tx: Tx, ctx: CommitContext, question_id: str, reply: Reply, answer_id: str) -> QuestionAnswer:
    """Closes the question with the person's reply and stores the reply as a message; one transaction.

    A late reply is not an error here, or the timeout that it found would be undone: see `late`.
    Raises question_not_found, Forbidden, answer_invalid, answer_conflict, InvalidRequest.
    """
    lock_message(tx, ctx, question_id)
    row = _row(tx, question_id)
    facts, timed_out = _close_if_due_in(tx, ctx, row)
    if timed_out:
        return QuestionAnswer(to_question(question_id, facts), late=True)
    after = decide_answer(question_id, Actor(*row.person), facts, reply)
    if after is None:
        stored = messages.get(tx, facts.answer_id or "")
        assert stored is not None
        return QuestionAnswer(to_question(question_id, facts), answer=stored)
    spoken = speak_in(
        tx,
        ctx,
        SpeakCommand(
            message_id=answer_id,
            conversation_id=row.conversation_id,
            actor=reply.person,
            key=f"answer:{question_id}",
            content=reply_content(after.terms, question_id=question_id, value=after.value),
            target=Actor(*row.asker),
            reply_to_id=question_id,
            purpose=Purpose.ANSWER,
            speaker=None,
        ),
    )
    closed = QuestionFacts(
        terms=after.terms,
        deadline_at=after.deadline_at,
        state=after.state,
        value=after.value,
        answer_id=spoken.message.id,
    )
    _close_in(tx, ctx, row, closed)
    return QuestionAnswer(to_question(question_id, closed), created=True, answer=spoken.message)


def close_due_in(tx: Tx, ctx: CommitContext, limit: int = 50) -> int:
    """Closes questions whose time is up; how many."""
    due = questions.due(tx, ctx.clock.now_ms(), limit)
    lock_conversations(tx, ctx, {root_id for _, root_id in due})
    for question_id, _ in due:
        _close_if_due_in(tx, ctx, _row(tx, question_id))
    return len(due)


def fail_question_in(tx: Tx, ctx: CommitContext, question_id: str, reason: str) -> None:
    """Closes a question whose asker is gone, with `reason`. One that is closed, or overdue, ends as it would
    have. Raises question_not_found.
    """
    row = _row(tx, question_id)
    facts, _ = _close_if_due_in(tx, ctx, row)
    failed = decide_failure(facts, reason)
    if failed is not None:
        _close_in(tx, ctx, row, failed)


def refuse_late(answer: QuestionAnswer) -> QuestionAnswer:
    """Raises answer_conflict for a reply that came too late; to be called when the timeout is committed."""
    if answer.late:
        raise answer_conflict(answer.question.state, answer.question.value)
    return answer


def _row(tx: Tx, question_id: str) -> QuestionRow:
    row = questions.get(tx, question_id)
    if row is None:
        raise question_not_found(question_id)
    return row


def _close_if_due_in(tx: Tx, ctx: CommitContext, row: QuestionRow) -> tuple[QuestionFacts, bool]:
    """The facts as they stand now, and whether the timeout was found by this very job."""
    facts = QuestionFacts.from_stored(row.facts)
    closed = decide_timeout(facts, ctx.clock.now_ms())
    if closed is None:
        return facts, False
    _close_in(tx, ctx, row, closed)
    return closed, True


def _close_in(tx: Tx, ctx: CommitContext, row: QuestionRow, facts: QuestionFacts) -> None:
    """The card changes, viewers and the asker hear of it, and whoever waits in this database goes on."""
    change = conversations.take_change(tx, row.root_id)
    questions.close(
        tx,
        row.id,
        facts=json.dumps(facts.to_stored()),
        content=json.dumps(_card(facts)),
        change=change,
        now=ctx.clock.now_ms(),
    )
    for hook in ctx.hooks.question_closed:
        hook(tx, row, facts)
    message = messages.get(tx, row.id)
    assert message is not None
    changed = MessageChanged(row.id, row.conversation_id, row.root_id, change, message.offset, message)
    closed = QuestionClosed(row.id, row.root_id, row.asker)
    tx.after_commit(lambda: ctx.bus.publish(changed))
    tx.after_commit(lambda: ctx.bus.publish(closed))
    notify_in(tx, ctx, row.conversation_id)


def _card(facts: QuestionFacts) -> dict[str, object]:
    return question_content(
        facts.terms, deadline_at=rfc3339(facts.deadline_at), state=facts.state, value=facts.value
    )


def _digest(command: OpenQuestion) -> str:
    """Everything that makes it the same question. The deadline is not part of it, the time given is."""
    stored = QuestionFacts(command.terms, 0).to_stored()
    identity = [stored, str(command.to), command.timeout_ms, command.reply_to_id]
    return hashlib.sha256(json.canonical(identity)).hexdigest()
