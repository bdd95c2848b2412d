"""Attachments: blocks that refer to stored bytes by their hash (spec/protocol.md §3.6).

Decides the shape of such a block and of a blob's name. Leaves to the server whether the bytes exist and who
may see them; they are never part of a message.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Any, cast

from lineloop.kit.records import record
from lineloop.protocol.errors import InvalidRequest, LimitExceeded

ATTACHMENT_BLOCK = "attachment"
HASH_PREFIX = "sha256:"
UNKNOWN_MEDIA_TYPE = "application/octet-stream"
MAX_ATTACHMENTS = 32
MAX_FILE_NAME_LENGTH = 255
MAX_BLOB_BYTES = 2**53

_HASH = re.compile(r"sha256:[0-9a-f]{64}")
_PART = r"[a-z0-9][a-z0-9!#$&^_.+-]{0,62}"
_MEDIA_TYPE = re.compile(f"{_PART}/{_PART}")


@record
class Blob:
    """Stored bytes. `hash` is `sha256:` and 64 hexadecimal digits; `media_type` has no parameters."""

    hash: str
    bytes: int
    media_type: str

    def to_wire(self) -> dict[str, Any]:
        return {"hash": self.hash, "bytes": self.bytes, "media_type": self.media_type}

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> Blob:
        """Raises InvalidRequest."""
        try:
            return cls(wire["hash"], wire["bytes"], wire["media_type"])
        except (KeyError, TypeError) as error:
            raise InvalidRequest(f"this is not a blob: {error}") from error

    def to_block(self, block_id: str, name: str) -> dict[str, Any]:
        """The block that attaches these bytes to a message, under a file name."""
        return {"id": block_id, "type": ATTACHMENT_BLOCK, "name": name, **self.to_wire()}


@record
class Attachment:
    """One attachment of a message's content; `pointer` says where in the request it stands."""

    block_id: str
    hash: str
    name: str
    media_type: str
    bytes: int
    pointer: str


def is_blob_hash(value: object) -> bool:
    return isinstance(value, str) and _HASH.fullmatch(value) is not None


def media_type_of(header: str | None) -> str:
    """The media type of a Content-Type header, without parameters; unknown for what is none."""
    kind = (header or "").partition(";")[0].strip().lower()
    return kind if _MEDIA_TYPE.fullmatch(kind) else UNKNOWN_MEDIA_TYPE


def is_file_name(value: object) -> bool:
    """A name without directories, control characters, or characters that turn the reading direction."""
    if not isinstance(value, str) or not value.strip() or len(value) > MAX_FILE_NAME_LENGTH:
        return False
    if value in (".", "..") or "/" in value or "\\" in value:
        return False
    return not any(_steers(character) for character in value)


def _steers(character: str) -> bool:
    if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp"):
        return True
    return "\u202a" <= character <= "\u202e" or "\u2066" <= character <= "\u2069"


def attachments_of(content: Mapping[str, Any], pointer: str = "/content") -> list[Attachment]:
    """The attachments of content whose shape was judged. Raises InvalidRequest, LimitExceeded."""
    found: list[Attachment] = []
    for index, block in enumerate(cast("list[dict[str, Any]]", content["blocks"])):
        if block["type"] == ATTACHMENT_BLOCK:
            found.append(_attachment(block, f"{pointer}/blocks/{index}"))
    if len(found) > MAX_ATTACHMENTS:
        detail = {"limit": "attachments", "max": MAX_ATTACHMENTS}
        raise LimitExceeded(f"a message has at most {MAX_ATTACHMENTS} attachments", detail=detail)
    return found


def _attachment(block: Mapping[str, Any], pointer: str) -> Attachment:
    hash_, name, kind, size = (block.get(field) for field in ("hash", "name", "media_type", "bytes"))
    if not is_blob_hash(hash_):
        raise InvalidRequest("hash is sha256: and 64 hexadecimal digits", pointer=f"{pointer}/hash")
    if not is_file_name(name):
        raise InvalidRequest("name is a file name without directories", pointer=f"{pointer}/name")
    if not isinstance(kind, str) or not _MEDIA_TYPE.fullmatch(kind):
        raise InvalidRequest("media_type is like image/png", pointer=f"{pointer}/media_type")
    if type(size) is not int or not 0 <= size <= MAX_BLOB_BYTES:
        raise InvalidRequest("bytes is the size of the blob", pointer=f"{pointer}/bytes")
    return Attachment(block["id"], cast("str", hash_), cast("str", name), kind, size, pointer)
