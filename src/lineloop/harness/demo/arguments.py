"""Fills a tool's parameters from the words of a text, by the tool's JSON Schema. What it cannot find it
does not guess.

Decides values only; whether the tool fits at all is decided in matching.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from lineloop.harness.demo.durations import find_durations, find_numbers, normalise
from lineloop.harness.demo.spoken_time import MS_PER_DAY, MS_PER_HOUR, MS_PER_MINUTE, MS_PER_SECOND
from lineloop.kit.json import loads
from lineloop.protocol.errors import LoopError
from lineloop.protocol.schemas import schema_of

Schema = dict[str, Any]

_QUOTED = re.compile(r"[\"“「『«‘']([^\"”」』»’']{1,500})[\"”」』»’'](?!\w)")
_CALLED_ENGLISH = re.compile(
    r"\b(?:called|named|titled|labell?ed)\s+(?P<value>[\"“][^\"”]+[\"”]|.+?)"
    r"(?=\s+(?:for|with|and|please|in|at|lasting|that)\b|\s+\d|\s*[,.!?;，。！？；]|\s*$)",
    re.IGNORECASE,
)
_CALLED_CHINESE = re.compile(
    r"(?:名为|名叫|叫做|叫作|称为|标题是|名字是|叫)\s*(?P<value>[^\s,，.。!！?？;；、的\d][^,，.。!！?？;；、的\d]{0,80}?)"
    r"(?=\s*(?:[,，.。!！?？;；、的\d]|$))"
)
_BECAUSE = re.compile(r"(?:\bbecause\b|\bsince\b|因为|由于)\s*(?P<value>[^.!?。！？]{1,300})", re.IGNORECASE)
_AFTER_COLON = re.compile(r"[:：]\s*(?P<value>.+)$", re.DOTALL)
_LABEL_NAMES = ("label", "name", "title", "topic", "subject")
_REASON_NAMES = ("reason", "because", "cause")
_BODY_NAMES = ("text", "content", "body", "message", "note", "query", "item", "question", "description")
_YES = re.compile(r"^\s*(?:y|yes|true|on|ok|sure|是|好|要|对|开)\b", re.IGNORECASE)
_NO = re.compile(r"^\s*(?:n|no|false|off|不|否|关)", re.IGNORECASE)
_UNITS_BY_NAME: tuple[tuple[re.Pattern[str], int], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), unit)
    for pattern, unit in (
        (r"(?:^|_)(?:ms|millis|milliseconds?)$|毫秒", 1),
        (r"(?:^|_)(?:s|secs?|seconds?)$|秒", MS_PER_SECOND),
        (r"(?:^|_)(?:mins?|minutes?)$|分钟", MS_PER_MINUTE),
        (r"(?:^|_)(?:hrs?|hours?)$|小时", MS_PER_HOUR),
        (r"(?:^|_)days?$", MS_PER_DAY),
    )
)
_UNITS_IN_WORDS: tuple[tuple[re.Pattern[str], int], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), unit)
    for pattern, unit in (
        (r"\bmilliseconds?\b|毫秒", 1),
        (r"\bminutes?\b|分钟", MS_PER_MINUTE),
        (r"\bseconds?\b|秒", MS_PER_SECOND),
        (r"\bhours?\b|小时", MS_PER_HOUR),
    )
)


@dataclass(slots=True)
class Filled:
    """Arguments that satisfy the schema where present; `missing` required names with the reason each could
    not be filled (a reason may be empty); `rest` the text without label values.
    """

    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    missing: dict[str, str] = field(default_factory=dict[str, str])
    rest: str = ""


def duration_unit_ms(name: str, schema: Schema) -> int | None:
    """Milliseconds per unit when a numeric parameter means a length of time, by its name or its
    description.
    """
    if schema.get("type") not in ("integer", "number"):
        return None
    for pattern, unit in _UNITS_BY_NAME:
        if pattern.search(name):
            return unit
    words = f"{schema.get('title', '')} {schema.get('description', '')}"
    for pattern, unit in _UNITS_IN_WORDS:
        if pattern.search(words):
            return unit
    return None


def fill_arguments(schema: Schema, text: str) -> Filled:
    """Every parameter of an object schema that the text gives. Never raises; the rest is in `missing`."""
    text = normalise(text)
    properties = {name: part for name, part in schema.get("properties", {}).items() if isinstance(part, dict)}
    if (given := _json_object(text)) is not None and set(given) <= set(properties):
        filled = Filled(arguments=given, rest=text[: text.find("{")])
        _require(schema, filled)
        return filled
    filled = Filled(rest=text)
    strings = [name for name, part in properties.items() if _is_plain_string(part)]
    filled.rest = _fill_strings(properties, strings, text, filled)
    _fill_numbers(properties, filled.rest, filled)
    for name, part in properties.items():
        if name not in filled.arguments and "enum" in part:
            _fill_enum(name, part, filled.rest, filled)
        elif name not in filled.arguments and part.get("type") == "boolean":
            _fill_boolean(name, filled.rest, filled)
    _require(schema, filled)
    return filled


def fill_one(name: str, schema: Schema, answer: str) -> tuple[Any, str | None]:
    """A parameter from an answer to a question about it: (value, None) or (None, why not)."""
    answer = normalise(answer).strip()
    filled = Filled()
    if _is_plain_string(schema):
        quoted = _QUOTED.fullmatch(answer)
        filled.arguments[name] = quoted[1] if quoted else answer
    elif schema.get("type") == "boolean":
        if _NO.match(answer) or _YES.match(answer):
            filled.arguments[name] = not _NO.match(answer)
    elif "enum" in schema:
        _fill_enum(name, schema, answer, filled)
    else:
        _fill_numbers({name: schema}, answer, filled)
    if name not in filled.arguments:
        return None, filled.missing.get(name, "")
    problem = _problem_of(schema, filled.arguments[name])
    return (None, problem) if problem else (filled.arguments[name], None)


def _is_plain_string(schema: Schema) -> bool:
    return schema.get("type") == "string" and "enum" not in schema and "const" not in schema


def _json_object(text: str) -> dict[str, Any] | None:
    start = text.find("{")
    if start < 0:
        return None
    try:
        value = loads(text[start:])
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _named_value(name: str, text: str) -> re.Match[str] | None:
    spelled = re.escape(name).replace("_", r"[_\s]")
    return re.search(
        rf"(?<![\w]){spelled}\s*(?:=|:|：|\bis\b|是)\s*(?P<value>\"[^\"]*\"|'[^']*'|[^\s,;，；]+)",
        text,
        re.IGNORECASE,
    )


def _fill_strings(properties: dict[str, Schema], names: list[str], text: str, filled: Filled) -> str:
    """Fill label-like and quoted strings; returns the text without what was taken as a value."""
    rest = text
    for name in properties:
        if name in names and (match := _named_value(name, rest)):
            filled.arguments[name] = match["value"].strip("\"'")
            rest = rest.replace(match[0], " ")
    open_names = [name for name in names if name not in filled.arguments]
    labels = [name for name in open_names if _meant(name, properties[name], _LABEL_NAMES)]
    if labels and (match := _CALLED_ENGLISH.search(rest) or _CALLED_CHINESE.search(rest)):
        filled.arguments[labels[0]] = match["value"].strip().strip("\"“”「」『』‘’'")
        rest = rest.replace(match[0], " ")
    for name in open_names:
        if name in filled.arguments or not _meant(name, properties[name], _REASON_NAMES):
            continue
        if match := _BECAUSE.search(rest):
            filled.arguments[name] = match["value"].strip()
            rest = rest.replace(match[0], " ")
    bodies = [name for name in open_names if _meant(name, properties[name], _BODY_NAMES)]
    remaining = [name for name in [*bodies, *labels, *open_names] if name not in filled.arguments]
    for name in dict.fromkeys(remaining):
        match = _QUOTED.search(rest)
        if match is None and name in bodies:
            match = _AFTER_COLON.search(rest)
        if match:
            filled.arguments[name] = match[1].strip()
            rest = rest.replace(match[0], " ")
    return rest


def _meant(name: str, schema: Schema, words: tuple[str, ...]) -> bool:
    parts = re.split(r"[_\W]+", name.lower())
    return any(word in parts for word in words) or str(schema.get("title", "")).lower() in words


def _fill_numbers(properties: dict[str, Schema], text: str, filled: Filled) -> None:
    numeric = {name: part for name, part in properties.items() if part.get("type") in ("integer", "number")}
    for name, part in numeric.items():
        if name not in filled.arguments and "enum" not in part and (match := _named_value(name, text)):
            numbers = find_numbers(match["value"])
            if numbers:
                _put_number(name, part, numbers[0][0], filled)
                text = text.replace(match[0], " ")
    durations, numbers = find_durations(text), find_numbers(text)
    for name, part in numeric.items():
        unit = duration_unit_ms(name, part)
        if name in filled.arguments or unit is None or not durations:
            continue
        _put_number(name, part, Fraction(durations.pop(0).milliseconds, unit), filled)
    for name, part in numeric.items():
        if name in filled.arguments or name in filled.missing:
            continue
        # A length of time needs plain digits: "one focus" is not one minute of it.
        fitting = [n for n in numbers if duration_unit_ms(name, part) is None or text[n[1]].isdecimal()]
        if fitting:
            numbers.remove(fitting[0])
            _put_number(name, part, fitting[0][0], filled)


def _put_number(name: str, schema: Schema, value: Fraction, filled: Filled) -> None:
    number: int | float = int(value) if value.denominator == 1 else float(value)
    problem = _problem_of(schema, number)
    if problem:
        filled.missing[name] = problem
    else:
        filled.arguments[name] = number


def _problem_of(schema: Schema, value: Any) -> str:
    """Empty when the value satisfies its own schema, otherwise what is wrong, in a person's words."""
    try:
        broken = schema_of(schema).errors(value)
    except LoopError:
        return "the tool's schema cannot be used"
    return (_in_words(schema, value) or broken[0]["message"]) if broken else ""


