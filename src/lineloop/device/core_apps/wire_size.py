"""Keeps what goes to a page within its frames: a message that is too large for one is shortened and says so.

Pure. Decides what of a large message a page gets; the whole of it stays with the device and the server.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from lineloop.kit.json_size import size_of_json

# A frame has 1.25 MiB; what stands around the messages, and the shell's own wrapper, need some of it.
MAX_MESSAGE_BYTES = 900_000
MAX_MESSAGES_BYTES = 1_000_000
# `state.changed` has 256 KiB.
MAX_CONVERSATIONS_BYTES = 180_000


def fitted(wire: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """A message as a page can take it, and its size in bytes.

    A shortened one has `"cut": true`: its first blocks, the last of them without its end.
    """
    size = size_of_json(wire)
    if size <= MAX_MESSAGE_BYTES:
        return wire, size
    content = cast("Mapping[str, Any]", wire["content"])
    room = MAX_MESSAGE_BYTES // 2
    blocks: list[dict[str, Any]] = []
    for block in cast("list[dict[str, Any]]", content.get("blocks") or []):
        block_size = size_of_json(block)
        if block_size > room:
            text = block.get("content")
            if isinstance(text, str):
                # At most six bytes of JSON per character.
                blocks.append(
                    {"id": block.get("id"), "type": block.get("type"), "content": text[: room // 6]}
                )
            break
        blocks.append(block)
        room -= block_size
    meta = content.get("meta")
    kept = {**content, "blocks": blocks}
    if size_of_json(meta) > MAX_MESSAGE_BYTES // 4:
        kept["meta"] = {}
    shortened = {**wire, "content": kept, "cut": True}
    return shortened, size_of_json(shortened)


def newest_within(
    messages: list[dict[str, Any]], room: int = MAX_MESSAGES_BYTES
) -> tuple[list[dict[str, Any]], int]:
    """The last messages of an ascending list that fit together, and how many bytes are left."""
    taken: list[dict[str, Any]] = []
    for wire in reversed(messages):
        shown, size = fitted(wire)
        if size > room:
            break
        taken.append(shown)
        room -= size
    taken.reverse()
    return taken, room


def first_within(lines: list[dict[str, Any]], room: int) -> list[dict[str, Any]]:
    """The first lines of a list that fit together."""
    taken: list[dict[str, Any]] = []
    for line in lines:
        room -= size_of_json(line) + 1
        if room < 0:
            break
        taken.append(line)
    return taken
