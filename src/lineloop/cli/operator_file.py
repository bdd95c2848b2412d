"""Loading a person's own operator for `lineloop run`, and saying where it breaks.

Decides the words: the place nearest to the mistake in the person's own files, not in the library that they
called. What FILE and MODULE mean is decided in operators/loading.
"""

from __future__ import annotations

import sys
import sysconfig
import traceback
from pathlib import Path

from lineloop.cli.failures import CommandFailed
from lineloop.operators.loading import load_operator
from lineloop.operators.operator import Operator
from lineloop.protocol.errors import LoopError

_OWN = Path(__file__).parents[1]
HINT = "lineloop run --debug shows the whole traceback."


def load(reference: str, *, debug: bool) -> Operator:
    """The operator of a file or module. Raises CommandFailed when its code breaks or ends the program,
    LoopError when there is none.
    """
    try:
        return load_operator(reference)
    except SystemExit as ended:
        raise _broken(ended, f"the file ends the program (sys.exit({ended.code!r}))", debug) from ended
    except LoopError as error:
        cause = error.__cause__
        if cause is None or _place(cause) is None:
            raise
        detail = f"{cause.msg}" if isinstance(cause, SyntaxError) else f"{cause}"
        raise _broken(cause, f"{type(cause).__name__}: {detail}", debug) from error


def _broken(error: BaseException, what: str, debug: bool) -> CommandFailed:
    if debug:
        traceback.print_exception(error, file=sys.stderr)
    place = _place(error)
    return CommandFailed(f"{place}: {what}" if place else what, hint="" if debug else HINT)


def _place(error: BaseException) -> str | None:
    """`file:line` of the person's own code nearest to the mistake; None when none of it had begun."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    places = [
        f"{frame.filename}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if _is_own_code(frame.filename)
    ]
    return places[-1] if places else None


def _is_own_code(filename: str) -> bool:
    libraries = (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
    path = Path(filename)
    return path.is_absolute() and not any(path.is_relative_to(place) for place in (*libraries, _OWN))
