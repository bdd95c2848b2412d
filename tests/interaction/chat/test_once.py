"""One text, one answer: what `lineloop chat TEXT` waits for, and what a person's open questions change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.interaction.assistant.assistant_world import ASSISTANT, AssistantWorld, assistant_world

from lineloop.cli.chat.once import Exchange
from lineloop.cli.chat.transcript import Line, LineKind
from lineloop.cli.chat.wire import ChatWire
from lineloop.cli.failures import CommandFailed, Exit
from lineloop.client.transport import Response, ServerSentEvent, Transport
from lineloop.kit.ids import Ids
from lineloop.operators.operator import Operator
from lineloop.operators.turn import Turn
from lineloop.protocol.actors import Actor
from lineloop.protocol.errors import ConnectionLost
from lineloop.protocol.messages import Purpose
from lineloop.testing.operator_world import transport_to


class Breaking:
    """A transport that loses calls: `lose` tells of a call, before it is made, how it fails."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.close, self.lines, self.open_link = inner.close, inner.lines, inner.open_link
        self.upload, self.parts = inner.upload, inner.parts
        self.lose: Callable[[str, str], str] = lambda method, path: ""

    async def request(self, method: str, path: str, **more: Any) -> Response:
        how = self.lose(method, path)
        if how == "unreached":
            raise ConnectionLost("nobody listens", detail={"reached": False})
        answer = await self._inner.request(method, path, **more)
        if how == "unanswered":
            raise ConnectionLost("the answer is lost")
        return answer

    def events(self, path: str, **more: Any) -> AbstractAsyncContextManager[AsyncIterator[ServerSentEvent]]:
        if self.lose("GET", path):
            raise ConnectionLost("nobody listens", detail={"reached": False})
        return self._inner.events(path, **more)


@dataclass
class Terminal:
    """A person with the one-shot chat; `shown` is what it printed."""

    world: AssistantWorld
    to: Actor = ASSISTANT
    shown: list[Line] = field(default_factory=list[Line])
    notes: list[str] = field(default_factory=list[str])
    lose: Callable[[str, str], str] | None = None
    last: Exchange | None = None

    async def exchange(self) -> Exchange:
        server = self.world.world.server
        transport = Breaking(transport_to(server, server.admin_token))
        transport.lose = self.lose or transport.lose
        wire = ChatWire(transport, self.world.conversation_id, self.to)
        self.last = Exchange(wire, server.clock, Ids(server.clock), self.shown.append, self.notes.append)
        return self.last

    async def say(self, text: str, seconds: float = 60.0) -> Exchange:
        made = await self.exchange()
        await self._finish(made.say(text), seconds)
        return made

    async def answer(self, value: str | None, question_id: str | None = None) -> Exchange:
        made = await self.exchange()
        await self._finish(made.answer(value, question_id), 60.0)
        return made

    async def _finish(self, work: Coroutine[Any, Any, None], seconds: float) -> None:
        """Lets virtual time pass until the work is done. Raises what it raises."""
        task = asyncio.ensure_future(work)
        end = self.world.world.clock.monotonic() + seconds
        while not task.done() and self.world.world.clock.monotonic() < end:
            await self.world.world.settled()
            await self.world.world.clock.advance(0.1)
        if not task.done():
            task.cancel()
            raise AssertionError(f"not over after {seconds} s; shown: {self.shown}")
        await task

    def texts(self, kind: LineKind) -> list[str]:
        return [line.text for line in self.shown if line.kind is kind]


@pytest.fixture
async def terminal(tmp_path: Path) -> AsyncIterator[Terminal]:
    async with assistant_world(tmp_path) as world:
        yield Terminal(world)


async def inputs(terminal: Terminal) -> list[str]:
    return [message.text for message in await terminal.world.history() if message.purpose is Purpose.INPUT]


async def test_a_text_is_answered_although_an_older_question_is_open(terminal: Terminal) -> None:
    await terminal.world.say("/ask tea or coffee?|tea|coffee")
    await terminal.world.world.clock.advance(2)
    said = await terminal.say("hello")
    assert said.blocked is None
    assert [answer.reply_to_id for answer in said.answers()] == [said.sent.id if said.sent else ""]
    assert any("Hello!" in text for text in terminal.texts(LineKind.OTHER))
    assert await inputs(terminal) == ["/ask tea or coffee?|tea|coffee", "hello"]


