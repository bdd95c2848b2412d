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
from lineloop.kit.records import record
from lineloop.protocol.errors import LoopError
from lineloop.protocol.requests import (
    Body,
    CommitBody,
    EndBody,
    Id,
    PatchesBody,
    SpeakBody,
    at_most,
    parse_body,
    parse_value,
    request_error,
)

PROTOCOL_VERSION = 1
MAX_FRAME_ITEMS = 1_000

M = TypeVar("M", bound=BaseModel)


class LinkHelloBody(Body):
    token: Annotated[str, Field(min_length=1, max_length=512)]
    protocol: Annotated[int, Field(ge=1, strict=True)]


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


_ITEM_LIST = Field(max_length=MAX_FRAME_ITEMS)
_FRAME_ITEMS = at_most("frame_items", MAX_FRAME_ITEMS)
FrameId = Annotated[str, Field(min_length=1, max_length=128)] | Annotated[int, Field(strict=True)]


class ClientFrame(Body):
    """A frame of a client after hello, when every item is in order."""

    id: FrameId | None = None
    speak: Annotated[list[LinkSpeak], _ITEM_LIST, _FRAME_ITEMS] = Field(default_factory=list[LinkSpeak])
    commit: Annotated[list[LinkCommit], _ITEM_LIST, _FRAME_ITEMS] = Field(default_factory=list[LinkCommit])
    patches: Annotated[list[LinkPatches], _ITEM_LIST, _FRAME_ITEMS] = Field(default_factory=list[LinkPatches])
    end: Annotated[list[LinkEnd], _ITEM_LIST, _FRAME_ITEMS] = Field(default_factory=list[LinkEnd])
    ping: dict[str, Any] | None = None
    pong: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _items_need_an_id(self) -> Self:
        if self.id is None and (self.speak or self.commit or self.patches or self.end):
            raise PydanticCustomError("value_error", "a frame with items has an id")
        return self


class _FrameHead(BaseModel):
    """What is looked for in a frame that is refused."""

    model_config = ConfigDict(extra="ignore", defer_build=True)

    id: FrameId | None = None


class _LooseFrame(ClientFrame):
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


def parse_link_frame(raw: bytes | str | dict[str, Any]) -> LinkFrame:
    """One frame after hello.

    Raises LoopError when the frame itself is broken; broken items stand as errors.
    """
    try:
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
        loose = _read(_LooseFrame, raw)
    return LinkFrame(
        loose.id,
        [_item(LinkSpeak, item, f"/speak/{at}") for at, item in enumerate(loose.speak)],
        [_item(LinkCommit, item, f"/commit/{at}") for at, item in enumerate(loose.commit)],
        [_item(LinkPatches, item, f"/patches/{at}") for at, item in enumerate(loose.patches)],
        [_item(LinkEnd, item, f"/end/{at}") for at, item in enumerate(loose.end)],
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


def _item(model: type[M], value: Any, pointer: str) -> M | LoopError:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        return request_error(error, pointer)
