"""A person decides: ask which drink, confirm the order, and answer with the outcome.

Questions are durable and found again by their effect key, so the turn may be interrupted anywhere, also while
it waits for days: it asks nothing twice. Nothing is held open in between; the answer wakes the operator.
"""

from __future__ import annotations

from lineloop import Message, Operator, Result, Turn
from lineloop.protocol.messages import Purpose
from lineloop.protocol.questions import ACCEPTED, Question, QuestionState

PATIENCE_SECONDS = 24 * 3600.0

operator = Operator("barista", display_name="Barista", description="Takes orders.")


@operator.reconcile
async def reconcile(turn: Turn) -> Result | None:
    inbox = await turn.poll()
    for message in inbox:
        if message.purpose is not Purpose.INPUT:
            continue  # answers only wake us; their meaning is read from the question
        summary = await order(turn, message)
        if summary is None:
            return None  # a person is still thinking: commit nothing, the answer brings us back here
        await turn.speak(summary, key=f"{message.id}/summary", reply_to=message.id, target=message.actor)
    await turn.commit(inbox.position)
    return None


async def order(turn: Turn, message: Message) -> str | None:
    """What came of the order; None while a question is open."""
    drink = await (
        await turn.ask(
            "What may it be?",
            effect_key=f"{message.id}/drink",
            to=message.actor,
            timeout_seconds=PATIENCE_SECONDS,
            choices=[("tea", "Tea"), ("coffee", "Coffee")],
            allow_other=True,
            reply_to=message.id,
        )
    ).get()
    if drink.state is not QuestionState.SUCCESS:
        return outcome_without_answer(drink)
    sure = await (
        await turn.confirm(
            f"One {drink.value}?",
            effect_key=f"{message.id}/sure",
            to=message.actor,
            timeout_seconds=PATIENCE_SECONDS,
            reply_to=message.id,
        )
    ).get()
    if sure.state is not QuestionState.SUCCESS:
        return outcome_without_answer(sure)
    return f"One {drink.value}, coming up." if sure.value == ACCEPTED else "No order then."


def outcome_without_answer(question: Question) -> str | None:
    if question.state is QuestionState.PENDING:
        return None
    return f"No order: the question ended {question.state}."
