"""Pages of lists: a limit, a cursor, `{"items", "next"}` (spec/protocol.md §5.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError
from starlette.responses import Response

from lineloop.kit import json

DEFAULT_LIMIT = 50
MAX_LIMIT = 500


class Query(BaseModel):
    """What may stand after the `?` of a path; a route without a model of its own takes nothing there."""

    model_config = ConfigDict(extra="forbid", defer_build=True)
    free_texts: ClassVar[frozenset[str]] = frozenset()
    """What is never compared with what is stored, and may hold any character."""

    @field_validator("*", mode="before")
    @classmethod
    def _names_something(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, str) and "\0" in value and info.field_name not in cls.free_texts:
            raise PydanticCustomError("value_error", "no text with the character U+0000 is stored")
        return value


class PageQuery(Query):
    """Which page of a list."""

    after: Annotated[str, Field(max_length=300)] = ""
    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT)] = DEFAULT_LIMIT


class JsonResponse(Response):
    """Rendered JSON. Its headers are always the same two, so they are not worked out anew."""

    def __init__(self, body: bytes, status: int) -> None:
        self.status_code = status
        self.body = body
        self.background = None
        self.raw_headers = [
            (b"content-length", str(len(body)).encode()),
            (b"content-type", b"application/json"),
        ]


def json_response(value: Any, status: int = 200) -> Response:
    return JsonResponse(json.dumps(value).encode(), status)


def text_response(text: str, status: int = 200) -> Response:
    """For JSON that is rendered already."""
    return JsonResponse(text.encode(), status)


def page_response(items: Sequence[str], next_cursor: str | None) -> Response:
    """A page of rendered items."""
    return text_response(f'{{"items":[{",".join(items)}],"next":{json.dumps(next_cursor)}}}')
