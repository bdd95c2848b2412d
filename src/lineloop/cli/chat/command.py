"""`lineloop chat`: chooses server, conversation and the way: a terminal, one text, an answer, a pipe."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.console import Console

from lineloop.cli.chat.once import Exchange, exchange_lines
from lineloop.cli.chat.output import (
    OutputLost,
    checked_text,
    read_lines,
    tolerate_encodings,
    write_line,
    write_note,
)
from lineloop.cli.chat.painter import plain
from lineloop.cli.chat.session import ChatSession
from lineloop.cli.chat.transcript import Line
from lineloop.cli.chat.wire import ChatWire
from lineloop.cli.failures import CommandFailed, Exit, failure_of
from lineloop.cli.reach import person_transport
from lineloop.cli.running import CHAT, read_private, write_private
from lineloop.client.transport import Transport
from lineloop.kit.clock import SystemClock
from lineloop.kit.ids import Ids
from lineloop.kit.json import dumps
from lineloop.kit.records import record
from lineloop.protocol.actors import Actor
from lineloop.protocol.errors import LoopError
from lineloop.settings import Settings


@record
class ChatOptions:
    """What was asked for. `answer` and `dismiss` close an open question, of several the one of `question`.

    `ends_system`: whoever started the chat stops the system after it.
    """

    text: str | None = None
    conversation: str | None = None
    to: str = "operator/assistant"
    as_json: bool = False
    new: bool = False
    answer: str | None = None
    dismiss: bool = False
    question: str | None = None
    ends_system: bool = False

    @property
    def says_one_thing(self) -> bool:
        return self.text is not None or self.answer is not None or self.dismiss


@contextmanager
def _nothing_sent(options: ChatOptions) -> Generator[None]:
    """Without a server, whoever wanted to say one thing hears that it was not said."""
    try:
        yield
    except (CommandFailed, LoopError) as error:
        failure = failure_of(error) if isinstance(error, LoopError) else error
        if failure.code is not Exit.TEMPORARY or not options.says_one_thing:
            raise
        raise CommandFailed(
            f"what you said was not sent; {failure.message}", failure.code, hint=failure.hint
        ) from error


async def run_chat(settings: Settings, options: ChatOptions) -> int:
    """Raises LoopError, CommandFailed."""
    tolerate_encodings()
    _check(options)
    to = Actor.parse(options.to)
    with _nothing_sent(options):
        transport = person_transport(settings)
    clock = SystemClock()
    ids = Ids(clock)
    try:
        with _nothing_sent(options):
            wire = await _join(settings, options, transport, to)
        if options.says_one_thing:
            return await _once(Exchange(wire, clock, ids, _shower(options), write_note), options)
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            return await exchange_lines(
                lambda: Exchange(wire, clock, ids, _show, write_note), _show, read_lines()
            )
        console = Console(highlight=False)
        return await ChatSession(wire, clock, ids, console, ends_system=options.ends_system).run()
    except OutputLost as lost:
        if lost.silent:
            return Exit.FAILED
        raise
    finally:
        await transport.close()


def _check(options: ChatOptions) -> None:
    """Raises CommandFailed (2) for what cannot be meant, before anything is sent."""
    named = {
        "the text": options.text,
        "--answer": options.answer,
        "--to": options.to,
        "--conversation": options.conversation,
        "--question": options.question,
    }
    for what, value in named.items():
        checked_text(value or "", what)
    for what in ("the text", "--answer"):
        value = named[what]
        if value is not None and not value.strip():
            raise CommandFailed(f"{what} is empty; nothing was sent", Exit.USAGE)
    asked = [options.text is not None, options.answer is not None, options.dismiss]
    if sum(asked) > 1:
        raise CommandFailed("give one of TEXT, --answer and --dismiss", Exit.USAGE)
    if options.question and not (options.answer is not None or options.dismiss):
        raise CommandFailed("--question goes with --answer or --dismiss", Exit.USAGE)
    if options.new and (asked[1] or asked[2] or options.conversation):
        raise CommandFailed(
            "--new begins a conversation; it goes with no other and with no answer", Exit.USAGE
        )


async def _join(settings: Settings, options: ChatOptions, transport: Transport, to: Actor) -> ChatWire:
    notes = settings.data_dir / CHAT
    remembered = None if options.new else read_private(notes).get("conversation_id")
    wire = await ChatWire.join(transport, options.conversation, remembered, to)
    if wire.root_id != remembered and settings.data_dir.is_dir():
        write_private(notes, {"conversation_id": wire.root_id})
    return wire


async def _once(exchange: Exchange, options: ChatOptions) -> int:
    try:
        if options.text is not None:
            await exchange.say(options.text)
        else:
            await exchange.answer(options.answer, options.question)
    except asyncio.CancelledError:
        write_note(f"lineloop: left; {exchange.fate()}")
        raise
    finally:
        if options.as_json and exchange.sent is not None:
            write_line(dumps(exchange.document()))
    failure = exchange.failure()
    if failure is not None and exchange.blocked is not None:
        raise failure
    return Exit.FAILED if failure else Exit.DONE


def _shower(options: ChatOptions) -> Callable[[Line], None]:
    def quiet(_: Line) -> None:
        """The document at the end says it all."""

    return quiet if options.as_json else _show


def _show(line: Line) -> None:
    write_line(plain(line))
