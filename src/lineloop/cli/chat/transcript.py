"""A conversation as a reader sees it: stream events in, lines that stay and a live region out. Pure.

Decides what is shown, in which order and once; calls.py has the words for tool calls, painter.py the colours.
Leaves sending and answering to session.py. Events are those of spec/protocol.md §8.4: a `message` replaces, a
`patch` counts only when its seq follows the known revision.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from lineloop.cli.chat.calls import INVOKE, Call, arguments_text, clock_text, told_of
from lineloop.cli.chat.cards import PENDING, OpenQuestion, card_of, open_question
from lineloop.cli.chat.speakers import YOU, Speakers
from lineloop.kit import json
from lineloop.kit.clock import parse_rfc3339
from lineloop.protocol.actors import OPERATOR, USER, Actor
from lineloop.protocol.content import (
    ASK_BLOCK,
    CONFIRM_BLOCK,
    ENVELOPE_BLOCK,
    HUMAN_REPLY_BLOCK,
    MARKDOWN_BLOCK,
    RESULT_BLOCK,
    TEXT_BLOCK,
)
from lineloop.protocol.errors import PatchInvalid
from lineloop.protocol.messages import Message, MessageStatus, Purpose
from lineloop.protocol.patches import apply_patch

# Blocks that the text beside them covers, or that are told otherwise: a Run's calls by their envelopes.
_TOLD_BLOCKS = frozenset(
    {
        TEXT_BLOCK,
        MARKDOWN_BLOCK,
        RESULT_BLOCK,
        ENVELOPE_BLOCK,
        ASK_BLOCK,
        CONFIRM_BLOCK,
        HUMAN_REPLY_BLOCK,
        "tool",
        "record",
    }
)


class LineKind(StrEnum):
    YOU = "you"
    OTHER = "other"
    DRAFT = "draft"
    TOOL = "tool"
    CARD = "card"
    NOTE = "note"
    TROUBLE = "trouble"


class Line(NamedTuple):
    """One thing to show. `speaker` is a short name where somebody speaks, else empty."""

    kind: LineKind
    text: str
    speaker: str = ""


@dataclass
class Transcript:
    """Everything known of one root conversation."""

    root_id: str
    speakers: Speakers = field(default_factory=Speakers)
    messages: dict[str, Message] = field(default_factory=dict[str, Message])
    calls: dict[str, Call] = field(default_factory=dict[str, Call])
    _told: set[str] = field(default_factory=set[str])
    _envelopes: set[str] = field(default_factory=set[str])

    def echo(self, key: str, text: str) -> Line:
        """The person's own line, shown before the server has it, and not again when it is stored."""
        self._told.add(f"key:{key}")
        return Line(LineKind.YOU, text, YOU)

    def take_message(self, message: Message) -> list[Line]:
        """A full message; answers the lines that are new."""
        known = self.messages.get(message.id)
        if known and known.revision > message.revision and known.status.ended:
            return []
        self.messages[message.id] = message
        return self._lines_of(message)

    def take_patch(self, message_id: str, patch: Mapping[str, Any]) -> list[Line]:
        """One increment. A patch that does not follow the known revision is passed over; a message comes
        instead.
        """
        message = self.messages.get(message_id)
        if message is None or patch.get("seq") != message.revision + 1:
            return []
        try:
            content = apply_patch(message.content, dict(patch))
        except PatchInvalid:
            return []
        self.messages[message_id] = message.with_content(content, message.revision + 1)
        return self._lines_of(self.messages[message_id])

    def live(self, now_ms: int) -> list[Line]:
        """What is going on right now: open streams, running operations, work behind the scenes, the open
        card.
        """
        question = self.question()
        stop = "/say stop ends it" if question and question.free_text else "say stop to end it"
        lines = [
            Line(LineKind.OTHER, words_of(message), self.speakers.name(message.actor))
            for message in self._in_root()
            if message.status is MessageStatus.STREAMING and words_of(message) and _shown(message)
        ]
        for call in self.running():
            left = (call.ends_at_ms or now_ms) - now_ms
            words = f"{clock_text(left)} left" if left > 0 else "time is up"
            lines.append(Line(LineKind.TOOL, f"● {call.label} · {words} · {stop}"))
        lines += self._at_work()
        if question:
            lines.append(Line(LineKind.NOTE, question.hint()))
        return lines

    def running(self) -> list[Call]:
        """Operations that have started and have not ended."""
        return [call for call in self.calls.values() if call.running]

    def question(self) -> OpenQuestion | None:
        """The oldest card that waits for an answer."""
        return next(iter(self.questions()), None)

    def questions(self) -> list[OpenQuestion]:
        """Every card that waits for an answer, oldest first."""
        return [card for card in map(open_question, self._in_root()) if card is not None]

    def subject(self, message: Message) -> str | None:
        """The id of the message that this one is about in the end, along replies and the work of Runs.

        None when it says of no other message that it is about it.
        """
        above = self._above(message)
        seen = {message.id}
        while above is not None and above not in seen:
            known = self.messages.get(above)
            further = self._above(known) if known else None
            if further is None:
                return above
            seen.add(above)
            above = further
        return above

    def _above(self, message: Message) -> str | None:
        """One step: what it replies to, the input that its Run works on, the Run that asks it."""
        if message.reply_to_id is not None:
            return message.reply_to_id
        if message.purpose is Purpose.RUN:
            input_id = (message.content.get("meta") or {}).get("input_id")
            return input_id if isinstance(input_id, str) else None
        prefix, _, call_id = message.key.partition(":")
        if message.purpose is Purpose.QUESTION and prefix == "question":
            run_id = call_id.rpartition("/")[0]
            return next((one.id for one in self.messages.values() if one.key == run_id), None)
        return None

    def said_after(self, ordinal: int) -> list[Message]:
        """What others have said after a place in the conversation, ended, in order."""
        return [
            message
            for message in self._in_root()
            if message.ordinal > ordinal
            and message.actor.kind != USER
            and message.status.ended
            and _shown(message)
        ]

    def _in_root(self) -> Iterable[Message]:
        mine = (message for message in self.messages.values() if message.conversation_id == self.root_id)
        return sorted(mine, key=lambda message: message.ordinal)

    def _at_work(self) -> list[Line]:
        """Runs that go on in process conversations: their words so far, or, once for each speaker, that it
        works. A Run that waits for the person does not work.
        """
        lines: list[Line] = []
        asking = {self._above(self.messages[card.id]) for card in self.questions()}
        for message in self.messages.values():
            if message.conversation_id == self.root_id or message.status is not MessageStatus.STREAMING:
                continue
            name = self.speakers.name(_worker(message.speaker))
            if message.purpose is Purpose.RUN and words_of(message):
                lines.append(Line(LineKind.DRAFT, words_of(message), name))
            elif message.id not in asking:
                lines.append(Line(LineKind.NOTE, f"{name} is working …"))
        return list(dict.fromkeys(lines))

    def _lines_of(self, message: Message) -> list[Line]:
        if message.conversation_id != self.root_id:
            return []
        if message.purpose is Purpose.ENVELOPE:
            return self._told_of_envelope(message)
        if message.purpose is Purpose.QUESTION:
            return self._told_of_question(message)
        if not message.status.ended or not _shown(message) or not self._first(message):
            return []
        words = words_of(message)
        if message.actor.kind == USER:
            return [Line(LineKind.YOU, words, YOU)] if words else []
        name = self.speakers.name(message.actor)
        ended = _how_it_ended(message, name)
        # A failure whose words are its reason is told once.
        if not words or any(line.text.endswith(f": {words}") for line in ended):
            return ended
        return [Line(LineKind.OTHER, words, name), *ended]

    def _first(self, message: Message) -> bool:
        names = {message.id, f"key:{message.key}"} if message.actor.kind == USER else {message.id}
        fresh = not (names & self._told)
        self._told |= names
        return fresh

    def _told_of_question(self, message: Message) -> list[Line]:
        block = card_of(message)
        state = str(block.get("state", PENDING))
        mark = f"{message.id}:{'open' if state == PENDING else 'closed'}"
        if mark in self._told:
            return []
        self._told.add(mark)
        question = open_question(message)
        if question:
            return [Line(LineKind.CARD, question.card_text(), self.speakers.name(message.actor))]
        if state == "success":
            labels = {one["value"]: one["label"] for one in block.get("choices") or ()}
            return [Line(LineKind.NOTE, f"answered: {labels.get(block.get('value'), block.get('value'))}")]
        words = {"dismissed": "dismissed", "timeout": "nobody answered in time"}
        return [Line(LineKind.NOTE, f"question closed: {words.get(state, state)}")]

    def _told_of_envelope(self, message: Message) -> list[Line]:
        envelope = message.envelope
        if envelope is None or message.id in self._envelopes:
            return []
        self._envelopes.add(message.id)
        kind, payload = str(envelope.get("type", "")), envelope.get("payload") or {}
        call_id = str((envelope.get("correlation") or {}).get("call_id", ""))
        if kind == INVOKE:
            call = Call(
                call_id, payload.get("app_scope", ""), payload.get("method", ""), payload.get("params") or {}
            )
            if call_id in self.calls:
                return []
            self.calls[call_id] = call
            arguments = arguments_text(call.params)
            return [Line(LineKind.TOOL, f"→ {call.name}" + (f" · {arguments}" if arguments else ""))]
        call = self.calls.get(call_id)
        if call is None or payload.get("rejected"):
            text = payload.get("message") or payload.get("code") if payload.get("rejected") else None
            return [Line(LineKind.TOOL, f"✗ refused: {text}")] if text else []
        text = told_of(call, kind, payload, parse_rfc3339(message.created_at))
        return [Line(LineKind.TOOL, text)] if text else []


