"""Rules of messages: speak, append, end (spec/protocol.md §2, §3). Pure.

Decides what a command makes of the stored facts and raises the coded error when it may not be. Leaves ids,
counters and rows to `commit`; what a patch does to content is decided by the protocol's reducer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lineloop.kit.records import record
from lineloop.protocol.actors import HARNESS, RUNTIME, USER, Actor
from lineloop.protocol.attachments import ATTACHMENT_BLOCK
from lineloop.protocol.content import (
    CONTROLLED_BLOCK_TYPES,
    ENVELOPE_BLOCK,
    MAX_CONTENT_DEPTH,
    check_patch,
)
from lineloop.protocol.errors import Conflict, ErrorCode, Forbidden, InvalidRequest, LoopError
from lineloop.protocol.json_rules import is_deeper_than
from lineloop.protocol.messages import MessageStatus, Purpose
from lineloop.protocol.patches import PatchOp, apply_patch, continues_text
from lineloop.server.decide.access import Grant

PLAIN_TEXT_BLOCKS = frozenset({"text", "markdown"})
ORDINARY_OPS = frozenset({PatchOp.SET, PatchOp.APPEND, PatchOp.ERROR, PatchOp.PING})
ENGINE_OPS = frozenset(PatchOp) - {PatchOp.END}
_UNPATCHED = CONTROLLED_BLOCK_TYPES | {ENVELOPE_BLOCK, ATTACHMENT_BLOCK}


def decide_status(actor: Actor, *, stream: bool, status: str | None) -> MessageStatus:
    """The status a new message starts with. Raises InvalidRequest (L14, L25)."""
    if stream:
        if status is not None:
            raise InvalidRequest("stream and status exclude each other", pointer="/status")
        return MessageStatus.STREAMING
    if status is None:
        return MessageStatus.COMPLETED
    if status not in MessageStatus.__members__.values() or status == MessageStatus.STREAMING:
        raise InvalidRequest("status is completed, failed or cancelled", pointer="/status")
    if actor.kind == USER and status != MessageStatus.COMPLETED:
        raise InvalidRequest("what a person says is completed", pointer="/status")
    return MessageStatus(status)


@record
class Spoken:
    """What identifies a message that exists under a key."""

    target: Actor | None
    reply_to_id: str | None


def decide_repeat(existing: Spoken, target: Actor | None, reply_to_id: str | None) -> None:
    """A key that exists returns its message; another target or reference is a conflict (L16, L17)."""
    if existing.target != target:
        raise Conflict("this key was used for another target", code=ErrorCode.KEY_CONFLICT, pointer="/target")
    if existing.reply_to_id != reply_to_id:
        raise Conflict(
            "this key was used with another reply_to_id", code=ErrorCode.KEY_CONFLICT, pointer="/reply_to_id"
        )


def needs_process_conversation(
    *, is_root: bool, owner: Actor, target: Actor | None, purpose: Purpose
) -> bool:
    """Whether storing this message gives its target a process conversation (L3, L5)."""
    if not is_root or owner.kind != USER or target is None or purpose.carries_envelope:
        return False
    return target.kind not in (USER, RUNTIME)


def is_execution(kind: str) -> bool:
    """Whether the actor is a harness at work for someone else."""
    return kind == HARNESS or kind.startswith(f"{HARNESS}/")


def joins_by_speaking(kind: str, *, is_root: bool) -> bool:
    """Whether who speaks takes part from then on. Executions (`harness/…`) speak for someone else."""
    return is_root and kind != RUNTIME and not is_execution(kind)


@record
class StreamFacts:
    """What is known of a message that someone wants to continue. `revision` is the seq of its last patch."""

    actor: Actor
    status: MessageStatus
    revision: int
    run_id: str | None


def decide_writer(facts: StreamFacts, writer: Grant | None, run_id: str | None) -> None:
    """Only the actor continues its message, and only the run that owns it continues a run's (L97).

    `writer` is None for the server's own commands. Raises LoopError.
    """
    if facts.run_id is not None and facts.run_id != run_id:
        raise Conflict("a run writes this message", code=ErrorCode.MESSAGE_OWNED_BY_RUN)
    if writer is not None and not writer.allows(facts.actor):
        raise Forbidden(f"this credential may not act as {facts.actor}")


@record
class Appended:
    """Facts of an accepted append: the patches that are new, and the reducer state after them."""

    patches: list[dict[str, Any]]
    state: Mapping[str, Any]
    revision: int


def decide_append(
    facts: StreamFacts,
    state: Mapping[str, Any],
    patches: Sequence[dict[str, Any]],
    *,
    stored: Mapping[int, Any],
    by_engine: bool = False,
) -> Appended:
    """Which of `patches` are new and what they make of `state` (the content's shape, see stream_shape).

    `stored` holds the logged patches among the given seqs. A patch whose seq is taken must equal the stored
    one. Raises sequence_conflict, message_ended, patch_invalid, block_protected; then nothing is accepted.
    """
    fresh: list[dict[str, Any]] = []
    revision = facts.revision
    for patch in patches:
        seq = patch.get("seq")
        if type(seq) is int and 1 <= seq <= revision:
            known = stored.get(seq, next((p for p in fresh if p["seq"] == seq), None))
            if known != patch:
                raise Conflict(
                    f"patch {seq} was already written with other content",
                    code=ErrorCode.SEQUENCE_CONFLICT,
                    detail={"revision": facts.revision},
                )
            continue
        state = _next_state(facts, state, patch, revision, by_engine=by_engine)
        revision += 1
        fresh.append(patch)
    return Appended(fresh, state, revision)


def _is_more_text(state: Mapping[str, Any], patch: dict[str, Any]) -> bool:
    """Whether everybody may write this and the shape stays as it is: more words in a block of words."""
    if not continues_text(patch):
        return False
    name = patch["block"]["id"]
    block = next((known for known in state["blocks"] if known["id"] == name), None)
    return block is not None and block["type"] in PLAIN_TEXT_BLOCKS and type(block.get("content")) is str


def _next_state(
    facts: StreamFacts, state: Mapping[str, Any], patch: dict[str, Any], revision: int, *, by_engine: bool
) -> Mapping[str, Any]:
    if facts.status.ended:
        raise Conflict("the message has ended", code=ErrorCode.MESSAGE_ENDED, detail={"status": facts.status})
    if _is_more_text(state, patch) and patch["seq"] == revision + 1:
        return state
    _check_patch_depth(patch)
    after = apply_patch(state, shape_of_patch(patch))
    if patch["seq"] != revision + 1:
        raise Conflict(
            f"the next patch has seq {revision + 1}",
            code=ErrorCode.SEQUENCE_CONFLICT,
            detail={"revision": revision},
        )
    if patch["op"] not in (ENGINE_OPS if by_engine else ORDINARY_OPS):
        raise LoopError(
            f"{patch['op']} is not written as a patch", code=ErrorCode.PATCH_INVALID, pointer="/op"
        )
    if not by_engine:
        check_patch(state, patch)
        _check_written_block(after, patch)
    return after


def _check_patch_depth(patch: Mapping[str, Any]) -> None:
    """A value set at a mask lies as deep as the mask is long: bounding the sum bounds the content."""
    mask = patch.get("mask")
    levels = mask.count(".") if isinstance(mask, str) else 0
    if is_deeper_than(patch, MAX_CONTENT_DEPTH - levels):
        raise LoopError(
            f"nested more than {MAX_CONTENT_DEPTH} levels", code=ErrorCode.PATCH_INVALID, pointer=""
        )


def _check_written_block(after: Mapping[str, Any], patch: Mapping[str, Any]) -> None:
    """A type that grew letter by letter is judged by what it became."""
    block = patch.get("block")
    if not isinstance(block, dict):
        return
    written = next((b for b in after["blocks"] if b["id"] == block.get("id")), None)
    if written is not None and written["type"] in _UNPATCHED:
        raise LoopError(
            f"blocks of type {written['type']} are not written by patches",
            code=ErrorCode.BLOCK_PROTECTED,
            pointer="/block/type",
        )


def decide_end(facts: StreamFacts, seq: int, status: MessageStatus) -> bool:
    """True when the message ends now, False when it already ended so (L22, L30).

    Raises end_conflict for another status, sequence_conflict for a gap, InvalidRequest for `streaming`.
    """
    if status is MessageStatus.STREAMING:
        raise InvalidRequest("a message ends completed, failed or cancelled", pointer="/status")
    if facts.status.ended:
        if facts.status is status:
            return False
        raise Conflict(
            f"the message has already ended as {facts.status}",
            code=ErrorCode.END_CONFLICT,
            detail={"status": str(facts.status)},
        )
    if seq != facts.revision + 1:
        raise Conflict(
            f"the next event has seq {facts.revision + 1}",
            code=ErrorCode.SEQUENCE_CONFLICT,
            detail={"revision": facts.revision},
        )
    return True


def shape_of(content: Mapping[str, Any]) -> dict[str, Any]:
    """Content without its mass: strings and lists emptied, block ids and types kept.

    The reducer's verdict depends on ids and on what is a string, a list or an object, never on how much of it
    there is; so a patch applies to the shape exactly when it applies to the content, at a cost that does not
    grow with the message (B7).
    """
    return {
        **{
            name: _emptied(value)
            for name, value in content.items()
            if name not in ("version", "biz", "blocks")
        },
        "version": content["version"],
        "biz": content["biz"],
        "blocks": [_block_shape(block) for block in content["blocks"]],
    }


def shape_of_patch(patch: Mapping[str, Any]) -> dict[str, Any]:
    """The patch as it applies to a shape. Broken patches are handed on as they are, for the reducer to
    refuse.
    """
    shaped = dict(patch)
    block, meta, model = patch.get("block"), patch.get("meta"), patch.get("model")
    if isinstance(block, dict):
        shaped["block"] = _block_shape(block)
    if isinstance(meta, dict):
        shaped["meta"] = _emptied(meta)
    if isinstance(model, dict) and patch.get("op") == PatchOp.START:
        # Rare and whole: judge the real thing; its mass leaves with the next rebuild.
        shaped["model"] = model
    return shaped


def _block_shape(block: Any) -> Any:
    if not isinstance(block, dict):
        return block
    return {
        name: value if name in ("id", "type") and isinstance(value, str) else _emptied(value)
        for name, value in block.items()
    }


def _emptied(value: Any) -> Any:
    if isinstance(value, str):
        return ""
    if isinstance(value, list):
        return []
    if isinstance(value, dict):
        return {name: _emptied(item) for name, item in value.items()}
    return value
