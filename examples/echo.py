"""The smallest operator: it repeats what it hears.

Run it with `lineloop run examples/echo.py` next to a running `lineloop up`.
"""

from lineloop import Operator, Result, Turn

operator = Operator("echo", display_name="Echo")


@operator.reconcile
async def reconcile(turn: Turn) -> Result | None:
    inbox = await turn.poll()
    for message in inbox:
        await turn.speak(f"You said: {message.text}", key=f"{message.id}/answer", reply_to=message.id)
    await turn.commit(inbox.position)
