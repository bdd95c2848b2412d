"""A streamed answer that survives kill -9: the message itself remembers how far it got.

Say a number and watch it count. Speaking with the same key after a crash returns the same message, and its
handle goes on at the stored revision, so no number appears twice.
"""

from __future__ import annotations

import re

from lineloop import Message, Operator, Result, Turn

LIMIT = 50

operator = Operator("counter", display_name="Counter", description="Counts up to the number you say.")


@operator.reconcile
async def reconcile(turn: Turn) -> Result | None:
    inbox = await turn.poll()
    for message in inbox:
        number = wanted(message.text)
        if number is None:
            await turn.fail(
                "no_number",
                f"Say a number from 1 to {LIMIT}.",
                key=f"{message.id}/failure",
                reply_to=message.id,
                target=message.actor,
            )
        else:
            await count(turn, message, number)
    await turn.commit(inbox.position)
    return None


def wanted(text: str) -> int | None:
    """The first number of the text, if it is one that can be counted to."""
    found = re.search(r"\d+", text)
    number = int(found.group()) if found else 0
    return number if 1 <= number <= LIMIT else None


async def count(turn: Turn, message: Message, number: int) -> None:
    answer = await turn.speak(
        key=f"{message.id}/answer", reply_to=message.id, target=message.actor, stream=True
    )
    if answer.status.ended:
        return  # an earlier turn finished it and was interrupted before its commit
    said = len(answer.message.text.split())
    for step in range(said + 1, number + 1):
        await answer.write(f"{step} ")
    await answer.end()
