"""What the routes take and give, for /openapi.json. Documentation only: nothing is parsed or rendered with
these.

The bodies are the protocol's own models; the answers are described here, because hot routes return stored
JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from lineloop.protocol.error_codes import ERRORS, ErrorCode
from lineloop.protocol.messages import MessageStatus, Purpose

REF = "#/components/schemas/{model}"


class ActorDocument(BaseModel):
    kind: str
    key: str


class ContentDocument(BaseModel):
    version: str
    biz: str
    meta: dict[str, Any]
    blocks: list[dict[str, Any]]


class MessageDocument(BaseModel):
    """A message. `offset` is null while it streams."""

    id: str
    conversation_id: str
    actor: ActorDocument
    target: ActorDocument | None
    key: str
    reply_to_id: str | None
    purpose: Purpose
    status: MessageStatus
    revision: int
    ordinal: int
    offset: int | None
    content: ContentDocument
    created_at: str
    updated_at: str
    change: int
    on_behalf_of: ActorDocument | None = None


class ConversationDocument(BaseModel):
    """A conversation; `parent_id` is set on process conversations."""

    id: str
    name: str
    owner: ActorDocument
    parent_id: str | None
    created_at: str


class MessageList(BaseModel):
    items: list[MessageDocument]
    next: str | None


class ConversationList(BaseModel):
    items: list[ConversationDocument]
    next: str | None


class ProgressDocument(BaseModel):
    revision: int
    status: MessageStatus


class InboxDocument(BaseModel):
    """Deliverable messages in offset order; commit `position` when they are done with."""

    messages: list[MessageDocument]
    position: int
    committed: int


class QuestionDocument(BaseModel):
    id: str
    message_id: str
    state: str
    value: str | None
    reason: str | None
    deadline_at: str


class AnsweredDocument(BaseModel):
    question: QuestionDocument
    answer: MessageDocument


class TokenDocument(BaseModel):
    """`token` is shown once, when it is made."""

    id: str
    token: str
    actor: ActorDocument


class TokenLine(BaseModel):
    id: str
    actor: ActorDocument
    verbs: list[str] | None
    created_at: str


class TokenList(BaseModel):
    items: list[TokenLine]
    next: str | None


class RegisteredActor(BaseModel):
    kind: str
    key: str
    display_name: str
    description: str
    lease_until: str


class ActorList(BaseModel):
    items: list[RegisteredActor]
    next: str | None


class SessionDocument(BaseModel):
    """`secret` is given once, together with the cookie; send it as X-Lineloop-Secret with every write."""

    user: ActorDocument
    secret: str | None


class PlaceDocument(BaseModel):
    pointer: str
    message: str


class Problem(BaseModel):
    """An RFC 9457 problem document. `code` is the contract."""

    type: str
    title: str
    status: int
    code: ErrorCode
    detail: str
    retryable: bool
    errors: list[PlaceDocument] | None = None
    context: dict[str, Any] | None = None


_COMMON = (
    ErrorCode.UNAUTHORIZED,
    ErrorCode.FORBIDDEN,
    ErrorCode.HOST_NOT_ALLOWED,
    ErrorCode.STORAGE_UNAVAILABLE,
)
_WITH_BODY = (
    ErrorCode.MALFORMED_JSON,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.LIMIT_EXCEEDED,
    ErrorCode.OVERLOADED,
)

_models: dict[str, type[BaseModel]] = {"Problem": Problem}


def document(
    answer: type[BaseModel] | None,
    *,
    body: type[BaseModel] | None = None,
    statuses: Sequence[int] = (200,),
    errors: Sequence[ErrorCode] = (),
) -> dict[str, Any]:
    """The `openapi_extra` of a route: its body, its answers, and the problems it may answer with."""
    responses: dict[str, Any] = {}
    for status in statuses:
        responses[str(status)] = {"description": "Done"}
        if answer is not None:
            responses[str(status)]["content"] = _content(answer)
    by_status: dict[int, list[str]] = {}
    for code in (*_COMMON, *(_WITH_BODY if body is not None else ()), *errors):
        by_status.setdefault(ERRORS[code].status, []).append(str(code))
    for status, codes in sorted(by_status.items()):
        responses[str(status)] = {
            "description": ", ".join(codes),
            "content": {"application/problem+json": {"schema": {"$ref": REF.format(model="Problem")}}},
        }
    extra: dict[str, Any] = {"responses": responses}
    if body is not None:
        extra["requestBody"] = {"required": True, "content": _content(body)}
    return extra


def _content(model: type[BaseModel]) -> dict[str, Any]:
    _models[model.__name__] = model
    return {"application/json": {"schema": {"$ref": REF.format(model=model.__name__)}}}


def install_openapi(app: FastAPI) -> None:
    """Puts the schemas of all documented models into the application's OpenAPI document."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = get_openapi(title=app.title, version=app.version, routes=app.routes)
            _, definitions = models_json_schema(
                [(model, "validation") for model in _models.values()], ref_template=REF
            )
            schemas = schema.setdefault("components", {}).setdefault("schemas", {})
            schemas.update(definitions.get("$defs", {}))
            schema["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            schema["security"] = [{"token": []}]
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = openapi
