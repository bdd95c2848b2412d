"""A conversation as a document to keep: JSON for programs, Markdown for people. Pure.

Decides the pieces and their order, so that the same conversation always gives the same bytes: nothing in it
depends on who exports it or when. Leaves reading, page by page, to `commit`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from lineloop.kit import json
from lineloop.protocol.actors import Actor
from lineloop.protocol.attachments import ATTACHMENT_BLOCK
from lineloop.protocol.content import content_text

FORMAT = "lineloop.conversation.v1"
# Told by their text; everything else is shown as it is stored.
_TOLD = frozenset({"text", "markdown", "ask", "confirm", "human_reply"})


class ExportFormat(StrEnum):
    """What an export is written as."""

    JSON = "json"
    MARKDOWN = "markdown"

    @property
    def media_type(self) -> str:
        return "application/json" if self is ExportFormat.JSON else "text/markdown; charset=utf-8"

    @property
    def ending(self) -> str:
        return "json" if self is ExportFormat.JSON else "md"


class JsonPieces:
    """One JSON document; messages travel as their stored text."""

    def begin(self, head: Mapping[str, Any]) -> str:
        return f'{{"format":"{FORMAT}","conversation":{json.dumps(head)},"messages":['

    def message(self, wire: Mapping[str, Any], text: str, *, first: bool) -> str:
        del wire
        return f"{'' if first else ','}\n{text}"

    def processes(self) -> str:
        return '\n],"process_conversations":['

    def begin_process(self, head: Mapping[str, Any], *, first: bool) -> str:
        return f'{"" if first else ","}\n{{"conversation":{json.dumps(head)},"messages":['

    def end_process(self) -> str:
        return "\n]}"

    def end(self) -> str:
        return "\n]}\n"


class MarkdownPieces:
    """Headings, and under each what was said as a quotation: nothing that somebody wrote looks like ours."""

    def begin(self, head: Mapping[str, Any]) -> str:
        lines = [f"# {_line(head['name']) or 'Conversation'}", "", f"- id: `{head['id']}`"]
        lines += [f"- owner: {_actor(head['owner'])}", f"- created: {head['created_at']}"]
        if head["archived_at"]:
            lines.append(f"- archived: {head['archived_at']}")
        return "\n".join([*lines, ""])

    def message(self, wire: Mapping[str, Any], text: str, *, first: bool) -> str:
        del text, first
        target = f" → {_actor(wire['target'])}" if wire["target"] else ""
        status = "" if wire["status"] == "completed" else f" · {wire['status']}"
        title = f"{_actor(wire['actor'])}{target} · {wire['created_at']} · {wire['purpose']}{status}"
        parts = [f"\n## {wire['ordinal']} · {title}\n"]
        if said := content_text(wire["content"]):
            parts.append(_quoted(said))
        parts += [shown for block in wire["content"]["blocks"] if (shown := _block(block))]
        if meta := wire["content"]["meta"]:
            parts.append(f"meta: {_code(meta)}")
        return "\n".join(parts) + "\n"

    def processes(self) -> str:
        return ""

    def begin_process(self, head: Mapping[str, Any], *, first: bool) -> str:
        del first
        return f"\n# Working messages of {_actor(head['owner'])}\n\n- id: `{head['id']}`\n"

    def end_process(self) -> str:
        return ""

    def end(self) -> str:
        return ""


Pieces = JsonPieces | MarkdownPieces


def pieces_of(export_format: ExportFormat) -> Pieces:
    return JsonPieces() if export_format is ExportFormat.JSON else MarkdownPieces()


def file_name(name: str, export_format: ExportFormat) -> str:
    """A name for the download: the conversation's, without what file systems do not take."""
    kept = "".join(character if character.isalnum() or character in " -_." else "_" for character in name)
    return f"{kept.strip(' .')[:80] or 'conversation'}.{export_format.ending}"


def _actor(wire: Mapping[str, Any]) -> str:
    return f"`{_line(str(Actor.from_wire(wire)))}`"


def _line(text: str) -> str:
    """On one line, and without what would end the code it stands in."""
    return " ".join(text.split()).replace("`", "'")


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())


def _block(block: Mapping[str, Any]) -> str:
    if block["type"] == ATTACHMENT_BLOCK:
        about = f"{block['media_type']}, {block['bytes']} bytes"
        return f"- attachment `{_line(block['name'])}` ({about}): `{block['hash']}`"
    if block["type"] in _TOLD or (block["type"] == "result" and block.get("format") == "text"):
        return ""
    return f"- {_code(block)}"


def _code(value: Any) -> str:
    text = json.dumps(value)
    fence = "`"
    while fence in text:
        fence += "`"
    return f"{fence} {text} {fence}"
