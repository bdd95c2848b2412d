"""Whether a sentence wants something done: questions and refusals want nothing, however many tools they name.

Decides which part of a text is a wish. Which tool it means is decided in matching.py.
"""

from __future__ import annotations

import re
from itertools import pairwise

from lineloop.harness.demo.concepts import (
    EMPTY_WORDS,
    LATIN,
    NEGATIONS,
    han_actions,
    is_action,
    is_negation,
    words_of,
)
from lineloop.harness.demo.durations import normalise
from lineloop.kit.records import record

_QUOTED = re.compile(r"[\"“「『«][^\"”」』»]*[\"”」』»]|\{.*\}", re.DOTALL)
_SENTENCE = re.compile(r"(?<=[.!?;。！？；\n])(?!\d)")
_CLAUSE = re.compile(r"(?<=[,，、])|\s(?=(?:but|and instead|instead)\s)|(?=但是?|而是)")
_POLITE = re.compile(
    r"^\W*(?:please\s+)?(?:can|could|would|will)(?:n't)?\s+(?:you|we)\b"
    r"|^\W*(?:how|what)\s+about\b|能不能|可不可以|可以.*吗|能.*吗|可否|能否",
    re.IGNORECASE,
)
_QUESTION = re.compile(
    r"^\W*(?:(?:and|so|but|then|well|ok|okay|hey|hi|hello)\W+)*"
    r"(?:(?:how|what|what's|why|when|where|who|which|whose|is|isn't|are|aren't|am|was|were|does|doesn't|did"
    r"|didn't|has|had|should|shall|may|might|must)\b|(?:do|have)\s+(?:i|you|we|they|people)\b)"
    r"|怎么|怎样|如何|什么|为什么|为何|多久|多长|多少|几点|何时|哪|要不要|是不是|是否|有没有|了吗|吗\s*[?？]*\s*$"
    r"|呢\s*[?？]*\s*$",
    re.IGNORECASE,
)
# Words that end things, and much else: "the end of the story", "quit smoking".
_VAGUE = frozenset({"end", "finish", "cancel", "quit", "exit", "terminate", "结束", "取消", "退出"})
_NEVER_ALONE = frozenset({"quit", "exit", "退出"})
_EMPTY_BESIDE = frozenset({"please", "pls", "thanks", "session", "activity", "everything"})


@record
class Wish:
    """`text` is what is left when questions and refusals are taken out; empty when nothing is wanted.

    `asks` says that the whole text is a question.
    """

    text: str
    asks: bool


def wish_of(text: str) -> Wish:
    """The part of a text that wants something done, unchanged when all of it does."""
    hidden = _QUOTED.sub(lambda found: "\0" * len(found[0]), normalise(text))
    kept: list[tuple[int, int]] = []
    asks = refuses = False
    for start, end in _pieces(hidden, _SENTENCE, 0, len(hidden)):
        sentence = hidden[start:end]
        if not sentence.strip():
            continue
        if _QUESTION.search(sentence) and not _POLITE.search(sentence):
            asks = True
            continue
        for first, last in _pieces(hidden, _CLAUSE, start, end):
            if _refuses(hidden[first:last]):
                refuses = True
            else:
                kept.append((first, last))
    if not asks and not refuses:
        return Wish(text, asks=False)
    shown = normalise(text)
    return Wish("".join(shown[first:last] for first, last in kept).strip(" ,，"), asks=asks and not kept)


def vague_stop(text: str) -> bool:
    """Whether a text asks for an end only in words that mean much else too, and says no more."""
    return not _stops(text) - _VAGUE and bool(_stops(text))


def stands_alone(text: str) -> bool:
    """Whether such a word is all that is said, and may stand for "end what is going on"."""
    said = [word[0].lower() for word in LATIN.finditer(text)]
    if said:
        content = [word for word in said if word not in EMPTY_WORDS and word not in _EMPTY_BESIDE]
        return len(content) == 1 and content[0] not in _NEVER_ALONE
    return text.strip(" .!。！~") in _VAGUE - _NEVER_ALONE


def _pieces(text: str, border: re.Pattern[str], start: int, end: int) -> list[tuple[int, int]]:
    places = [start, *(found.start() for found in border.finditer(text, start, end)), end]
    return [(first, last) for first, last in pairwise(places) if first < last]


def _refuses(clause: str) -> bool:
    """Whether the first action of a clause stands behind a negation: "I don't want to start"."""
    negated = False
    for found in LATIN.finditer(clause):
        word = found[0].lower()
        if is_negation(word):
            negated = True
        elif is_action(word):
            return negated
    for place, _ in han_actions(clause):
        before = clause[:place].replace("能不能", "").replace("可不可以", "")
        return any(word in before[-6:] for word in NEGATIONS if not word.isascii())
    return False


def _stops(text: str) -> set[str]:
    said = {word[0].lower() for word in LATIN.finditer(text) if words_of(word[0]).actions == ("stop",)}
    return said | {word for _, word in han_actions(text) if words_of(word).actions == ("stop",)}
