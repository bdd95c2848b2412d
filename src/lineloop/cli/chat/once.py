"""`lineloop chat TEXT`: says one thing, waits for the answer to it, prints it and ends. So for each line of a
pipe, and for the answer to a question.

Decides when an exchange is over: the answer to our message is there and all is told; or it cannot come before
the person has answered a question, and which one that is. A server that is gone is waited for a while
(steady.py); if it does not come back, that and what became of our message is said.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from lineloop.cli.chat.cards import OpenQuestion
from lineloop.cli.chat.harmless import clean
from lineloop.cli.chat.output import OutputLost
from lineloop.cli.chat.steady import Steady
from lineloop.cli.chat.transcript import Line, LineKind, Transcript
from lineloop.cli.chat.waiting import away_text, taken_up
from lineloop.cli.chat.wire import ChatWire
from lineloop.cli.failures import CommandFailed, Exit, failure_of
from lineloop.kit.clock import Clock, with_timeout
from lineloop.kit.ids import Ids
from lineloop.kit.tasks import Tasks
from lineloop.protocol.actors import Actor
from lineloop.protocol.errors import ConnectionLost, LoopError
from lineloop.protocol.messages import Message, MessageStatus

PATIENCE_SECONDS = 30 * 60.0
LOOK_SECONDS = 0.1
# After the answer: how long others may still have something to say about the same message.
SETTLE_SECONDS = 1.5
# How long an operator that stands still must be silent before an older question of it is held responsible.
QUIET_SECONDS = 10.0
# How long an operator that is not online may take to come (a restart), and when waiting is spoken of.
AWAY_SECONDS = 30.0
NOTE_SECONDS = 5.0

Show = Callable[[Line], None]
Note = Callable[[str], None]


class Exchange:
    """One message of ours, or one answer to a question, and what follows it."""

    def __init__(self, wire: ChatWire, clock: Clock, ids: Ids, show: Show, note: Note) -> None:
        """`show` gets what is said, `note` sentences about the exchange itself."""
        self._wire = wire
        self._clock = clock
        self._ids = ids
        self._show = show
        self._note = note
        self._asker: Actor = wire.to
        self._answered: OpenQuestion | None = None
        self._cards: set[str] = set()
        self._steady = Steady(clock, note)
        self._broken: CommandFailed | None = None
        self.transcript = Transcript(wire.root_id)
        self.sent: Message | None = None
        self.blocked: OpenQuestion | None = None

    async def say(self, text: str) -> None:
        """Sends the text once and waits. Raises LoopError when it is refused, CommandFailed when nobody
        answers or the output is lost.
        """
        after = await self._reached()
        key = self._ids.make("chat")
        self.transcript.echo(key, text)
        await self._carry_out(after, lambda: self._wire.say(key, text))

    async def answer(self, typed: str | None, question_id: str | None = None) -> None:
        """Answers an open question, or dismisses it with None, and waits for what comes of it.

        Raises CommandFailed: no such question (3), several and none named, a value that is not offered (2).
        """
        after = await self._reached()
        question = self._chosen(question_id)
        value = None if typed is None else question.value_of(typed)
        if typed is not None and value is None:
            hint = "\n  ".join(clean(question.card_text()).splitlines())
            raise CommandFailed(f"{clean(typed)!r} is not among the answers", Exit.USAGE, hint=hint)
        self._answered, self._asker = question, question.asker
        await self._carry_out(after, lambda: self._wire.answer(question.id, value))

    def answers(self) -> list[Message]:
        """What others said since about our message, or about none in particular; ended, in order."""
        if self.sent is None:
            return []
        return [message for message in self.transcript.said_after(self.sent.ordinal) if self._ours(message)]

    def failure(self) -> CommandFailed | None:
        """How the exchange ends other than well: a question blocks it, or the answer is a failure."""
        question = self.blocked
        if question is not None:
            several = len(self._open()) > 1
            which = f" --question {question.id}" if several else ""
            place = f" --conversation {self._wire.root_id}"
            what = "your answer was sent" if self._answered else "your message was sent"
            return CommandFailed(
                f"{what}; what comes next waits for your answer to the question above",
                Exit.TEMPORARY,
                hint=f"answer: lineloop chat --answer VALUE{which}{place}\n"
                f"  or dismiss it: lineloop chat --dismiss{which}{place}",
            )
        answers = self.answers()
        if answers and answers[-1].status is MessageStatus.FAILED:
            return CommandFailed("the answer is a failure")
        return None

    def document(self) -> dict[str, Any]:
        """The exchange as JSON: our message, the answers, the tool calls, and the question that blocks it."""
        calls = self.transcript.calls.values()
        return {
            "conversation_id": self._wire.root_id,
            "message": self.sent.to_wire() if self.sent else None,
            "answers": [message.to_wire() for message in self.answers()],
            "question": self.blocked.to_json() if self.blocked else None,
            "calls": [
                {"call_id": call.call_id, "method": call.name, "stage": call.stage, "ended": call.ended}
                for call in calls
            ],
        }

    def fate(self) -> str:
        """What became of our message, as far as it is known."""
        if self.sent is not None:
            return "what you said was sent and stays"
        if self._steady.uncertain:
            return "whether what you said was sent is not known"
        return "what you said was not sent"

    async def _reached(self) -> str:
        """Loads. Raises CommandFailed when there is no server, LoopError when it refuses."""
        try:
            return await self._load()
        except ConnectionLost as error:
            raise self._lost(error) from error

    def _lost(self, error: LoopError) -> CommandFailed:
        """A failure that says what became of our message, and where its answer can be read."""
        failure = failure_of(error)
        is_there = self.sent is not None or self._steady.uncertain
        look = f"see what has come of it: lineloop chat --conversation {self._wire.root_id}"
        return CommandFailed(f"{self.fate()}; {failure.message}", failure.code, hint=look if is_there else "")

    async def _load(self) -> str:
        self.transcript.speakers.learn(await self._wire.online())
        messages, after = await self._wire.history()
        for message in messages:
            self.transcript.take_message(message)
        return after

    def _open(self) -> list[OpenQuestion]:
        """Cards that wait for this person, without the one that was just answered."""
        done = self._answered.id if self._answered else None
        me = self.sent.actor if self.sent else None
        return [
            card
            for card in self.transcript.questions()
            if card.id != done and (me is None or card.to is None or card.to == me)
        ]

    def _chosen(self, question_id: str | None) -> OpenQuestion:
        cards = self._open()
        named = [card for card in cards if question_id in (None, card.id)]
        if not named:
            what = "no question is open here" if question_id is None else f"no open question {question_id}"
            raise CommandFailed(what, Exit.NOT_FOUND)
        if len(named) > 1:
            lines = [f"--question {card.id}   {clean(card.text)}" for card in named]
            raise CommandFailed("several questions are open; name one", Exit.USAGE, hint="\n  ".join(lines))
        return named[0]

    async def _carry_out(self, after: str, send: Callable[[], Awaitable[Message]]) -> None:
        async with Tasks("chat") as tasks:
            tasks.spawn(self._follow(after), name="follow")
            try:
                self.sent = await self._steady.run(send)
            except LoopError as error:
                raise self._lost(error) from error
            is_away = self.transcript.speakers.is_away(self._asker)
            if is_away:
                self._note(away_text(self._asker))
            else:
                tasks.spawn(self._say_that_nothing_comes(), name="note")
            try:
                patience = AWAY_SECONDS if is_away else PATIENCE_SECONDS
                await with_timeout(self._clock, patience, self._over())
            except TimeoutError:
                came = f"{self._asker} has not come online" if is_away else "nobody answered"
                raise CommandFailed(f"your message was sent; {came}", Exit.TEMPORARY) from None
            except LoopError as error:
                raise self._lost(error) from error
        if self._broken is not None:
            raise self._broken
        if self.blocked is not None and self.blocked.id not in self._cards:
            self._show(
                Line(
                    LineKind.CARD, self.blocked.card_text(), self.transcript.speakers.name(self.blocked.asker)
                )
            )

    async def _follow(self, after: str) -> None:
        while self._broken is None:
            try:
                async for event in self._wire.follow(after):
                    after = event.id or after
                    lines: list[Line] = []
                    if event.message:
                        lines = self.transcript.take_message(event.message)
                        if any(line.kind is LineKind.CARD for line in lines):
                            self._cards.add(event.message.id)
                    elif event.patch:
                        lines = self.transcript.take_patch(event.message_id, event.patch)
                    for line in lines:
                        self._show(line)
            except ConnectionLost:
                await self._clock.sleep(LOOK_SECONDS)
            except OutputLost as lost:
                self._broken = lost
            except LoopError as error:
                self._broken = self._lost(error)

    async def _say_that_nothing_comes(self) -> None:
        await self._clock.sleep(NOTE_SECONDS)
        if self.sent is not None and not taken_up(self.transcript, self.sent, self._asker):
            self._note("no answer yet; your message is stored, and Ctrl-C leaves without taking it back")

    async def _over(self) -> None:
        """Returns when all is told, when a question blocks the answer, or when the exchange is broken."""
        began = self._clock.monotonic()
        since: float | None = None
        while self._broken is None:
            now = self._clock.monotonic()
            answers, consumed = self.answers(), await self._consumed()
            quiet = not answers and not consumed and not self._streaming()
            self.blocked = self._blocking(stands_still=quiet and now - began >= QUIET_SECONDS)
            if self.blocked is not None:
                return
            answered = any(self.transcript.subject(message) == self._root() for message in answers)
            if self._streaming() or not (answered or (consumed and (answers or self._answered))):
                since = None
            elif consumed and answers:
                return
            else:
                since = now if since is None else since
                if now - since >= SETTLE_SECONDS:
                    return
            await self._clock.sleep(LOOK_SECONDS)

    def _blocking(self, *, stands_still: bool) -> OpenQuestion | None:
        """The open question before which the answer to our message cannot come."""
        if self.sent is None:
            return None
        older: list[OpenQuestion] = []
        for card in self._open():
            subject = self.transcript.subject(self.transcript.messages[card.id])
            from_asker = card.asker == self._asker
            if subject == self._root() or (
                subject is None and from_asker and card.ordinal > self.sent.ordinal
            ):
                return card
            if from_asker:
                older.append(card)
        return older[0] if older and stands_still else None

    async def _consumed(self) -> bool:
        """Whether the one who is to answer has dealt with our message."""
        if self.sent is None or self.sent.offset is None:
            return False
        offset = self.sent.offset
        return await self._steady.run(lambda: self._wire.consumed(offset, self._asker))

    def _root(self) -> str | None:
        """What our message is about in the end: itself, or what the question that it answers was about."""
        return self.sent and (self.transcript.subject(self.sent) or self.sent.id)

    def _ours(self, message: Message) -> bool:
        return self.transcript.subject(message) in (None, self._root())

    def _streaming(self) -> bool:
        """Whether somebody still speaks or works about our message."""
        begun = self.sent.created_at if self.sent else ""
        return any(
            message.status is MessageStatus.STREAMING
            and self._ours(message)
            and (message.created_at >= begun or self.transcript.subject(message) is not None)
            for message in self.transcript.messages.values()
        )


async def exchange_lines(make: Callable[[], Exchange], show: Show, lines: list[str]) -> int:
    """Says every line in turn, each after the answer to the one before.

    A line that comes while the one before is blocked by a question answers it, if it can. Raises what
    Exchange raises, and CommandFailed (75) when the lines end before the question is answered.
    """
    failure: CommandFailed | None = None
    blocked: OpenQuestion | None = None
    for text in lines:
        show(Line(LineKind.YOU, text, "you"))
        exchange = make()
        if blocked is not None and blocked.value_of(text) is not None:
            await exchange.answer(text, blocked.id)
        else:
            await exchange.say(text.removeprefix("/say "))
        blocked, failure = exchange.blocked, exchange.failure()
    if blocked is not None and failure is not None:
        raise failure
    return Exit.FAILED if failure else Exit.DONE
