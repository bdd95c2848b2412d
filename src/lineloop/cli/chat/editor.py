"""One line being typed: keys in, text and caret out. Pure; of terminals it knows their byte sequences only.

Decides what each key does. Leaves drawing to screen.py and meaning (send, answer, dismiss) to session.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from rich.cells import cell_len

from lineloop.cli.chat.harmless import clean

PASTE_BEGIN, PASTE_END = "\x1b[200~", "\x1b[201~"
SEQUENCE = re.compile(r"\x1b(?:\[[0-9;]*[A-Za-z~]|O[A-Za-z]|[^\[O\x1b])")
UNFINISHED = re.compile(r"\x1b(?:\[[0-9;]*)?$|\x1bO$")
SHORTCUTS = frozenset("\x01\x05\x0b\x15\x17")
KEEP_HISTORY = 200


class Gesture(Enum):
    """What the person wants beyond editing."""

    SUBMIT = auto()
    DISMISS = auto()
    INTERRUPT = auto()
    END = auto()


class Action(NamedTuple):
    gesture: Gesture
    text: str = ""


class Layout(NamedTuple):
    """The line wrapped to a width: rows of text, and where the caret is (row, column in cells)."""

    rows: list[str]
    row: int
    column: int


@dataclass
class LineEditor:
    text: str = ""
    caret: int = 0
    history: list[str] = field(default_factory=list[str])
    _place: int | None = None
    _draft: str = ""
    _rest: str = ""
    _pasting: bool = False

    def feed(self, data: str) -> list[Action]:
        """Takes what the terminal sent, in pieces of any size; answers gestures in order."""
        data, self._rest = self._rest + data, ""
        actions: list[Action] = []
        while data:
            if self._pasting:
                data = self._paste(data)
                continue
            if data[0] != "\x1b":
                actions += self._key(data[0])
                data = data[1:]
                continue
            if data.startswith(PASTE_BEGIN):
                self._pasting, data = True, data[len(PASTE_BEGIN) :]
                continue
            found = SEQUENCE.match(data)
            if found:
                self._sequence(found.group())
                data = data[found.end() :]
            elif data == "\x1b":
                actions.append(Action(Gesture.DISMISS))
                data = ""
            elif UNFINISHED.match(data):
                self._rest, data = data, ""
            else:
                data = data[1:]
        return actions

    def clear(self) -> None:
        self.text, self.caret, self._place = "", 0, None

    def layout(self, width: int, prompt: str) -> Layout:
        """The prompt and the line in rows of at most `width` cells; wide characters are never cut."""
        rows, row, column = [prompt], 0, cell_len(prompt)
        caret = (row, column)
        for index, character in enumerate(self.text):
            shown = "⏎" if character == "\n" else character
            size = cell_len(shown)
            if column + size > width:
                rows.append("")
                row, column = row + 1, 0
            if index == self.caret:
                caret = (row, column)
            rows[row] += shown
            column += size
        if self.caret >= len(self.text):
            if column >= width:
                rows.append("")
                row, column = row + 1, 0
            caret = (row, column)
        return Layout(rows, *caret)

    def _paste(self, data: str) -> str:
        end = data.find(PASTE_END)
        self._insert(_printable(data if end < 0 else data[:end]))
        if end < 0:
            return ""
        self._pasting = False
        return data[end + len(PASTE_END) :]

    def _insert(self, text: str) -> None:
        self.text = self.text[: self.caret] + text + self.text[self.caret :]
        self.caret += len(text)

    def _key(self, key: str) -> list[Action]:
        if key in "\r\n":
            text = self.text.strip()
            if text:
                self.history = [*self.history[-KEEP_HISTORY:], text]
            self.clear()
            return [Action(Gesture.SUBMIT, text)]
        if key == "\x03":
            return [Action(Gesture.INTERRUPT)]
        if key == "\x04":
            if not self.text:
                return [Action(Gesture.END)]
            self._delete(self.caret, self.caret + 1)
        elif key in "\x08\x7f":
            self._delete(self.caret - 1, self.caret)
        elif key in SHORTCUTS:
            self._shortcut(key)
        else:
            self._insert(_printable(key))
        return []

    def _shortcut(self, key: str) -> None:
        match key:
            case "\x01":
                self.caret = 0
            case "\x05":
                self.caret = len(self.text)
            case "\x15":
                self._delete(0, self.caret)
            case "\x0b":
                self._delete(self.caret, len(self.text))
            case _:
                self._delete(self._word_left(), self.caret)

    def _sequence(self, sequence: str) -> None:
        match sequence:
            case "\x1b[D" | "\x1bOD":
                self.caret = max(self.caret - 1, 0)
            case "\x1b[C" | "\x1bOC":
                self.caret = min(self.caret + 1, len(self.text))
            case "\x1b[A" | "\x1bOA":
                self._recall(-1)
            case "\x1b[B" | "\x1bOB":
                self._recall(1)
            case "\x1b[H" | "\x1bOH" | "\x1b[1~":
                self.caret = 0
            case "\x1b[F" | "\x1bOF" | "\x1b[4~":
                self.caret = len(self.text)
            case "\x1b[3~":
                self._delete(self.caret, self.caret + 1)
            case "\x1b\r":
                self._insert("\n")
            case "\x1b\x7f":
                self._delete(self._word_left(), self.caret)
            case _:
                pass

    def _delete(self, start: int, end: int) -> None:
        start, end = max(start, 0), min(end, len(self.text))
        if start < end:
            self.text = self.text[:start] + self.text[end:]
            self.caret = start

    def _word_left(self) -> int:
        head = self.text[: self.caret].rstrip()
        return head.rfind(" ") + 1

    def _recall(self, step: int) -> None:
        if self._place is None:
            if step > 0 or not self.history:
                return
            self._place, self._draft = len(self.history), self.text
        self._place = max(self._place + step, 0)
        if self._place >= len(self.history):
            self._place, self.text = None, self._draft
        else:
            self.text = self.history[self._place]
        self.caret = len(self.text)


def _printable(text: str) -> str:
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\t", " ")
    return clean(text)
