"""How a command ends: exit codes, and which error means which (docs/reference/command-line.md).

Decides the mapping only. The message of a failure goes to stderr as one or two plain lines, never a
traceback.
"""

from __future__ import annotations

import sys
from enum import IntEnum

from lineloop.cli.chat.harmless import clean
from lineloop.protocol.errors import ErrorCode, Forbidden, LoopError, NotFound, Unauthorized


class Exit(IntEnum):
    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    REFUSED = 4
    TEMPORARY = 75


_REFUSED = frozenset({ErrorCode.APP_PROTECTED, ErrorCode.SCOPE_RESERVED})


class CommandFailed(Exception):
    """A command cannot go on. `hint` tells what a person may do about it."""

    def __init__(self, message: str, code: Exit = Exit.FAILED, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.hint = hint


def failure_of(error: LoopError) -> CommandFailed:
    """The command line's view of a coded error."""
    if isinstance(error, NotFound) or error.code is ErrorCode.APP_NOT_INSTALLED:
        code = Exit.NOT_FOUND
    elif isinstance(error, Forbidden | Unauthorized) or error.code in _REFUSED:
        code = Exit.REFUSED
    else:
        code = Exit.TEMPORARY if error.retryable else Exit.FAILED
    return CommandFailed(f"{error.message} ({error.code})", code)


def tell(failure: CommandFailed) -> int:
    """Writes the failure to stderr and answers the exit code."""
    print(f"lineloop: {clean(failure.message)}", file=sys.stderr)
    if failure.hint:
        print(f"  {clean(failure.hint)}", file=sys.stderr)
    return int(failure.code)