def _in_words(schema: Schema, value: Any) -> str:
    """What is wrong with a number, a text or a choice; empty for what only the schema's own words tell."""
    kind, low, high = schema.get("type"), schema.get("minimum"), schema.get("maximum")
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind in ("integer", "number") and not is_number:
        return f"{value} is not a number"
    if kind == "integer" and not float(value).is_integer():
        return f"{value:g} is not a whole number"
    if is_number and isinstance(low, int | float) and value < low:
        return f"{value} is less than {low}"
    if is_number and isinstance(high, int | float) and value > high:
        return f"{value} is more than {high}"
    longest, shortest = schema.get("maxLength"), schema.get("minLength")
    if isinstance(value, str) and isinstance(longest, int) and len(value) > longest:
        return f"it may have at most {longest} characters"
    if isinstance(value, str) and isinstance(shortest, int) and len(value) < shortest:
        return f"it needs at least {shortest} characters"
    if isinstance(schema.get("enum"), list):
        return f"{value} is none of {', '.join(map(str, schema['enum']))}"
    return ""


def _fill_enum(name: str, schema: Schema, text: str, filled: Filled) -> None:
    for value in schema["enum"]:
        spelled = re.escape(str(value)).replace("_", r"[_\s-]")
        edge = r"(?<![A-Za-z0-9])" if str(value).isascii() else ""
        if re.search(rf"{edge}{spelled}{edge.replace('<!', '!')}", text, re.IGNORECASE):
            filled.arguments[name] = value
            return


