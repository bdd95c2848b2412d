"""The terminal as two regions: lines that stay and scroll away, and a live region with the input line below.

Decides cursor movement only. Everything is written in one piece inside a synchronised update, so nothing
flickers, and the real cursor stands where the next character goes (input methods open their window there).
"""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from collections.abc import Generator, Sequence

from rich.console import Console, RenderableType

from lineloop.cli.chat.editor import Layout, LineEditor

REPRINT = 200
BEGIN_UPDATE, END_UPDATE = "\x1b[?2026h\x1b[?25l", "\x1b[?25h\x1b[?2026l"
PASTE_ON, PASTE_OFF = "\x1b[?2004h", "\x1b[?2004l"


class Screen:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._rows_above_caret = 0
        self._size: tuple[int, int] | None = None
        self._printed: deque[RenderableType] = deque(maxlen=REPRINT)

    def draw(
        self,
        stay: Sequence[RenderableType],
        live: Sequence[RenderableType],
        editor: LineEditor,
        prompt: str,
    ) -> None:
        """Prints `stay` for good and draws the live region and the input line anew below it.

        After a change of the terminal's size nobody knows how it has wrapped what stood there: the screen is
        cleared, and what was printed last is printed again in the new width.
        """
        width, height = self._console.size
        typed = _window(editor.layout(max(width - 1, 8), prompt), max(height - 1, 1))
        room = max(height - len(typed.rows) - 1, 0)
        lines = self._lines(live)[-room:] if room else []
        out = [BEGIN_UPDATE, "\r"]
        if self._size not in (None, (width, height)):
            out.append("\x1b[H\x1b[2J")
            again = self._lines([*self._printed])
            out += [f"{line}\r\n" for line in again[max(len(again) - room + len(lines), 0) :]]
        elif self._rows_above_caret:
            out.append(f"\x1b[{self._rows_above_caret}A")
        self._size = (width, height)
        self._printed.extend(stay)
        out.append("\x1b[J")
        out += [f"{line}\r\n" for line in self._lines(stay)]
        out += [f"{line}\r\n" for line in lines]
        out.append("\r\n".join(typed.rows))
        below = len(typed.rows) - 1 - typed.row
        if below:
            out.append(f"\x1b[{below}A")
        out.append("\r" + (f"\x1b[{typed.column}C" if typed.column else ""))
        out.append(END_UPDATE)
        self._rows_above_caret = len(lines) + typed.row
        self._console.file.write("".join(out))
        self._console.file.flush()

    def leave(self) -> None:
        """Removes the live region and the input line; what was printed stays."""
        up = f"\x1b[{self._rows_above_caret}A" if self._rows_above_caret else ""
        self._console.file.write(f"\r{up}\x1b[J")
        self._console.file.flush()
        self._rows_above_caret = 0

    def _lines(self, renderables: Sequence[RenderableType]) -> list[str]:
        if not renderables:
            return []
        with self._console.capture() as captured:
            for renderable in renderables:
                self._console.print(renderable, soft_wrap=False)
        return captured.get().rstrip("\n").split("\n")


def _window(layout: Layout, height: int) -> Layout:
    """The rows around the caret that fit, so that a long paste never scrolls what is drawn away."""
    if len(layout.rows) <= height:
        return layout
    first = min(max(layout.row - height + 1, 0), len(layout.rows) - height)
    return Layout(layout.rows[first : first + height], layout.row - first, layout.column)


@contextlib.contextmanager
def raw_keys() -> Generator[None]:
    """Hands single keys to the program, without echo, and gives the terminal back as it was."""
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        # Nothing is flushed: whoever typed while this was starting is heard.
        tty.setcbreak(descriptor, termios.TCSADRAIN)
        after = termios.tcgetattr(descriptor)
        after[0] &= ~termios.ICRNL
        after[3] &= ~termios.ISIG
        termios.tcsetattr(descriptor, termios.TCSADRAIN, after)
        sys.stdout.write(PASTE_ON)
        sys.stdout.flush()
        yield
    finally:
        sys.stdout.write(PASTE_OFF)
        sys.stdout.flush()
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
