"""The interactive chat: keys and stream events in, screen out.

Decides what typing means: while a card is open, words that can answer it do; `/say` speaks all the same;
other words are said to the agent. People may type while anything runs. A line is shown at once and sent
under one key until the server has it (outbox.py); what was not sent is told on leaving.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import signal
import sys
from collections import deque

from rich.console import Console

from lineloop.cli.chat.editor import Gesture, LineEditor
from lineloop.cli.chat.outbox import Outbox, Outgoing
from lineloop.cli.chat.painter import paint_all
from lineloop.cli.chat.screen import Screen, raw_keys
from lineloop.cli.chat.transcript import Line, LineKind, Transcript
from lineloop.cli.chat.waiting import Waiting
from lineloop.cli.chat.welcome import HELP, farewell, welcome
from lineloop.cli.chat.wire import ChatWire
from lineloop.cli.failures import Exit
from lineloop.kit.backoff import Backoff
from lineloop.kit.clock import Clock, with_timeout
from lineloop.kit.ids import Ids
from lineloop.kit.tasks import Tasks
from lineloop.protocol.errors import ConnectionLost, LoopError
from lineloop.protocol.messages import Message

HISTORY_LINES = 12
TICK_SECONDS = 0.25
FRAME_SECONDS = 0.04
LOOK_SECONDS = 5.0
LAST_TRY_SECONDS = 2.0
QUIT_WORDS = frozenset({"/quit", "/exit", "/q"})
SAY = "/say "
BEGAN_ANEW = "the server was put back to a backup; this is the conversation as it has it now"


class ChatSession:
    """`ends_system`: the system stops when this chat ends, which is said on leaving."""

    def __init__(
        self, wire: ChatWire, clock: Clock, ids: Ids, console: Console, *, ends_system: bool = False
    ) -> None:
        self._wire = wire
        self._clock = clock
        self._ids = ids
        self._screen = Screen(console)
        self._console = console
        self._ends_system = ends_system
        self._editor = LineEditor()
        self._transcript = Transcript(wire.root_id)
        self._waiting = Waiting(wire.to)
        self._stay: deque[Line] = deque()
        self._changed = asyncio.Event()
        self._over = asyncio.Event()
        self._look = asyncio.Event()
        self._outbox = Outbox(wire, clock, sent=self._sent, refused=self._refused, changed=self._changed.set)
        self._trouble = ""
        self._typed_bytes = codecs.getincrementaldecoder("utf-8")("replace")
        self._backoff = Backoff(first_seconds=0.3, factor=2.0, limit_seconds=2.0, jitter=0.2)

    async def run(self) -> int:
        """Until the person leaves; the exit code. Raises LoopError when the conversation cannot be read."""
        after = await self._load()
        with raw_keys():
            loop = asyncio.get_running_loop()
            loop.add_reader(sys.stdin.fileno(), self._read_keys)
            loop.add_signal_handler(signal.SIGWINCH, self._changed.set)
            try:
                async with Tasks("chat") as tasks:
                    tasks.spawn(self._follow(after), name="follow")
                    tasks.spawn(self._outbox.run(), name="send")
                    tasks.spawn(self._tick(), name="tick")
                    tasks.spawn(self._look_who_is_online(), name="look")
                    drawing = tasks.spawn(self._draw_when_changed(), name="draw")
                    self._changed.set()
                    over = tasks.spawn(self._over.wait(), name="over")
                    await asyncio.wait({over, drawing}, return_when=asyncio.FIRST_COMPLETED)
                    await self._last_try()
            finally:
                loop.remove_signal_handler(signal.SIGWINCH)
                loop.remove_reader(sys.stdin.fileno())
                self._leave()
        return Exit.TEMPORARY if self._outbox.unsent() else Exit.DONE

    async def _load(self) -> str:
        self._transcript.speakers.learn(await self._wire.online())
        messages, after = await self._wire.history()
        lines: list[Line] = []
        for message in messages:
            lines += self._transcript.take_message(message)
        self._stay.extend(welcome(self._transcript.speakers, self._wire.to, begun=bool(lines)))
        if lines:
            self._stay.append(Line(LineKind.NOTE, "earlier in this conversation"))
            self._stay.extend(lines[-HISTORY_LINES:])
        return after

    def _read_keys(self) -> None:
        try:
            data = os.read(sys.stdin.fileno(), 65536)
        except OSError:
            data = b""  # the terminal is gone
        if not data:
            self._over.set()
        text = self._typed_bytes.decode(data)
        for action in self._editor.feed(text):
            self._act(action.gesture, action.text)
        self._changed.set()

    def _act(self, gesture: Gesture, text: str) -> None:
        match gesture:
            case Gesture.INTERRUPT if self._editor.text:
                self._editor.clear()
            case Gesture.INTERRUPT | Gesture.END:
                self._over.set()
            case Gesture.DISMISS:
                question = self._transcript.question()
                if question:
                    self._outbox.put(Outgoing(None, question_id=question.id))
            case Gesture.SUBMIT if text:
                self._submit(text)
            case _:
                pass

    def _submit(self, text: str) -> None:
        if text in QUIT_WORDS:
            self._over.set()
            return
        if text == "/help":
            self._stay.append(Line(LineKind.NOTE, HELP))
            return
        question = self._transcript.question()
        if text.startswith(SAY):
            text = text.removeprefix(SAY).strip()
        elif question:
            value = question.value_of(text)
            if value is not None:
                self._outbox.put(Outgoing(value, question_id=question.id))
                return
        if not text:
            return
        key = self._ids.make("chat")
        self._stay.append(self._transcript.echo(key, text))
        self._outbox.put(Outgoing(text, key))

    def _sent(self, message: Message) -> None:
        self._waiting.sent(message, self._clock.now_ms())
        self._look.set()

    def _refused(self, thing: Outgoing, error: LoopError) -> None:
        what = thing.text if thing.text is not None else "the dismissal"
        self._stay.append(Line(LineKind.TROUBLE, f"not sent: {error.message} ({error.code}): {what}"))

    async def _last_try(self) -> None:
        """What was typed just before leaving still gets its chance."""
        with contextlib.suppress(TimeoutError):  # told by the farewell
            await with_timeout(self._clock, LAST_TRY_SECONDS, self._outbox.wait_empty())

    async def _look_who_is_online(self) -> None:
        """After something was sent, and now and then while it waits, so that waiting is never silent."""
        while True:
            await self._look.wait()
            self._look.clear()
            while self._waiting.open(self._transcript):
                with contextlib.suppress(LoopError):  # the stream tells when the connection is lost
                    self._transcript.speakers.learn(await self._wire.online())
                self._changed.set()
                await self._clock.sleep(LOOK_SECONDS)

    async def _follow(self, after: str) -> None:
        attempt = 0
        while True:
            try:
                async for event in self._wire.follow(after):
                    attempt, self._trouble = 0, ""
                    after = event.id or after
                    if event.anew:
                        self._begin_anew()
                    elif event.message:
                        self._stay.extend(self._transcript.take_message(event.message))
                    elif event.patch:
                        self._stay.extend(self._transcript.take_patch(event.message_id, event.patch))
                    self._changed.set()
            except ConnectionLost:
                self._trouble = "connection lost, reconnecting; what you type is kept and sent then"
            except LoopError as error:
                self._trouble = f"the stream was refused: {error.message}"
            self._changed.set()
            await self._clock.sleep(self._backoff.delay(attempt))
            attempt += 1

    def _begin_anew(self) -> None:
        """Nothing that was shown may be so any more; what was not sent yet still goes out."""
        self._transcript = Transcript(self._wire.root_id, speakers=self._transcript.speakers)
        self._waiting = Waiting(self._wire.to)
        self._stay.append(Line(LineKind.NOTE, BEGAN_ANEW))

    async def _tick(self) -> None:
        while True:
            await self._clock.sleep(TICK_SECONDS)
            if self._transcript.running() or self._waiting.open(self._transcript):
                self._changed.set()

    async def _draw_when_changed(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                self._draw()
            except OSError:
                return  # nobody can read any more: leave
            await self._clock.sleep(FRAME_SECONDS)

    def _draw(self) -> None:
        stay = [self._stay.popleft() for _ in range(len(self._stay))]
        self._screen.draw(paint_all(stay), paint_all(self._live()), self._editor, self._prompt())

    def _live(self) -> list[Line]:
        """What is going on, and at most one line each of waiting and of trouble."""
        now_ms = self._clock.now_ms()
        live = self._transcript.live(now_ms)
        status = self._waiting.line(self._transcript, now_ms)
        trouble = self._trouble or ("not sent yet, trying again" if self._outbox.delayed else "")
        if status and not trouble:
            live.append(status)
        if trouble:
            live.append(Line(LineKind.TROUBLE, trouble))
        return live

    def _prompt(self) -> str:
        return "answer › " if self._transcript.question() else "› "

    def _leave(self) -> None:
        try:
            self._draw()
            self._screen.leave()
            for renderable in paint_all(
                farewell(
                    self._transcript,
                    self._clock.now_ms(),
                    unsent=self._outbox.unsent(),
                    ends_system=self._ends_system,
                )
            ):
                self._console.print(renderable)
        except OSError:
            pass  # the terminal is gone
