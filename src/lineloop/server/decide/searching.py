"""What a message is found by, what a search asks for, and the piece of text that shows the hit. Pure.

Decides the terms. A term is a word in lower case or one character of a script that is written without blanks
(Chinese, Japanese, Korean, Thai …): a run of such characters is asked for as a phrase, so that words of any
length are found, two characters as well as seven. Both databases get these terms and part nothing themselves
(decision 0028).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lineloop.kit.records import record
from lineloop.protocol.attachments import ATTACHMENT_BLOCK
from lineloop.protocol.content import content_text
from lineloop.server.phrases import Phrase

# What lies behind this many terms of one message is not found by.
MAX_TERMS = 16_000
MAX_TERM_LENGTH = 64
MAX_PHRASES = 16
MAX_PHRASE_TERMS = 64
BEFORE_HIT, AFTER_HIT = 48, 144

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_TOKEN = re.compile(f"[{_UNSPACED}]|(?:(?![{_UNSPACED}_])\\w)+")
_PLAIN = re.compile("[a-z0-9]+")
_CHUNK = re.compile(r'"([^"]*)"?|([^\s"]+)')
_BLANKS = re.compile(r"\s+")


@record
class Token:
    """A term and where in the text it stands."""

    term: str
    start: int
    end: int


@record
class SnippetPart:
    """A piece of text; `hit` when it is what was searched for."""

    text: str
    hit: bool

    def to_wire(self) -> dict[str, Any]:
        return {"text": self.text, "hit": self.hit}


def searchable_text(content: Mapping[str, Any]) -> str:
    """What people read of a message, and the names of its attachments."""
    names = [
        block["name"]
        for block in content.get("blocks", ())
        if block.get("type") == ATTACHMENT_BLOCK and isinstance(block.get("name"), str)
    ]
    return "\n".join([content_text(content), *names])


def terms_of(text: str) -> list[str]:
    """The terms of a text in their order, at most MAX_TERMS."""
    if text.isascii():
        found = _PLAIN.findall(text.lower())
        return [term[:MAX_TERM_LENGTH] for term in found[:MAX_TERMS]]
    terms: list[str] = []
    for written in _TOKEN.findall(unicodedata.normalize("NFC", text)):
        if len(terms) == MAX_TERMS:
            break
        if term := _term(written):
            terms.append(term)
    return terms


def _tokens(text: str) -> Iterator[Token]:
    for match in _TOKEN.finditer(text):
        if term := _term(match.group()):
            yield Token(term, match.start(), match.end())


def _term(written: str) -> str:
    """The term of a token; empty when nothing of it is a letter or a digit."""
    if len(written) == 1 and "\u3400" <= written <= "\u9fff":
        return written  # Most characters of a Chinese text, and nothing in them varies.
    if written.isascii():
        return written.lower()[:MAX_TERM_LENGTH]
    term = unicodedata.normalize("NFKC", written).casefold()
    if not term.isalnum():
        term = "".join(character for character in term if character.isalnum())
    return term[:MAX_TERM_LENGTH]


def parse_query(query: str) -> list[Phrase]:
    """What is asked for, all of it; nothing when there is no letter and no digit in it.

    Words between quotes stand as they are. The last word without quotes is also a beginning, unless a blank
    follows it: somebody may still be writing.
    """
    text = unicodedata.normalize("NFC", query)
    phrases: list[Phrase] = []
    for match in _CHUNK.finditer(text):
        quoted, word = match.groups()
        tokens = tuple(terms_of(quoted if word is None else word))[:MAX_PHRASE_TERMS]
        if tokens:
            is_last = word is not None and match.end() == len(text)
            phrases.append(Phrase(tokens, is_last and not _is_unspaced(tokens[-1])))
    return phrases[:MAX_PHRASES]


def _is_unspaced(term: str) -> bool:
    return len(term) == 1 and re.match(f"[{_UNSPACED}]", term) is not None


def snippet_of(text: str, phrases: Sequence[Phrase]) -> list[SnippetPart]:
    """The text around the first hit in pieces; from its beginning when no hit is found."""
    whole = unicodedata.normalize("NFC", text)
    tokens = list(_tokens(whole[: MAX_TERMS * MAX_TERM_LENGTH]))
    hits = sorted({hit for phrase in phrases for hit in _hits(tokens, phrase)})
    first = hits[0][0] if hits else 0
    begin, end = _window(whole, first)
    parts: list[SnippetPart] = []
    at = begin
    for start, stop in hits:
        if start < at or stop > end:
            continue
        _add(parts, whole[at:start], hit=False)
        _add(parts, whole[start:stop], hit=True)
        at = stop
    _add(parts, whole[at:end], hit=False)
    if begin > 0:
        parts.insert(0, SnippetPart("…", hit=False))
    if end < len(whole):
        parts.append(SnippetPart("…", hit=False))
    return parts


def _hits(tokens: Sequence[Token], phrase: Phrase) -> Iterator[tuple[int, int]]:
    """(start, end) of every place where the phrase stands."""
    size = len(phrase.terms)
    *exact, last = phrase.terms
    for index in range(len(tokens) - size + 1):
        found = tokens[index : index + size]
        term = found[-1].term
        ends = term.startswith(last) if phrase.prefix else term == last
        if ends and all(token.term == wanted for token, wanted in zip(found, exact, strict=False)):
            yield found[0].start, found[-1].end


def _window(text: str, first: int) -> tuple[int, int]:
    """From a little before the hit to a good deal behind it, not in the middle of a word if that is near."""
    begin, end = max(first - BEFORE_HIT, 0), min(first + AFTER_HIT, len(text))
    if begin > 0 and (blank := _BLANKS.search(text, begin, min(begin + 16, first))):
        begin = blank.end()
    return begin, end


def _add(parts: list[SnippetPart], text: str, *, hit: bool) -> None:
    if text:
        parts.append(SnippetPart(_BLANKS.sub(" ", text), hit))
