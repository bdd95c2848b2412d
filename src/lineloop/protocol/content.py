"""Content: what a message says, and which parts of it only the system may write (spec/protocol.md §3, §4).

Decides the shape of content, its readable text, the purpose that follows from it, and which blocks and meta
keys are controlled. Leaves to others who is allowed to write controlled parts (a run, the human commands).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NoReturn, cast

from lineloop.protocol.actors import RUNTIME, USER, Actor
from lineloop.protocol.attachments import ATTACHMENT_BLOCK, attachments_of
from lineloop.protocol.errors import ErrorCode, Forbidden, InvalidRequest, LoopError, PatchInvalid
from lineloop.protocol.json_rules import check_depth
from lineloop.protocol.patches import PatchOp, check_model, empty_content

TEXT_BLOCK = "text"
MARKDOWN_BLOCK = "markdown"
RESULT_BLOCK = "result"
ENVELOPE_BLOCK = "envelope"
ASK_BLOCK = "ask"
CONFIRM_BLOCK = "confirm"
HUMAN_REPLY_BLOCK = "human_reply"

CONTROLLED_BLOCK_TYPES = frozenset({ASK_BLOCK, CONFIRM_BLOCK, HUMAN_REPLY_BLOCK, RESULT_BLOCK})
CONTROLLED_META = frozenset({"output", "question", "answer"})
MAX_CONTENT_DEPTH = 128

INVENTORY_TYPE = "lineup.runtime.inventory"
DEVICE_TYPES = frozenset(
    {"lineup.tool.accepted", "lineup.tool.progress", "lineup.tool.result", "lineup.tool.error"}
)


class Purpose(StrEnum):
    """What a message is for. Envelope and inventory messages are traffic between programs (§2.3)."""

    SPEECH = "speech"
    INPUT = "input"
    QUESTION = "question"
    ANSWER = "answer"
    RUN = "run"
    ENVELOPE = "envelope"
    INVENTORY = "inventory"

    @property
    def carries_envelope(self) -> bool:
        return self in (Purpose.ENVELOPE, Purpose.INVENTORY)


def text_content(
    text: str, *, markdown: bool = False, meta: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Content with one block `{"id":"text","type":"text"|"markdown","content":text}`."""
    block = {"id": "text", "type": MARKDOWN_BLOCK if markdown else TEXT_BLOCK, "content": text}
    return {**empty_content(), "meta": dict(meta or {}), "blocks": [block]}


def envelope_content(envelope: Mapping[str, Any]) -> dict[str, Any]:
    """Content that carries one envelope (§7.1)."""
    block = {"id": "envelope", "type": ENVELOPE_BLOCK, "envelope": dict(envelope)}
    return {**empty_content(), "blocks": [block]}


def result_block(result_format: str, content: Any) -> dict[str, Any]:
    """The final block of a run's output; `result_format` is `text` or `json` (§6.3)."""
    return {"id": RESULT_BLOCK, "type": RESULT_BLOCK, "format": result_format, "content": content}


def error_meta(code: str, message: str) -> dict[str, Any]:
    """`{"error": {"code", "message"}}`: the public reason of a failed message."""
    return {"error": {"code": code, "message": message}}


def content_text(content: Mapping[str, Any]) -> str:
    """The readable text: text and markdown blocks, questions and replies, joined by blank lines.

    A text result counts only when the blocks before it do not already say the same.
    """
    parts: list[str] = []
    for block in content.get("blocks", ()):
        text = _block_text(block)
        if text and not (block.get("type") == RESULT_BLOCK and text == "\n\n".join(parts)):
            parts.append(text)
    return "\n\n".join(parts)


def _block_text(block: Mapping[str, Any]) -> str:
    kind = block.get("type")
    value: Any = None
    if kind in (TEXT_BLOCK, MARKDOWN_BLOCK) or (kind == RESULT_BLOCK and block.get("format") == "text"):
        value = block.get("content")
    elif kind in (ASK_BLOCK, CONFIRM_BLOCK):
        value = block.get("text")
    elif kind == HUMAN_REPLY_BLOCK:
        value = block.get("label") or block.get("value")
    return value if isinstance(value, str) else ""


def writes_markdown(content: Mapping[str, Any]) -> bool:
    """Whether words of an output are markdown; its result, which does not say so itself, reads as they do."""
    return any(block.get("type") == MARKDOWN_BLOCK for block in content.get("blocks", ()))


def envelope_of(content: Mapping[str, Any]) -> dict[str, Any] | None:
    """The raw envelope when the content is exactly one envelope block, else None."""
    blocks = content.get("blocks")
    if not isinstance(blocks, list) or len(cast("list[Any]", blocks)) != 1:
        return None
    block: Any = blocks[0]
    if not isinstance(block, dict) or cast("dict[str, Any]", block).get("type") != ENVELOPE_BLOCK:
        return None
    envelope: Any = block.get("envelope")
    return cast("dict[str, Any]", envelope) if isinstance(envelope, dict) else None