async def test_a_text_whose_own_answer_waits_for_the_person_shows_the_card_and_says_so(
    terminal: Terminal,
) -> None:
    said = await terminal.say("/ask tea or coffee?|tea|coffee")
    assert said.blocked is not None
    assert terminal.texts(LineKind.CARD) == ["tea or coffee?\n  1  tea\n  2  coffee"]
    assert said.document()["question"]["choices"][0] == {"value": "tea", "label": "tea"}
    failure = said.failure()
    assert failure is not None
    assert failure.code is Exit.TEMPORARY
    assert "was sent" in failure.message
    assert "--answer" in failure.hint
    assert await inputs(terminal) == ["/ask tea or coffee?|tea|coffee"], "sent once"


@pytest.mark.parametrize("typed", ["2", "coffee", "COFFEE"])
async def test_a_question_is_answered_in_one_call_and_what_follows_is_printed(
    terminal: Terminal, typed: str
) -> None:
    await terminal.say("/ask tea or coffee?|tea|coffee")
    answered = await terminal.answer(typed)
    assert answered.failure() is None
    assert any("You answered: coffee." in text for text in terminal.texts(LineKind.OTHER))


async def test_a_question_is_dismissed_in_one_call(terminal: Terminal) -> None:
    await terminal.say("/ask tea or coffee?|tea|coffee")
    await terminal.answer(None)
    assert any("You dismissed the question." in text for text in terminal.texts(LineKind.OTHER))


async def test_an_answer_that_is_not_offered_is_a_usage_error_that_names_the_choices(
    terminal: Terminal,
) -> None:
    await terminal.say("/ask tea or coffee?|tea|coffee")
    with pytest.raises(CommandFailed) as caught:
        await terminal.answer("milk")
    assert caught.value.code is Exit.USAGE
    assert "tea" in caught.value.hint
    assert "coffee" in caught.value.hint


async def test_without_an_open_question_there_is_nothing_to_answer(terminal: Terminal) -> None:
    with pytest.raises(CommandFailed) as caught:
        await terminal.answer("tea")
    assert caught.value.code is Exit.NOT_FOUND


async def test_of_several_open_questions_one_is_named(terminal: Terminal) -> None:
    first = await terminal.say("/ask tea?|yes|no")
    second = await terminal.say("/ask milk?|yes|no")
    assert first.blocked is not None
    assert second.blocked is not None
    assert second.blocked.text == "milk?"
    with pytest.raises(CommandFailed) as caught:
        await terminal.answer("yes")
    assert caught.value.code is Exit.USAGE
    assert second.blocked.id in caught.value.hint
    answered = await terminal.answer("yes", second.blocked.id)
    assert answered.failure() is None
    assert [question.text for question in answered.transcript.questions()] == ["tea?"]


async def test_the_next_question_of_the_same_talk_is_shown_in_turn(tmp_path: Path) -> None:
    async with assistant_world(tmp_path) as world:
        await world.world.run(asks_twice())
        terminal = Terminal(world, Actor("operator", "asker"))
        await terminal.say("an order, please")
        answered = await terminal.answer("tea")
        assert answered.blocked is not None
        assert answered.blocked.text == "sure?"
        done = await terminal.answer("accepted")
        assert done.failure() is None
        assert terminal.texts(LineKind.OTHER) == ["tea it is"]


async def test_a_text_to_an_operator_that_stands_still_for_an_older_question_says_so(tmp_path: Path) -> None:
    async with assistant_world(tmp_path) as world:
        await world.world.run(asks_twice())
        terminal = Terminal(world, Actor("operator", "asker"))
        await terminal.say("an order, please")
        later = await terminal.say("hello?")
        assert later.blocked is not None
        assert later.blocked.text == "which?"


async def test_a_long_run_started_elsewhere_delays_no_answer(terminal: Terminal) -> None:
    await terminal.world.say("/slow 300")
    await terminal.world.world.clock.advance(2)
    said = await terminal.say("hello", seconds=20)
    assert len(said.answers()) == 1


