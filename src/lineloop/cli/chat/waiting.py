"""What is said while an answer is awaited: the other is not online, or there is no answer yet. Pure.

Decides which messages of ours still wait, and the one status line about them. Leaves looking at who is online
to session.py and once.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lineloop.cli.chat.calls import clock_text
from lineloop.cli.chat.transcript import Line, LineKind, Transcript
from lineloop.protocol.actors import USER, Actor
from lineloop.protocol.messages import Message

SILENT_MS = 5_000


@dataclass
class Waiting:
    """Our messages to `to` that nothing has come of yet; times are UTC epoch milliseconds."""

    to: Actor
    _sent: dict[str, tuple[Message, int]] = field(default_factory=dict[str, tuple[Message, int]])

    def sent(self, message: Message, now_ms: int) -> None:
        self._sent[message.id] = (message, now_ms)

    def open(self, transcript: Transcript) -> bool:
        """Whether something still waits. Forgets what has been taken up since."""
        for message, _ in list(self._sent.values()):
            if taken_up(transcript, message, self.to):
                del self._sent[message.id]
        return bool(self._sent)

    def line(self, transcript: Transcript, now_ms: int) -> Line | None:
        """The one line to show, or None while everything is as expected."""
        if not self.open(transcript):
            return None
        if transcript.speakers.is_away(self.to):
            return Line(LineKind.NOTE, away_text(self.to))
        since = now_ms - min(at for _, at in self._sent.values())
        if since < SILENT_MS:
            return None
        name = transcript.speakers.name(self.to)
        return Line(
            LineKind.NOTE,
            f"no answer from {name} yet, after {clock_text(since)}; it is stored; Ctrl-C leaves",
        )


def taken_up(transcript: Transcript, message: Message, to: Actor) -> bool:
    """Whether anything has come of a message: an answer, a stream, a Run, a question."""
    for other in transcript.messages.values():
        if other.actor.kind == USER or other.id == message.id:
            continue
        subject = transcript.subject(other)
        if subject == message.id:
            return True
        is_later = other.conversation_id == message.conversation_id and other.ordinal > message.ordinal
        if subject is None and other.actor == to and is_later and not other.purpose.carries_envelope:
            return True
    return False


def away_text(to: Actor) -> str:
    return f"{to} is not online; what you said is stored and waits for it"