def derive_purpose(actor: Actor, content: Mapping[str, Any], asked: Purpose | None = None) -> Purpose:
    """The purpose of a spoken message (§2.3).

    One envelope block makes it `envelope`, or `inventory` when it publishes one; else people give `input` and
    others `speech`. `asked` is what the speaker named. Raises InvalidRequest when the content contradicts it,
    Forbidden when anyone but a device speaks what only devices say: receipts, results, inventories.
    """
    envelope = envelope_of(content)
    if envelope is not None and actor.kind != RUNTIME and _is_a_devices_word(envelope):
        raise Forbidden(f"only a device speaks {envelope['type']}", pointer="/content/blocks/0/envelope/type")
    if envelope is None:
        natural = Purpose.INPUT if actor.kind == USER else Purpose.SPEECH
        if asked in (None, natural, Purpose.SPEECH, Purpose.INPUT):
            return asked or natural
        raise InvalidRequest(f"purpose {asked} does not fit this content", pointer="/purpose")
    if asked is not None:
        if asked is Purpose.INVENTORY and actor.kind != RUNTIME:
            raise Forbidden("only a device publishes inventories", pointer="/purpose")
        if asked.carries_envelope:
            return asked
        raise InvalidRequest("an envelope needs the purpose envelope or inventory", pointer="/purpose")
    return Purpose.INVENTORY if _publishes(envelope) else Purpose.ENVELOPE


def _publishes(envelope: Mapping[str, Any]) -> bool:
    """Whether this tells an inventory; an agent's question for one has no revision."""
    payload: Any = envelope.get("payload")
    return (
        envelope.get("type") == INVENTORY_TYPE
        and isinstance(payload, dict)
        and cast("dict[str, Any]", payload).get("revision") is not None
    )


def _is_a_devices_word(envelope: Mapping[str, Any]) -> bool:
    type_ = envelope.get("type")
    return isinstance(type_, str) and (type_ in DEVICE_TYPES or _publishes(envelope))


def validate_content(
    content: Any, *, allow_controlled: bool = False, streaming: bool = False, text: str | None = None
) -> None:
    """Judges content that someone wants to store (§3.1, §4). `text` is its JSON text, if the caller has it.

    Raises InvalidRequest with a pointer for its shape, LoopError `block_protected` for controlled parts
    unless `allow_controlled`. An envelope block stands alone and never in a streaming message.
    """
    try:
        check_depth(content, MAX_CONTENT_DEPTH, text)
        check_model(content, "/content")
    except PatchInvalid as error:
        raise InvalidRequest(error.message, errors=error.errors) from error
    if not allow_controlled:
        for key in content["meta"]:
            if key in CONTROLLED_META:
                _protected(f"meta.{key} is written by the system only", f"/content/meta/{key}")
    for index, block in enumerate(content["blocks"]):
        pointer = f"/content/blocks/{index}"
        if block["type"] == ENVELOPE_BLOCK:
            if streaming or len(content["blocks"]) != 1 or not isinstance(block.get("envelope"), dict):
                raise InvalidRequest("an envelope block stands alone, whole and ended", pointer=pointer)
        elif not allow_controlled and block["type"] in CONTROLLED_BLOCK_TYPES:
            _protected(f"blocks of type {block['type']} are written by the system only", pointer)
    attachments_of(content)


def check_patch(content: Mapping[str, Any], patch: Mapping[str, Any]) -> None:
    """Refuses an ordinary writer's patch that would write controlled parts (§4). The shape is judged
    elsewhere.

    Raises LoopError `block_protected`.
    """
    model = patch.get("model")
    if isinstance(model, dict):
        _check_meta(cast("dict[str, Any]", model).get("meta"), "/model/meta")
        blocks: Any = cast("dict[str, Any]", model).get("blocks")
        for block in cast("list[Any]", blocks) if isinstance(blocks, list) else []:
            _check_block_type(block, "/model/blocks")
    if patch.get("op") != PatchOp.ERROR:
        _check_meta(patch.get("meta"), "/meta")
    block = patch.get("block")
    if not isinstance(block, dict):
        return
    _check_block_type(block, "/block")
    known = next(
        (b for b in content.get("blocks", ()) if b.get("id") == cast("dict[str, Any]", block).get("id")), None
    )
    if known is not None:
        _check_block_type(known, "/block")


def _check_meta(meta: Any, pointer: str) -> None:
    if isinstance(meta, dict):
        for key in cast("dict[str, Any]", meta):
            if key in CONTROLLED_META:
                _protected(f"meta.{key} is written by the system only", f"{pointer}/{key}")


def _check_block_type(block: Any, pointer: str) -> None:
    kind: Any = cast("dict[str, Any]", block).get("type") if isinstance(block, dict) else None
    if kind == ATTACHMENT_BLOCK:
        _protected("attachments are spoken with their message and stay as they are", pointer)
    if isinstance(kind, str) and (kind in CONTROLLED_BLOCK_TYPES or kind == ENVELOPE_BLOCK):
        _protected(f"blocks of type {kind} are written by the system only", pointer)


def _protected(message: str, pointer: str) -> NoReturn:
    raise LoopError(message, code=ErrorCode.BLOCK_PROTECTED, pointer=pointer)