def asks_twice() -> Operator:
    """Stands still at its first input until the person has answered two questions about it."""
    operator = Operator("asker", display_name="Asker")

    @operator.reconcile
    async def reconcile(turn: Turn) -> None:
        inbox = await turn.poll()
        for message in inbox:
            if message.purpose is not Purpose.INPUT:
                continue
            value = ""
            for text, choices in (("which?", ["tea"]), ("sure?", ["accepted"])):
                handle = await turn.ask(
                    text,
                    effect_key=f"{message.id}/{text}",
                    to=message.actor,
                    timeout_seconds=3600,
                    choices=choices,
                    reply_to=message.id,
                )
                question = await handle.get()
                if question.value is None:
                    return
                value = value or question.value
            await turn.speak(f"{value} it is", key=f"{message.id}/answer", reply_to=message.id)
        await turn.commit(inbox.position)

    return operator


async def test_a_recipient_that_is_not_online_is_named_at_once_and_the_text_waits(
    terminal: Terminal,
) -> None:
    terminal.to = Actor("operator", "nobody")
    with pytest.raises(CommandFailed) as caught:
        await terminal.say("hi")
    assert caught.value.code is Exit.TEMPORARY
    assert terminal.notes == ["operator/nobody is not online; what you said is stored and waits for it"]
    assert "online" in caught.value.message
    assert caught.value.message not in terminal.notes
    assert await inputs(terminal) == ["hi"]


async def test_an_operator_that_says_nothing_is_spoken_of_after_some_seconds(tmp_path: Path) -> None:
    async with assistant_world(tmp_path) as world:
        await world.world.run(always_fails())
        terminal = Terminal(world, Actor("operator", "broken"))
        with pytest.raises(AssertionError, match="not over"):
            await terminal.say("hi", seconds=12)
        assert len(terminal.notes) == 1
        assert "no answer yet" in terminal.notes[0]


def always_fails() -> Operator:
    operator = Operator("broken", display_name="Broken")

    @operator.reconcile
    async def reconcile(turn: Turn) -> None:
        raise RuntimeError("always")

    return operator


def lost_for(
    terminal: Terminal, seconds: float, how: str, concerns: Callable[[str, str], bool] = lambda *_: True
) -> Callable[[str, str], str]:
    """Calls are lost from the first that is concerned on, for that long."""
    clock = terminal.world.world.clock
    began: float | None = None

    def lose(method: str, path: str) -> str:
        nonlocal began
        if began is None and concerns(method, path):
            began = clock.monotonic()
        return how if began is not None and clock.monotonic() < began + seconds else ""

    return lose


def speaks(method: str, path: str) -> bool:
    return method == "POST" and path.endswith("/messages")


def looks(_: str, path: str) -> bool:
    return path.endswith("/resource")


@pytest.mark.parametrize("how", ["unreached", "unanswered"])
@pytest.mark.parametrize("concerns", [speaks, looks])
async def test_a_server_that_comes_back_is_waited_for_and_its_answer_printed(
    terminal: Terminal, how: str, concerns: Callable[[str, str], bool]
) -> None:
    terminal.lose = lost_for(terminal, 20, how, concerns)
    said = await terminal.say("hello", seconds=60)
    assert said.failure() is None
    assert any("Hello!" in text for text in terminal.texts(LineKind.OTHER))
    assert await inputs(terminal) == ["hello"], "sent once"
    assert terminal.notes[:1] == ["the connection is lost; trying again for 30 s"]


@pytest.mark.parametrize(
    ("concerns", "how", "fate", "stored"),
    [
        (lambda *_: True, "unreached", "was not sent", []),
        (speaks, "unreached", "was not sent", []),
        (speaks, "unanswered", "is not known", ["hello"]),
        (looks, "unreached", "was sent", ["hello"]),
    ],
)
async def test_a_server_that_stays_away_leaves_no_doubt_about_the_text(
    terminal: Terminal, concerns: Callable[[str, str], bool], how: str, fate: str, stored: list[str]
) -> None:
    terminal.lose = lost_for(terminal, 1000, how, concerns)
    with pytest.raises(CommandFailed) as caught:
        await terminal.say("hello", seconds=60)
    assert caught.value.code is Exit.TEMPORARY
    assert fate in caught.value.message
    again = f"lineloop chat --conversation {terminal.world.conversation_id}"
    assert (again in caught.value.hint) == bool(stored)
    assert await inputs(terminal) == stored
    assert terminal.last is not None
    assert fate in terminal.last.fate()
