"""What programs may send over the link: hello, and frames of many items (spec/protocol.md §8.3).

The items are the bodies of `requests` with the place they are for. Decides that a broken item leaves its
neighbours alone, and which breach refuses a frame as a whole.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from lineloop.kit import json as codec
from lineloop.kit.json_size import size_of_json
from lineloop.kit.records import record
from lineloop.protocol.errors import LimitExceeded, LoopError
from lineloop.protocol.requests import (
    Body,
    CommitBody,
    EndBody,
    Id,
    PatchesBody,
    SpeakBody,
    at_most,
    malformed_json,
    parse_body,
    parse_value,
    request_error,
)
from lineloop.protocol.versions import Versions

MAX_FRAME_ITEMS = 1_000
MAX_ITEM_BYTES = 1024 * 1024

M = TypeVar("M", bound=BaseModel)


class LinkHelloBody(Body):
    token: Annotated[str, Field(min_length=1, max_length=512)]
    protocol: Annotated[int, Field(ge=1, strict=True)]
    protocol_min: Annotated[int, Field(ge=1, strict=True)] | None = None

    @property
    def versions(self) -> Versions:
        """What the client speaks; without `protocol_min` one version."""
        return Versions(self.protocol_min or self.protocol, self.protocol)


class LinkHello(Body):
    """The first frame of a link."""

    hello: LinkHelloBody


class LinkSpeak(SpeakBody):
    """One item of `speak`."""

    conversation_id: Id


class LinkCommit(CommitBody):
    """One item of `commit`."""

    conversation_id: Id


class LinkPatches(PatchesBody):
    """One item of `patches`."""

    message_id: Id


class LinkEnd(EndBody):
    """One item of `end`."""

    message_id: Id


_ITEMS = frozenset({"speak", "commit", "patches", "end"})
_ITEM_LIST = Field(max_length=MAX_FRAME_ITEMS)
_FRAME_ITEMS = at_most("frame_items", MAX_FRAME_ITEMS)
FrameId = Annotated[str, Field(min_length=1, max_length=128)] | Annotated[int, Field(strict=True)]


class ClientFrame(Body):
    """A frame of a client after hello, when every item is in order."""

    id: FrameId | None = None
    speak: Annotated[list[LinkSpeak], _ITEM_LIST] = Field(default_factory=list[LinkSpeak])
    commit: Annotated[list[LinkCommit], _ITEM_LIST] = Field(default_factory=list[LinkCommit])
    patches: Annotated[list[LinkPatches], _ITEM_LIST] = Field(default_factory=list[LinkPatches])
    end: Annotated[list[LinkEnd], _ITEM_LIST] = Field(default_factory=list[LinkEnd])
    ping: dict[str, Any] | None = None
    pong: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _is_answered(self) -> Self:
        """No frame goes without an answer because it has no id. An empty list asks for its results, too."""
        if self.id is None and not self.model_fields_set & {"ping", "pong"}:
            raise PydanticCustomError("value_error", "a frame that is no ping and no pong has an id")
        if self.id is None and self.model_fields_set & _ITEMS:
            raise PydanticCustomError("value_error", "a frame with items has an id")
        return self


class _FrameHead(BaseModel):
    """What is looked for in a frame that is refused."""

    model_config = ConfigDict(extra="ignore", defer_build=True)

    id: FrameId | None = None


class _LooseFrame(ClientFrame):
    """A frame that broke some rule: which one is told here, for an item or for the frame as a whole."""

    speak: Annotated[list[Any], _ITEM_LIST, _FRAME_ITEMS] = Field(default_factory=list[Any])  # pyright: ignore[reportIncompatibleVariableOverride]
    commit: Annotated[list[Any], _ITEM_LIST, _FRAME_ITEMS] = Field(default_factory=list[Any])  # pyright: ignore[reportIncompatibleVariableOverride]
    patches: Annotated[list[Any], _ITEM_LIST, _FRAME_ITEMS] = Field(default_factory=list[Any])  # pyright: ignore[reportIncompatibleVariableOverride]
    end: Annotated[list[Any], _ITEM_LIST, _FRAME_ITEMS] = Field(default_factory=list[Any])  # pyright: ignore[reportIncompatibleVariableOverride]


@record
class LinkFrame:
    """One frame of a client. An item that breaks a rule stands as its error, so that its neighbours still
    count.

    Results are given in the order speak, commit, patches, end. `id` is None for frames without items.
    """

    id: str | int | None = None
    speak: list[LinkSpeak | LoopError] = field(default_factory=list["LinkSpeak | LoopError"])
    commit: list[LinkCommit | LoopError] = field(default_factory=list["LinkCommit | LoopError"])
    patches: list[LinkPatches | LoopError] = field(default_factory=list["LinkPatches | LoopError"])
    end: list[LinkEnd | LoopError] = field(default_factory=list["LinkEnd | LoopError"])
    ping: bool = False
    pong: bool = False


def parse_link_frame(raw: bytes | str | dict[str, Any], *, item_bytes: int = MAX_ITEM_BYTES) -> LinkFrame:
    """One frame after hello. An item has at most `item_bytes` of compact JSON, as a body has (§8.2).

    Raises LoopError when the frame itself is broken; broken items stand as errors.
    """
    try:
        if _may_exceed(raw, item_bytes):
            return _parse_items(raw, item_bytes)
        frame = _read(ClientFrame, raw)
        return LinkFrame(
            frame.id,
            [*frame.speak],
            [*frame.commit],
            [*frame.patches],
            [*frame.end],
            frame.ping is not None,
            frame.pong is not None,
        )
    except LoopError:
        return _parse_items(raw, item_bytes)


def _may_exceed(raw: bytes | str | dict[str, Any], item_bytes: int) -> bool:
    """Whether the whole frame is larger than one of its items may be."""
    if isinstance(raw, dict):
        try:
            return size_of_json(raw) > item_bytes
        except ValueError as error:
            raise malformed_json(error) from error
    # A character has at most four bytes.
    return len(raw) * 4 > item_bytes and len(raw if isinstance(raw, bytes) else _encoded(raw)) > item_bytes


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _parse_items(raw: bytes | str | dict[str, Any], item_bytes: int) -> LinkFrame:
    """Item by item, where one of them is broken or may be too large."""
    loose = _read(_LooseFrame, raw)

    def read(model: type[M], name: str, items: list[Any]) -> list[M | LoopError]:
        return [_item(model, item, f"/{name}/{at}", item_bytes) for at, item in enumerate(items)]

    return LinkFrame(
        loose.id,
        read(LinkSpeak, "speak", loose.speak),
        read(LinkCommit, "commit", loose.commit),
        read(LinkPatches, "patches", loose.patches),
        read(LinkEnd, "end", loose.end),
        loose.ping is not None,
        loose.pong is not None,
    )


def frame_id_of(raw: bytes | str | dict[str, Any]) -> str | int | None:
    """The id of a frame that is refused as a whole, if it has one that can be read."""
    try:
        value = raw if isinstance(raw, dict) else codec.loads(raw)
        return _FrameHead.model_validate(value).id
    except (ValueError, ValidationError):
        return None


def _read(model: type[M], raw: bytes | str | dict[str, Any]) -> M:
    return parse_value(model, raw) if isinstance(raw, dict) else parse_body(model, raw)


def _item(model: type[M], value: Any, pointer: str, item_bytes: int) -> M | LoopError:
    try:
        if size_of_json(value) > item_bytes:
            detail = {"limit": "body_bytes", "max": item_bytes}
            return LimitExceeded(f"{pointer}: body_bytes is at most {item_bytes}", detail=detail)
        return model.model_validate(value)
    except ValidationError as error:
        return request_error(error, pointer)
    except ValueError as error:
        return malformed_json(error)
