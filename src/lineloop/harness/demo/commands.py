"""The plain commands that steer the demo: `/fail`, `/json {…}`, `/slow N`, `/ask q|a|b`, `/confirm …`,
`/tool …`.

Decides what a line means; carrying it out is script.py's.
"""

from __future__ import annotations

import re
from typing import Any

from lineloop.kit.json import loads
from lineloop.kit.records import record

SLOW_SECONDS, MAX_SLOW_SECONDS = 5, 600
MAX_DIGITS = 6


@record
class Command:
    """A command by name, with its parsed operand: text, number, JSON, or `(method, arguments)`; or why it
    is wrong.
    """

    name: str
    text: str = ""
    number: int = 0
    value: Any = None
    problem: str = ""


NAMES = ("help", "echo", "slow", "json", "fail", "ask", "confirm", "tool")


def parse_command(text: str) -> Command | None:
    """The command of a text that begins with one, else None. A wrong operand is told in `problem`."""
    match = re.match(rf"^\s*/({'|'.join(NAMES)})(?:\s+|$)(.*)$", text, re.DOTALL)
    if match is None:
        return None
    name, rest = match[1], match[2].strip()
    if name == "json":
        return _with_json(name, "", rest or "{}")
    if name == "tool":
        method, _, arguments = rest.partition(" ")
        if not method:
            return Command(name, problem="/tool needs APP.METHOD")
        return _with_json(name, method, arguments.strip() or "{}")
    if name == "slow":
        number = int(rest) if rest.isdecimal() and len(rest) <= MAX_DIGITS else 0 if rest else SLOW_SECONDS
        if not 1 <= number <= MAX_SLOW_SECONDS:
            return Command(
                name, problem=f"/slow takes a whole number of seconds from 1 to {MAX_SLOW_SECONDS}"
            )
        return Command(name, number=number)
    if name in ("ask", "confirm") and not rest:
        return Command(name, problem=f"/{name} needs a question")
    return Command(name, text=rest)


def _with_json(name: str, text: str, raw: str) -> Command:
    try:
        return Command(name, text=text, value=loads(raw))
    except ValueError as error:
        return Command(name, text=text, problem=f"that is not JSON: {error}")
