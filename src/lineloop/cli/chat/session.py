"""The interactive chat: keys and stream events in, screen out.

Decides what typing means: a number or label answers the open card, other words are said to the agent.
People may type while anything runs. Sending is optimistic: a line is shown at once, sent under one key
until the server has it.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import sys
from collections import deque

from rich.console import Console

from lineloop.cli.chat.editor import Gesture, LineEditor
from lineloop.cli.chat.painter import paint_all
from lineloop.cli.chat.screen import Screen, raw_keys
from lineloop.cli.chat.transcript import Line, LineKind, Transcript
from lineloop.cli.chat.wire import ChatWire
from lineloop.kit.backoff import Backoff
from lineloop.kit.clock import Clock
from lineloop.kit.ids import Ids
from lineloop.kit.tasks import Tasks
from lineloop.protocol.errors import ConnectionLost, LoopError

HISTORY_LINES = 12
TICK_SECONDS = 0.25
FRAME_SECONDS = 0.04
SEND_TRIES = 60
QUIT_WORDS = frozenset({"/quit", "/exit", "/q"})


class ChatSession:
    def __init__(self, wire: ChatWire, clock: Clock, ids: Ids, console: Console) -> None:
        self._wire = wire
        self._clock = clock
        self._ids = ids
        self._screen = Screen(console)
        self._console = console
        self._editor = LineEditor()
        self._transcript = Transcript(wire.root_id)
        self._stay: deque[Line] = deque()
        self._changed = asyncio.Event()
        self._over = asyncio.Event()
        self._outbox: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        self._trouble = ""
        self._typed_bytes = codecs.getincrementaldecoder("utf-8")("replace")
        self._backoff = Backoff(first_seconds=0.3, factor=2.0, limit_seconds=2.0, jitter=0.2)

    async def run(self) -> None:
        """Until the person leaves. Raises LoopError when the conversation cannot be read at all."""
        after = await self._load()
        with raw_keys():
            loop = asyncio.get_running_loop()
            loop.add_reader(sys.stdin.fileno(), self._read_keys)
            try:
                async with Tasks("chat") as tasks:
                    tasks.spawn(self._follow(after), name="follow")
                    tasks.spawn(self._send(), name="send")
                    tasks.spawn(self._tick(), name="tick")
                    drawing = tasks.spawn(self._draw_when_changed(), name="draw")
                    self._changed.set()
                    over = tasks.spawn(self._over.wait(), name="over")
                    await asyncio.wait({over, drawing}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                loop.remove_reader(sys.stdin.fileno())
                self._draw()
                self._screen.leave()

    async def _load(self) -> str:
        messages, after = await self._wire.history()
        lines: list[Line] = []
        for message in messages:
            lines += self._transcript.take_message(message)
        if lines:
            self._stay.append(Line(LineKind.NOTE, "earlier in this conversation"))
            self._stay.extend(lines[-HISTORY_LINES:])
        else:
            self._stay.append(Line(LineKind.NOTE, f"you talk to {self._wire.to}; /quit leaves"))
        return after

    def _read_keys(self) -> None:
        data = os.read(sys.stdin.fileno(), 65536)
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
                    self._outbox.put_nowait(("dismiss", question.id))
            case Gesture.SUBMIT if text:
                self._submit(text)
            case _:
                pass

    def _submit(self, text: str) -> None:
        if text in QUIT_WORDS:
            self._over.set()
            return
        question = self._transcript.question()
        if text.startswith("/say "):
            text = text.removeprefix("/say ").strip()
        elif question:
            value = question.value_of(text)
            if value is not None:
                self._outbox.put_nowait((f"answer:{question.id}", value))
                return
        key = self._ids.make("chat")
        self._stay.append(self._transcript.echo(key, text))
        self._outbox.put_nowait((key, text))

    async def _send(self) -> None:
        """One thing at a time and in order; a lost connection delays, it never drops or doubles."""
        while True:
            what, text = await self._outbox.get()
            for attempt in range(SEND_TRIES):
                try:
                    if what == "dismiss":
                        await self._wire.answer(text, None)
                    elif what.startswith("answer:"):
                        await self._wire.answer(what.removeprefix("answer:"), text)
                    else:
                        await self._wire.say(what, text)
                    self._trouble = ""
                    break
                except LoopError as error:
                    if not error.retryable:
                        self._stay.append(Line(LineKind.TROUBLE, f"not sent: {error.message} ({error.code})"))
                        break
                    self._trouble = "not sent yet, trying again"
                    self._changed.set()
                    await self._clock.sleep(self._backoff.delay(attempt))
            else:
                self._stay.append(Line(LineKind.TROUBLE, f"not sent: no connection: {text}"))
            self._changed.set()

    async def _follow(self, after: str) -> None:
        attempt = 0
        while True:
            try:
                async for event in self._wire.follow(after):
                    attempt, self._trouble = 0, ""
                    after = event.id or after
                    if event.message:
                        self._stay.extend(self._transcript.take_message(event.message))
                    elif event.patch:
                        self._stay.extend(self._transcript.take_patch(event.message_id, event.patch))
                    self._changed.set()
            except ConnectionLost:
                self._trouble = "connection lost, reconnecting"
            except LoopError as error:
                self._trouble = f"the stream was refused: {error.message}"
            self._changed.set()
            await self._clock.sleep(self._backoff.delay(attempt))
            attempt += 1

    async def _tick(self) -> None:
        while True:
            await self._clock.sleep(TICK_SECONDS)
            if any(call.running for call in self._transcript.calls.values()):
                self._changed.set()

    async def _draw_when_changed(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            self._draw()
            await self._clock.sleep(FRAME_SECONDS)

    def _draw(self) -> None:
        stay = [self._stay.popleft() for _ in range(len(self._stay))]
        live = self._transcript.live(self._clock.now_ms())
        if self._trouble:
            live.append(Line(LineKind.TROUBLE, self._trouble))
        prompt = "answer › " if self._transcript.question() else "› "
        self._screen.draw(paint_all(stay), paint_all(live), self._editor, prompt)