def words_of(message: Message) -> str:
    """What a message says, with a mark for every block that this terminal cannot show."""
    parts = [message.text] if message.text else []
    for block in message.content.get("blocks") or ():
        if block.get("type") == RESULT_BLOCK and block.get("format") == "json":
            parts.append(json.dumps(block.get("content")))
        elif block.get("type") not in _TOLD_BLOCKS:
            parts.append(f"[block of type {block.get('type')}]")
    return "\n\n".join(parts)


def _worker(actor: Actor) -> Actor:
    """The operator behind an actor that works for it (`operator/planner/step` is the operator `planner`)."""
    return Actor(OPERATOR, actor.operator_key) if actor.operator_key else actor


def _shown(message: Message) -> bool:
    """Speech between people and agents; answers are told by their question's card."""
    return message.purpose in (Purpose.SPEECH, Purpose.INPUT, Purpose.RUN)


def _how_it_ended(message: Message, name: str) -> list[Line]:
    if message.status is MessageStatus.COMPLETED:
        return []
    error = (message.content.get("meta") or {}).get("error") or {}
    reason = error.get("message") or error.get("code") or ""
    word = "stopped" if message.status is MessageStatus.CANCELLED else "failed"
    return [Line(LineKind.TROUBLE, f"{name} {word}" + (f": {reason}" if reason else ""))]
