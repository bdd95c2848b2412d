"""Plain output of the chat: what a stream cannot show is replaced, what cannot be written ends the command.

Decides what a lost line means: the command fails, with a word on stderr unless the reader simply went away
(`| head -1`). Never a traceback, neither now nor when the interpreter flushes at its end.
"""

from __future__ import annotations

import codecs
import io
import os
import sys
from typing import TextIO

from lineloop.cli.failures import CommandFailed, Exit


class OutputLost(CommandFailed):
    """Something that should have been printed was not. `silent` when nobody reads any more."""

    def __init__(self, reason: str, *, silent: bool = False) -> None:
        super().__init__(f"the output could not be written: {reason}")
        self.silent = silent


def tolerate_encodings() -> None:
    """Nothing said is too foreign to be shown: ASCII streams become UTF-8, others show `?` instead."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            is_ascii = codecs.lookup(stream.encoding).name == "ascii"
            stream.reconfigure(encoding="utf-8" if is_ascii else None, errors="replace")


def write_line(text: str) -> None:
    """One line to stdout, at once. Raises OutputLost."""
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison] (it is, when fd 1 was closed)
        raise OutputLost("stdout is closed")
    try:
        print(text, flush=True)
    except BrokenPipeError:
        _let_go(sys.stdout)
        raise OutputLost("nobody reads it", silent=True) from None
    except OSError as error:
        _let_go(sys.stdout)
        raise OutputLost(error.strerror or str(error)) from None


def write_note(text: str) -> None:
    """One line to stderr about the command itself. That it cannot be shown changes nothing."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        _let_go(sys.stderr)


def _let_go(stream: TextIO) -> None:
    """What the stream still holds goes nowhere, so that the end of the process does not trip over it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, stream.fileno())
    except (OSError, ValueError):
        pass  # a stream without a descriptor has nothing to flush into one
    finally:
        os.close(nowhere)


def checked_text(text: str, what: str) -> str:
    """The text, if it is one. Raises CommandFailed (2) for an argument that was not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise CommandFailed(f"{what} is not valid UTF-8", Exit.USAGE) from None
    return text


def read_lines() -> list[str]:
    """The lines of stdin that say something. Raises CommandFailed (2) when they are not UTF-8."""
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison]
        return []
    try:
        text = codecs.decode(sys.stdin.buffer.read(), "utf-8")
    except UnicodeDecodeError as error:
        raise CommandFailed(f"stdin is not valid UTF-8 (byte {error.start})", Exit.USAGE) from None
    return [line.strip() for line in text.splitlines() if line.strip()]
