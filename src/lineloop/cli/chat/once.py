"""`lineloop chat TEXT`: says one thing, waits for the answer, prints it and ends. So for each line of a pipe.

Decides when an exchange is over: the one we talk to has dealt with our message and everything it said has
ended.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from lineloop.cli.chat.painter import plain
from lineloop.cli.chat.transcript import Line, LineKind, Transcript
from lineloop.cli.chat.wire import ChatWire
from lineloop.cli.failures import CommandFailed, Exit
from lineloop.kit.clock import Clock, with_timeout
from lineloop.kit.ids import Ids
from lineloop.kit.tasks import Tasks
from lineloop.protocol.errors import ConnectionLost
from lineloop.protocol.messages import Message, MessageStatus

PATIENCE_SECONDS = 30 * 60.0
LOOK_SECONDS = 0.1


class Exchange:
    """One message of ours and what follows it."""

    def __init__(self, wire: ChatWire, clock: Clock, ids: Ids, show: Callable[[Line], None]) -> None:
        self._wire = wire
        self._clock = clock
        self._ids = ids
        self._show = show
        self.transcript = Transcript(wire.root_id)
        self.sent: Message | None = None

    async def run(self, text: str) -> None:
        """Raises LoopError for a refused message, CommandFailed when nobody answers or a person is asked."""
        messages, after = await self._wire.history()
        for message in messages:
            self.transcript.take_message(message)
        key = self._ids.make("chat")
        self.transcript.echo(key, text)
        async with Tasks("chat") as tasks:
            following = tasks.spawn(self._follow(after), name="follow")
            self.sent = await self._wire.say(key, text)
            try:
                await with_timeout(self._clock, PATIENCE_SECONDS, self._over(following.done))
            except TimeoutError:
                raise CommandFailed("nobody answered", Exit.TEMPORARY) from None
        question = self.transcript.question()
        if question:
            hint = f"lineloop chat --conversation {self._wire.root_id}"
            raise CommandFailed("an answer of yours is needed", Exit.TEMPORARY, hint=hint)

    async def _follow(self, after: str) -> None:
        while True:
            try:
                async for event in self._wire.follow(after):
                    after = event.id or after
                    lines: list[Line] = []
                    if event.message:
                        lines = self.transcript.take_message(event.message)
                    elif event.patch:
                        lines = self.transcript.take_patch(event.message_id, event.patch)
                    for line in lines:
                        self._show(line)
            except ConnectionLost:
                await self._clock.sleep(LOOK_SECONDS)

    async def _over(self, broken: Callable[[], bool]) -> None:
        while not broken():
            if self.transcript.question():
                return
            if self.answers() and not self._streaming() and await self._wire.consumed(self._offset()):
                return
            await self._clock.sleep(LOOK_SECONDS)

    def answers(self) -> list[Message]:
        """What others said since, ended, in order."""
        return self.transcript.said_after(self.sent.ordinal) if self.sent else []

    def _offset(self) -> int:
        return (self.sent.offset or 0) if self.sent else 0

    def _streaming(self) -> bool:
        return any(message.status is MessageStatus.STREAMING for message in self.transcript.messages.values())

    def document(self) -> dict[str, Any]:
        """The exchange as JSON: our message, the answers, and the tool calls it led to."""
        calls = self.transcript.calls.values()
        return {
            "conversation_id": self._wire.root_id,
            "message": self.sent.to_wire() if self.sent else None,
            "answers": [message.to_wire() for message in self.answers()],
            "calls": [
                {"call_id": call.call_id, "method": call.name, "stage": call.stage, "ended": call.ended}
                for call in calls
            ],
        }


async def exchange_lines(wire: ChatWire, clock: Clock, ids: Ids, lines: list[str]) -> int:
    """Says every line in turn, each after the answer to the one before."""
    for text in lines:
        show_plain(Line(LineKind.YOU, text, "you"))
        await Exchange(wire, clock, ids, show_plain).run(text)
    return Exit.DONE


def show_plain(line: Line) -> None:
    print(plain(line), flush=True)


def read_stdin() -> list[str]:
    return [line.strip() for line in sys.stdin if line.strip()]
