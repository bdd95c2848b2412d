"""The patch reducer: how a message's content grows (spec/protocol.md §3).

Pure. Decides what one patch makes of one content; leaves to others which sequence number comes next, who may
write (content.check_patch) and how patches are stored. The same rules exist in TypeScript (web/packages/ui-
model); spec/golden/patches holds the two equal. Every step copies only the path it changes: an append to a
long text shares everything else with the content before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NoReturn, cast

from lineloop.protocol.errors import PatchInvalid

Json = dict[str, Any]

CONTENT_VERSION = "1.1"
DEFAULT_BIZ = "chat"
MAX_SEQ = 2**53 - 1


class PatchOp(StrEnum):
    START = "start"
    SET = "set"
    APPEND = "append"
    ERROR = "error"
    PING = "ping"
    END = "end"


_FIELDS = frozenset({"op", "seq", "mask", "block", "meta", "model", "ts"})
_CARRIERS: dict[PatchOp, frozenset[str]] = {
    PatchOp.START: frozenset({"model"}),
    PatchOp.SET: frozenset({"block", "meta"}),
    PatchOp.APPEND: frozenset({"block", "meta"}),
    PatchOp.ERROR: frozenset({"meta"}),
    PatchOp.PING: frozenset(),
    PatchOp.END: frozenset({"meta"}),
}
_FIXED_BLOCK_FIELDS = frozenset({"id", "ref"})
_UNSAFE_SEGMENTS = frozenset({"__proto__", "constructor", "prototype"})


def empty_content(biz: str = DEFAULT_BIZ) -> Json:
    """Content without blocks: what a streaming message starts from."""
    return {"version": CONTENT_VERSION, "biz": biz, "meta": {}, "blocks": []}


def apply_patch(content: Mapping[str, Any], patch: Mapping[str, Any]) -> Json:
    """The content after `patch`; the given content is never changed. Raises PatchInvalid (§3.3)."""
    validate_patch_shape(patch)
    op = PatchOp(patch["op"])
    if op is PatchOp.PING:
        return dict(content)
    if op is PatchOp.START:
        return _started(content, patch)
    if op is PatchOp.ERROR:
        return _with_meta(content, {"error": patch["meta"]["error"]})
    if op is PatchOp.END:
        return _with_meta(content, patch.get("meta", {}))
    if "meta" in patch:
        return {**content, "meta": _meta_changed(content, op, patch)}
    return {**content, "blocks": _blocks_changed(content, op, patch)}


def fold(content: Mapping[str, Any], patches: Iterable[Mapping[str, Any]]) -> Json:
    """Applies patches in order. Raises PatchInvalid at the first that does not apply.

    Runs of appends to one text cost the sum of their lengths, not its square.
    """
    result: Json = dict(content)
    run: list[str] = []
    head: Mapping[str, Any] | None = None
    for patch in patches:
        text = _appended_text(patch)
        if head is not None and text is not None and _same_place(head, patch):
            run.append(text)
            continue
        result = _flush(result, head, run)
        head, run = None, []
        if text is None:
            result = apply_patch(result, patch)
        else:
            validate_patch_shape(patch)
            head, run = patch, [text]
    return _flush(result, head, run)


def continues_text(patch: Mapping[str, Any]) -> bool:
    """Whether this is a valid append to a block's `content` that is a text, and carries nothing else.

    The words of an answer: by far the commonest patch, told from the others at a glance. What else holds for
    a patch of this form holds for it; False says nothing against a patch.
    """
    if len(patch) != 4 or patch.get("op") != "append" or patch.get("mask") != "block.content":
        return False
    seq, block = patch.get("seq"), patch.get("block")
    if type(seq) is not int or not 1 <= seq <= MAX_SEQ or type(block) is not dict or len(block) != 2:
        return False
    name, content = block.get("id"), block.get("content")
    return type(name) is str and name != "" and type(content) is str


def validate_patch_shape(patch: Any) -> None:
    """Everything about a patch that can be judged without the content (§3.2). Raises PatchInvalid."""
    if type(patch) is dict and continues_text(patch):
        return
    if not isinstance(patch, Mapping):
        _refuse("a patch is an object", "")
    fields = cast("Mapping[str, Any]", patch)
    unknown = [name for name in fields if name not in _FIELDS]
    if unknown:
        _refuse(f"a patch has no field {unknown[0]!r}", f"/{unknown[0]}")
    raw_op = fields.get("op")
    if not isinstance(raw_op, str) or raw_op not in PatchOp.__members__.values():
        _refuse("op must be one of start, set, append, error, ping, end", "/op")
    op = PatchOp(raw_op)
    seq = fields.get("seq")
    if type(seq) is not int or not 1 <= seq <= MAX_SEQ:
        _refuse("seq is an integer from 1", "/seq")
    _validate_carrier(op, fields)
    _validate_mask(op, fields)


def _validate_carrier(op: PatchOp, patch: Mapping[str, Any]) -> None:
    carried = [name for name in ("block", "meta", "model") if name in patch]
    for name in carried:
        if name not in _CARRIERS[op]:
            _refuse(f"{op} does not take {name}", f"/{name}")
        if not isinstance(patch[name], dict):
            _refuse(f"{name} is an object", f"/{name}")
    if op in (PatchOp.SET, PatchOp.APPEND):
        if len(carried) != 1:
            _refuse(f"{op} takes exactly one of block and meta", "")
        if "block" in patch:
            block_id = patch["block"].get("id")
            if not isinstance(block_id, str) or not block_id:
                _refuse("a block has a non-empty string id", "/block/id")
    if op is PatchOp.ERROR and not isinstance(patch.get("meta", {}).get("error"), dict):
        _refuse("error carries an object meta.error", "/meta/error")
    if op is PatchOp.ERROR and len(patch["meta"]) != 1:
        _refuse("error carries meta.error and nothing else", "/meta")


def _validate_mask(op: PatchOp, patch: Mapping[str, Any]) -> None:
    mask = patch.get("mask")
    if mask is None:
        if "mask" in patch:
            _refuse("mask is a string", "/mask")
        if op is PatchOp.APPEND:
            _refuse("append needs a mask", "/mask")
        return
    if op is PatchOp.ERROR and mask == "meta.error":
        return
    if op not in (PatchOp.SET, PatchOp.APPEND):
        _refuse(f"{op} does not take a mask", "/mask")
    if not isinstance(mask, str):
        _refuse("mask is a string", "/mask")
    root, *path = mask.split(".")
    if root not in patch or not path or not all(path):
        _refuse("mask is block.<field>… or meta.<field>…, as carried", "/mask")
    if _UNSAFE_SEGMENTS.intersection(path):
        _refuse("mask names a field that no content may have", "/mask")
    if root == "block" and path[0] in _FIXED_BLOCK_FIELDS:
        _refuse(f"block.{path[0]} cannot be patched", "/mask")


def check_block(block: Any, pointer: str) -> None:
    """A block is an object with a non-empty string id and type. Raises PatchInvalid."""
    if not isinstance(block, dict):
        _refuse("a block is an object", pointer)
    for name in ("id", "type"):
        value = cast("Json", block).get(name)
        if not isinstance(value, str) or not value:
            _refuse(f"a block has a non-empty string {name}", f"{pointer}/{name}")


def check_model(content: Any, pointer: str = "") -> None:
    """The outer shape of content: version, biz, meta, blocks with unique ids (§3.1). Raises PatchInvalid."""
    if not isinstance(content, dict):
        _refuse("content is an object", pointer)
    model = cast("Json", content)
    if model.get("version") != CONTENT_VERSION:
        _refuse(f"content version must be {CONTENT_VERSION!r}", f"{pointer}/version")
    if not isinstance(model.get("biz"), str) or not model["biz"]:
        _refuse("biz is a non-empty string", f"{pointer}/biz")
    if not isinstance(model.get("meta"), dict):
        _refuse("meta is an object", f"{pointer}/meta")
    blocks = model.get("blocks")
    if not isinstance(blocks, list):
        _refuse("blocks is a list", f"{pointer}/blocks")
    seen: set[str] = set()
    for index, block in enumerate(cast("list[Any]", blocks)):
        check_block(block, f"{pointer}/blocks/{index}")
        if block["id"] in seen:
            _refuse(f"block id {block['id']!r} is not unique", f"{pointer}/blocks/{index}/id")
        seen.add(block["id"])


def _started(content: Mapping[str, Any], patch: Mapping[str, Any]) -> Json:
    if "model" not in patch:
        return dict(content)
    check_model(patch["model"], "/model")
    return dict(patch["model"])


def _with_meta(content: Mapping[str, Any], changes: Mapping[str, Any]) -> Json:
    return {**content, "meta": {**content["meta"], **changes}} if changes else dict(content)


def _meta_changed(content: Mapping[str, Any], op: PatchOp, patch: Mapping[str, Any]) -> Json:
    mask = patch.get("mask")
    if mask is None:
        return dict(patch["meta"])
    path = mask.split(".")[1:]
    return _changed_at(content["meta"], path, _carried(patch["meta"], path), op)


def _blocks_changed(content: Mapping[str, Any], op: PatchOp, patch: Mapping[str, Any]) -> list[Any]:
    block: Json = patch["block"]
    blocks: list[Any] = list(content["blocks"])
    place = next((at for at, known in enumerate(blocks) if known["id"] == block["id"]), None)
    mask = patch.get("mask")
    if mask is None:
        check_block(block, "/block")
        if place is None:
            blocks.append(block)
        else:
            blocks[place] = block
        return blocks
    if place is None:
        _refuse(f"there is no block {block['id']!r}", "/block/id")
    path = mask.split(".")[1:]
    blocks[place] = _changed_at(blocks[place], path, _carried(block, path), op)
    check_block(blocks[place], "/block")
    return blocks


def _carried(carrier: Mapping[str, Any], path: Sequence[str]) -> Any:
    value: Any = carrier
    for segment in path:
        if not isinstance(value, dict) or segment not in value:
            _refuse("the patch does not carry the field that its mask names", "/mask")
        value = cast("Json", value)[segment]
    return value


def _changed_at(target: Any, path: Sequence[str], value: Any, op: PatchOp) -> Json:
    """`target` with the field at `path` set or appended to; only set makes objects missing on the way."""
    if not isinstance(target, dict):
        _refuse("the mask leads through something that is not an object", "/mask")
    fields = cast("Json", target)
    segment, rest = path[0], path[1:]
    if rest:
        if segment not in fields and op is PatchOp.APPEND:
            _refuse("append found nothing at its mask", "/mask")
        return {**fields, segment: _changed_at(fields.get(segment, {}), rest, value, op)}
    if op is PatchOp.SET:
        return {**fields, segment: value}
    return {**fields, segment: _concatenated(fields.get(segment), value)}


def _concatenated(old: Any, more: Any) -> Any:
    if isinstance(old, str) and isinstance(more, str):
        return old + more
    if not (isinstance(old, list) and isinstance(more, list)):
        _refuse("append joins two strings or two lists", "/mask")
    return [*cast("list[Any]", old), *cast("list[Any]", more)]


def _appended_text(patch: Any) -> str | None:
    """The text of an append to a block's text, or None: only those can be joined before they are applied."""
    if not isinstance(patch, dict):
        return None
    fields = cast("Json", patch)
    block, mask = fields.get("block"), fields.get("mask")
    if fields.get("op") != "append" or not isinstance(block, dict) or not isinstance(mask, str):
        return None
    value: Any = block
    for segment in mask.split(".")[1:]:
        value = cast("Json", value).get(segment) if isinstance(value, dict) else None
    return value if isinstance(value, str) else None


def _same_place(first: Mapping[str, Any], patch: Mapping[str, Any]) -> bool:
    if first["mask"] != patch["mask"] or first["block"]["id"] != patch["block"].get("id"):
        return False
    validate_patch_shape(patch)
    return True


def _flush(content: Json, head: Mapping[str, Any] | None, run: list[str]) -> Json:
    if head is None:
        return content
    if len(run) == 1:
        return apply_patch(content, head)
    carrier: Any = "".join(run)
    for segment in reversed(head["mask"].split(".")[1:]):
        carrier = {segment: carrier}
    return apply_patch(content, {**head, "block": {**carrier, "id": head["block"]["id"]}})


def _refuse(message: str, pointer: str) -> NoReturn:
    raise PatchInvalid(message, pointer=pointer)