def _fill_boolean(name: str, text: str, filled: Filled) -> None:
    spelled = re.escape(name).replace("_", r"[_\s-]")
    if match := _named_value(name, text):
        filled.arguments[name] = not _NO.match(match["value"])
    elif re.search(rf"(?:\b(?:not|no|without|don't)\s+|不要?|别){spelled}", text, re.IGNORECASE):
        filled.arguments[name] = False
    elif re.search(rf"(?<!\w){spelled}(?!\w)", text, re.IGNORECASE):
        filled.arguments[name] = True


def _require(schema: Schema, filled: Filled) -> None:
    """Keep in `missing` exactly the required names that have no valid value; drop invalid optional values."""
    required = [name for name in schema.get("required", []) if isinstance(name, str)]
    properties = schema.get("properties", {})
    for name in list(filled.arguments):
        problem = _problem_of(properties.get(name, {}), filled.arguments[name])
        if problem:
            del filled.arguments[name]
            filled.missing[name] = problem
    for name in required:
        if name in filled.arguments:
            continue
        part = properties.get(name, {})
        if "const" in part:
            filled.arguments[name] = part["const"]
        else:
            filled.missing.setdefault(name, "")
    for name in list(filled.missing):
        if name in filled.arguments or (name not in required and not filled.missing[name]):
            del filled.missing[name]
