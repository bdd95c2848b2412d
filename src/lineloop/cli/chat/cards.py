"""Question cards in the terminal: which one waits, what an answer may be, and how to give it. Pure.

Decides what typed words mean as an answer. Whether something typed is an answer at all is decided in
session.py and once.py; a card's state comes from its message alone (spec/protocol.md §6).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lineloop.kit.records import record
from lineloop.protocol.actors import Actor
from lineloop.protocol.messages import Message, Purpose

PENDING = "pending"


@record
class OpenQuestion:
    """A card that waits for a person. `choices` are (value, label); `to` is who may answer."""

    id: str
    text: str
    choices: tuple[tuple[str, str], ...]
    free_text: bool
    asker: Actor
    to: Actor | None
    ordinal: int

    def value_of(self, typed: str) -> str | None:
        """The answer that typed text means: a number, a label, a value, or free text where allowed."""
        word = typed.strip()
        if word.isdecimal() and 1 <= int(word) <= len(self.choices):
            return self.choices[int(word) - 1][0]
        for value, label in self.choices:
            if word.casefold() in (value.casefold(), label.casefold()):
                return value
        return word if self.free_text and word else None

    def ways(self) -> str:
        """What may be typed: `1–2 or your own words`."""
        ways = [f"1–{len(self.choices)}" if len(self.choices) > 1 else "1"] if self.choices else []
        return " or ".join([*ways, *(["your own words"] if self.free_text else [])])

    def hint(self) -> str:
        """How to answer where one can type."""
        instead = "/say TEXT talks instead" if self.free_text else "other words are said to the agent"
        return f"what you type answers: {self.ways()}; Escape dismisses; {instead}"

    def card_text(self) -> str:
        """The question with its numbered choices."""
        choices = [f"  {number}  {label}" for number, (_, label) in enumerate(self.choices, start=1)]
        return "\n".join([self.text, *choices])

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "text": self.text,
            "choices": [{"value": value, "label": label} for value, label in self.choices],
            "allow_other": self.free_text,
            "asked_by": self.asker.to_wire(),
        }


def card_of(message: Message) -> Mapping[str, Any]:
    """The card's block; empty when a message has none."""
    blocks = message.content.get("blocks") or [{}]
    return blocks[0]


def open_question(message: Message) -> OpenQuestion | None:
    """The question that a message asks, while it waits for an answer."""
    block = card_of(message)
    if message.purpose is not Purpose.QUESTION or block.get("state") != PENDING:
        return None
    choices = tuple((str(one["value"]), str(one["label"])) for one in block.get("choices") or ())
    return OpenQuestion(
        id=message.id,
        text=str(block.get("text", "")),
        choices=choices,
        free_text=block.get("type") == "ask" and bool(block.get("allow_other") or not choices),
        asker=message.actor,
        to=message.target,
        ordinal=message.ordinal,
    )
