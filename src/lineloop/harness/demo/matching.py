"""Chooses a tool by matching the words of a text against names, titles, descriptions and schema.

Decides by scores over concepts; a concept is a set of words of both languages that mean the same. It knows
no tool.
"""

from __future__ import annotations

from collections.abc import Sequence

from lineloop.harness.adapters.port import ToolSpec
from lineloop.harness.demo.arguments import Filled, duration_unit_ms, fill_arguments
from lineloop.harness.demo.concepts import OPPOSITES, Words, words_of
from lineloop.harness.demo.durations import find_durations
from lineloop.harness.demo.intents import stands_alone, vague_stop, wish_of
from lineloop.kit.records import record
from lineloop.protocol.tools import CallModel

THRESHOLD = 4.0
_ACTION_IN_NAME, _ACTION_IN_DESCRIPTION, _OPPOSITE = 4.0, 1.5, -5.0
_THING_IN_NAME, _THING_IN_DESCRIPTION = 2.0, 1.0
_DURATION_FITS, _REQUIRED_MISSING = 2.0, -0.5


@record
class Choice:
    """The tool that fits best, what could be filled from the text, and the score that chose it."""

    tool: ToolSpec
    filled: Filled
    score: float


def choose_tool(text: str, tools: Sequence[ToolSpec]) -> Choice | None:
    """The tool whose words fit best, or None when nothing fits well enough. Ties go to the earlier tool.

    A question only looks, so it chooses among queries; a refusal chooses nothing.
    """
    wish = wish_of(text)
    if not wish.text and not wish.asks:
        return None
    text = text if wish.asks else wish.text
    best: Choice | None = None
    for tool in tools:
        if tool.is_human or (wish.asks and tool.call_model != CallModel.QUERY):
            continue
        filled = fill_arguments(tool.input_schema, text)
        score = score_tool(words_of(filled.rest), text, tool, filled)
        if score >= THRESHOLD and (best is None or score > best.score):
            best = Choice(tool, filled, score)
    return best


def score_tool(said: Words, text: str, tool: ToolSpec, filled: Filled) -> float:
    """How well the words fit the tool; THRESHOLD and more is a fit."""
    named = words_of(f"{tool.method} {tool.title}")
    described = words_of(f"{tool.description} {tool.app_title} {_schema_words(tool)}")
    score = 0.0
    app_words = words_of(tool.app_scope).things
    known = named.things | described.things | app_words
    if vague_stop(text) and not (said.things & known or stands_alone(text)):
        return score
    if any(action in named.actions for action in said.actions):
        score += _ACTION_IN_NAME
    elif any(action in described.actions for action in said.actions):
        score += _ACTION_IN_DESCRIPTION
    if said.actions and named.actions and frozenset((said.actions[0], named.actions[0])) in OPPOSITES:
        score += _OPPOSITE
    for thing in said.things:
        if thing in named.things or thing in app_words:
            score += _THING_IN_NAME
        elif thing in described.things:
            score += _THING_IN_DESCRIPTION
    properties = _properties(tool)
    if find_durations(text) and any(duration_unit_ms(name, schema) for name, schema in properties.items()):
        score += _DURATION_FITS
    return score + _REQUIRED_MISSING * sum(1 for reason in filled.missing.values() if not reason)


def _properties(tool: ToolSpec) -> dict[str, dict[str, object]]:
    properties = tool.input_schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _schema_words(tool: ToolSpec) -> str:
    parts: list[str] = []
    for name, schema in _properties(tool).items():
        parts += [name, str(schema.get("title", "")), str(schema.get("description", ""))]
        values = schema.get("enum")
        parts += [str(value) for value in values] if isinstance(values, list) else []
    return " ".join(parts)
