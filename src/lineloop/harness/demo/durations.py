"""Finds lengths of time in English and Chinese text.

Decides what counts as a duration and how long it is; which parameter it belongs to is decided in
arguments.py, how one is written in spoken_time.py.
"""

from __future__ import annotations

import re
import unicodedata
from fractions import Fraction

from lineloop.harness.demo.spoken_time import MS_PER_DAY, MS_PER_HOUR, MS_PER_MINUTE, MS_PER_SECOND
from lineloop.kit.records import record

_UNITS: dict[str, int] = {
    **dict.fromkeys(("milliseconds", "millisecond", "msecs", "msec", "ms", "毫秒"), 1),
    **dict.fromkeys(("seconds", "second", "secs", "sec", "s", "秒钟", "秒"), MS_PER_SECOND),
    **dict.fromkeys(("minutes", "minute", "mins", "min", "m", "分钟", "分"), MS_PER_MINUTE),
    **dict.fromkeys(("hours", "hour", "hrs", "hr", "h", "小时", "钟头"), MS_PER_HOUR),
    **dict.fromkeys(("days", "day", "d", "天"), MS_PER_DAY),
    "刻钟": 15 * MS_PER_MINUTE,
}
_ENGLISH_UNITS = sorted((unit for unit in _UNITS if unit.isascii()), key=len, reverse=True)
_CHINESE_UNITS = sorted((unit for unit in _UNITS if not unit.isascii()), key=len, reverse=True)

_ONE_WORDS = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
sixteen seventeen eighteen nineteen"""
_TEN_WORDS = "twenty thirty forty fifty sixty seventy eighty ninety"
_ONES = {word: value for value, word in enumerate(_ONE_WORDS.split())}
_TENS = {word: value * 10 for value, word in enumerate(_TEN_WORDS.split(), 2)}
_CHINESE_DIGITS = {char: value for value, char in enumerate("零一二三四五六七八九")} | {"两": 2, "〇": 0}
_CHINESE_TENS = {"十": 10, "百": 100, "千": 1000}

_WORD_NUMBER = "|".join(
    [
        rf"(?:{'|'.join(_TENS)})(?:[\s-](?:{'|'.join(list(_ONES)[1:10])}))?",
        *sorted(_ONES, key=len, reverse=True),
    ]
)
_ENGLISH = re.compile(
    rf"""(?:(?<![\d.])(?=\d)|(?<![\w.]))(?:
        (?P<half>half\s+(?:an?\s+)?) | (?P<quarter>(?:a\s+)?quarter\s+of\s+an?\s+)
        | (?P<number>\d+(?:\.\d+)?|{_WORD_NUMBER}|an?)(?P<and_half>\s+and\s+a\s+half)?\s*-?\s*
    )(?P<unit>{"|".join(_ENGLISH_UNITS)})(?![A-Za-z])(?P<tail_half>\s+and\s+a\s+half)?""",
    re.IGNORECASE | re.VERBOSE,
)
_CHINESE = re.compile(
    rf"(?P<number>\d+(?:\.\d+)?|[零〇一二两三四五六七八九十百千]+|半)\s*(?:个)?(?P<half>半)?\s*(?:个)?"
    rf"(?P<unit>{'|'.join(_CHINESE_UNITS)})"
)
_BETWEEN = re.compile(r"[\s,，]*(?:and|又|零|加)?[\s]*", re.IGNORECASE)
_NUMBER = re.compile(
    rf"(?<![\w.])(?P<latin>-?\d+(?:\.\d+)?|(?:{_WORD_NUMBER})\b)|(?P<chinese>[零〇一二两三四五六七八九十百千]+)",
    re.IGNORECASE,
)


@record
class Duration:
    """A length of time found at text[start:end]; `milliseconds` is exact."""

    milliseconds: int
    start: int
    end: int


def normalise(text: str) -> str:
    """Full-width digits and letters become plain ones; the length may change, so do this first."""
    return unicodedata.normalize("NFKC", text)


def parse_number(word: str) -> Fraction | None:
    """A number in digits, English words up to ninety-nine, or Chinese numerals. None when it is none."""
    word = word.strip().lower()
    if re.fullmatch(r"-?\d+(\.\d+)?", word):
        return Fraction(word)
    if word in ("a", "an"):
        return Fraction(1)
    if word == "半":
        return Fraction(1, 2)
    if word in _ONES:
        return Fraction(_ONES[word])
    tens, _, ones = word.replace("-", " ").partition(" ")
    if tens in _TENS and (not ones or ones in _ONES):
        return Fraction(_TENS[tens] + (_ONES[ones] if ones else 0))
    return _parse_chinese(word)


def _parse_chinese(word: str) -> Fraction | None:
    if not word or any(char not in _CHINESE_DIGITS and char not in _CHINESE_TENS for char in word):
        return None
    total, digit = 0, None
    for char in word:
        if char in _CHINESE_DIGITS:
            digit = _CHINESE_DIGITS[char]
        else:
            total += (1 if digit is None else digit) * _CHINESE_TENS[char]
            digit = None
    return Fraction(total + (digit or 0))


def find_durations(text: str) -> list[Duration]:
    """Every duration in the text, left to right; neighbours like `1 hour 20 minutes` are one."""
    found = [duration for match in _ENGLISH.finditer(text) if (duration := _from_english(match))]
    found += [duration for match in _CHINESE.finditer(text) if (duration := _from_chinese(match))]
    merged: list[Duration] = []
    for duration in sorted(found, key=lambda item: item.start):
        if merged and duration.start < merged[-1].end:
            continue
        if merged and _BETWEEN.fullmatch(text[merged[-1].end : duration.start]):
            before = merged.pop()
            duration = Duration(before.milliseconds + duration.milliseconds, before.start, duration.end)
        merged.append(duration)
    return merged


def _from_english(match: re.Match[str]) -> Duration | None:
    if match["half"]:
        amount: Fraction | None = Fraction(1, 2)
    elif match["quarter"]:
        amount = Fraction(1, 4)
    else:
        amount = parse_number(match["number"])
    if amount is None:
        return None
    unit = match["unit"].lower()
    if len(unit) == 1 and match["number"] and not match["number"][0].isdigit():
        return None  # "a s…", "an h": letters, not units
    if match["tail_half"] or match["and_half"]:
        amount += Fraction(1, 2)
    return _duration(match, amount * _UNITS[unit])


def _from_chinese(match: re.Match[str]) -> Duration | None:
    amount = parse_number(match["number"])
    if amount is None:
        return None
    if match["half"]:
        amount += Fraction(1, 2)
    return _duration(match, amount * _UNITS[match["unit"]])


def _duration(match: re.Match[str], milliseconds: Fraction) -> Duration:
    """A minus of its own counts, so that `-5 minutes` is asked about and not taken for 5."""
    before = match.string[: match.start()]
    negative = before.endswith(("-", "−", "负")) and not before[-2:-1].isalnum()
    sign = -1 if negative else 1
    return Duration(sign * int(milliseconds), match.start() - negative, match.end())


def find_numbers(text: str) -> list[tuple[Fraction, int, int]]:
    """Every number that is not part of a duration: (value, start, end), left to right."""
    taken = [(duration.start, duration.end) for duration in find_durations(text)]
    numbers: list[tuple[Fraction, int, int]] = []
    for match in _NUMBER.finditer(text):
        if any(start <= match.start() < end for start, end in taken):
            continue
        value = parse_number(match[0])
        if value is not None:
            numbers.append((value, match.start(), match.end()))
    return numbers
