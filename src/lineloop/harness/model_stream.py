"""Puts a streamed response of a model together from its pieces.

Pure. Decides what is text for people, where one tool call ends and the next begins, and when a response is
whole. Servers differ: some number every call 0, some repeat ids and names in every piece, some send whole
calls at once or no usage, some think aloud first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

from lineloop.harness.adapters.port import Json
from lineloop.kit import json

MAX_RESPONSE_CHARS = 1024 * 1024
_THINKING, _THOUGHT = "<think>", "</think>"
_SHOWN_OF_ARGUMENTS = 200


class NotAResponse(ValueError):
    """What came is not a piece of a response; the message says what is wrong with it."""


@dataclass(slots=True)
class _Call:
    index: Any
    id: str = ""
    name: str = ""
    arguments: str = ""

    @property
    def is_whole(self) -> bool:
        return bool(self.name and self.arguments.strip()) and isinstance(_read(self.arguments), dict)


@dataclass(slots=True)
class ResponsePieces:
    """Takes pieces in order. `text` is what people see; `ended` is true once the server said so."""

    text: str = ""
    usage: dict[str, int] = field(default_factory=dict[str, int])
    finish_reason: str = ""
    ended: bool = False
    _calls: list[_Call] = field(default_factory=list[_Call])
    _raw: str = ""
    _size: int = 0
    _thinks: bool | None = None

    def take(self, piece: Any) -> str:
        """The words that this piece adds to `text`. Raises NotAResponse."""
        if not isinstance(piece, dict):
            raise NotAResponse("a piece of it is no object")
        chunk = cast("Json", piece)
        self._take_usage(chunk.get("usage"))
        choices = chunk.get("choices")
        if choices is None and chunk.get("usage") is None:
            raise NotAResponse("a piece of it has no choices")
        if not choices:
            return ""
        choice: Any = choices[0] if isinstance(choices, list) else None
        if not isinstance(choice, dict):
            raise NotAResponse("its choices are none")
        return self._take_choice(cast("Json", choice))

    def calls(self) -> tuple[tuple[tuple[str, Json], ...], dict[int, str]]:
        """(name, arguments) of each call in order; and by index, why arguments could not be read."""
        calls: list[tuple[str, Json]] = []
        unreadable: dict[int, str] = {}
        for index, call in enumerate(self._calls):
            arguments = _read(call.arguments)
            if not isinstance(arguments, dict):
                arguments = {}
                shown = call.arguments[:_SHOWN_OF_ARGUMENTS]
                unreadable[index] = f"the arguments are not a JSON object: {shown}"
            calls.append((call.name, cast("Json", arguments)))
        return tuple(calls), unreadable

    def _take_choice(self, choice: Json) -> str:
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            self.finish_reason, self.ended = reason, True
        delta = choice.get("delta")
        if delta is None:
            return ""
        if not isinstance(delta, dict):
            raise NotAResponse("its delta is no object")
        for piece in cast("Json", delta).get("tool_calls") or ():
            self._take_call(piece)
        content = cast("Json", delta).get("content")
        if content is None:
            return ""
        if not isinstance(content, str):
            raise NotAResponse("its text is no text")
        self._grow(content)
        return self._words(content)

    def _take_call(self, piece: Any) -> None:
        if not isinstance(piece, dict) or not isinstance(piece.get("function") or {}, dict):  # pyright: ignore[reportUnknownMemberType]
            raise NotAResponse("a call is no object")
        given = cast("Json", piece)
        function = cast("Json", given.get("function") or {})
        name, identity = function.get("name") or "", given.get("id") or ""
        arguments = function.get("arguments") or ""
        if isinstance(arguments, dict):
            arguments = json.dumps(arguments)
        if not isinstance(name, str) or not isinstance(identity, str) or not isinstance(arguments, str):
            raise NotAResponse("a call is broken")
        call = self._continued(given.get("index"), identity, name)
        if call is None:
            call = _Call(given.get("index"), identity)
            self._calls.append(call)
        call.id = call.id or identity
        call.name = call.name or name
        call.arguments += arguments
        self._grow(name + arguments)

    def _continued(self, index: Any, identity: str, name: str) -> _Call | None:
        """The call that a piece goes on with, or None when it begins another one."""
        call = next((known for known in reversed(self._calls) if known.index == index), None)
        if call is None:
            return None
        if identity and call.id and identity != call.id:
            return next((known for known in self._calls if known.id == identity), None)
        repeats_name = bool(name) and (not identity or not call.id) and call.is_whole
        return None if repeats_name else call

    def _take_usage(self, usage: Any) -> None:
        if not isinstance(usage, dict):
            return
        given = cast("Json", usage)
        for ours, theirs in (("input_tokens", "prompt_tokens"), ("output_tokens", "completion_tokens")):
            count = given.get(theirs)
            if type(count) is int and count >= 0:
                self.usage[ours] = count

    def _grow(self, text: str) -> None:
        self._size += len(text)
        if self._size > MAX_RESPONSE_CHARS:
            raise NotAResponse(f"it has more than {MAX_RESPONSE_CHARS} characters")

    def _words(self, content: str) -> str:
        """What of a piece is for people: a thought at the beginning is not, nor blanks before the text."""
        if self._thinks is False:
            self.text += content
            return content
        self._raw = (self._raw + content).lstrip()
        if self._thinks is None:
            if not self._raw or (_THINKING.startswith(self._raw) and self._raw != _THINKING):
                return ""
            self._thinks = self._raw.startswith(_THINKING)
        if self._thinks:
            _, closed, rest = self._raw.partition(_THOUGHT)
            if not closed:
                self._raw = self._raw[1 - len(_THOUGHT) :]
                return ""
            self._raw, self._thinks = rest.lstrip(), None if not rest.strip() else False
            if self._thinks is None:
                return ""
        self._thinks = False
        words, self._raw = self._raw, ""
        self.text += words
        return words

    def rest(self) -> str:
        """At the end: words that were held back because a thought might have begun."""
        words = self._raw if self._thinks is None else ""
        self._raw = ""
        self.text += words
        return words


def _read(arguments: str) -> Any:
    """The value of a call's arguments; no arguments are an empty object, None when they are no JSON."""
    if not arguments.strip():
        return {}
    try:
        return json.loads(arguments)
    except ValueError:
        return None
