"""The first and the last words of an interactive chat. Pure.

Decides what a newcomer must know to begin and what somebody who leaves must know to come back.
"""

from __future__ import annotations

from collections.abc import Sequence

from lineloop.cli.chat.calls import clock_text
from lineloop.cli.chat.speakers import Speakers
from lineloop.cli.chat.transcript import Line, LineKind, Transcript
from lineloop.protocol.actors import OPERATOR, Actor

DEFAULT = Actor(OPERATOR, "assistant")
EXAMPLE = "start a 1 minute focus called tea"
HELP = "\n".join(
    (
        "Enter sends · Alt-Enter begins a new line · Up brings back what you said",
        "While a question is open, what you type answers it · Escape dismisses it · /say TEXT talks instead",
        "/say /help asks the other side for its own commands",
        "/quit, Ctrl-D or Ctrl-C leaves; the conversation stays",
    )
)


def welcome(speakers: Speakers, to: Actor, *, begun: bool) -> list[Line]:
    """Who one talks to and what it is; for a new conversation also how to begin."""
    lines = [f"you talk to {speakers.name(to)} ({to}) · /help · /quit leaves"]
    description = speakers.description(to)
    if description:
        lines.append(description)
    if not begun and to == DEFAULT:
        lines.append(f"for example: {EXAMPLE}")
    return [Line(LineKind.NOTE, line) for line in lines]


def farewell(transcript: Transcript, now_ms: int, *, unsent: Sequence[str], ends_system: bool) -> list[Line]:
    """What was not sent, what goes on without the person, and the way back."""
    lines = [Line(LineKind.TROUBLE, f"not sent: {text}") for text in unsent]
    running = transcript.running()
    for call in running:
        left = clock_text((call.ends_at_ms or now_ms) - now_ms)
        goes_on = "goes on to the same end at the next start" if ends_system else "goes on"
        lines.append(Line(LineKind.NOTE, f"{call.label} {goes_on}, {left} left"))
    if transcript.question():
        lines.append(Line(LineKind.NOTE, "a question still waits for your answer"))
    if running or transcript.question():
        back = "make run, or lineloop up --chat" if ends_system else "lineloop chat"
        lines.append(Line(LineKind.NOTE, f"come back with: {back}"))
    return lines
