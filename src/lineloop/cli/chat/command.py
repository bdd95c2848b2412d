"""`lineloop chat`: chooses server, conversation and the way of talking (terminal, one text, a pipe)."""

from __future__ import annotations

import sys

from rich.console import Console

from lineloop.cli.chat.once import Exchange, exchange_lines, read_stdin, show_plain
from lineloop.cli.chat.session import ChatSession
from lineloop.cli.chat.transcript import Line
from lineloop.cli.chat.wire import ChatWire
from lineloop.cli.failures import Exit
from lineloop.cli.reach import person_transport
from lineloop.cli.running import CHAT, read_private, write_private
from lineloop.client.transport import Transport
from lineloop.kit.clock import SystemClock
from lineloop.kit.ids import Ids
from lineloop.kit.json import dumps
from lineloop.kit.records import record
from lineloop.protocol.actors import Actor
from lineloop.settings import Settings


@record
class ChatOptions:
    text: str | None
    conversation: str | None
    to: str
    as_json: bool
    new: bool


async def run_chat(settings: Settings, options: ChatOptions) -> int:
    """Raises LoopError, CommandFailed."""
    to = Actor.parse(options.to)
    transport = person_transport(settings)
    clock = SystemClock()
    ids = Ids(clock)
    try:
        wire = await _join(settings, options, transport, to)
        if options.text is not None:
            return await _once(wire, clock, ids, options)
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            return await exchange_lines(wire, clock, ids, read_stdin())
        await ChatSession(wire, clock, ids, Console(highlight=False)).run()
        return Exit.DONE
    finally:
        await transport.close()


async def _join(settings: Settings, options: ChatOptions, transport: Transport, to: Actor) -> ChatWire:
    notes = settings.data_dir / CHAT
    remembered = None if options.new else read_private(notes).get("conversation_id")
    wire = await ChatWire.join(transport, options.conversation, remembered, to)
    if wire.root_id != remembered and settings.data_dir.is_dir():
        write_private(notes, {"conversation_id": wire.root_id})
    return wire


async def _once(wire: ChatWire, clock: SystemClock, ids: Ids, options: ChatOptions) -> int:
    def quiet(_: Line) -> None:
        """The document at the end says it all."""

    exchange = Exchange(wire, clock, ids, quiet if options.as_json else show_plain)
    try:
        await exchange.run(options.text or "")
    finally:
        if options.as_json:
            print(dumps(exchange.document()))
    return Exit.FAILED if _failed(exchange) else Exit.DONE


def _failed(exchange: Exchange) -> bool:
    answers = exchange.answers()
    return bool(answers) and answers[-1].status.value == "failed"
