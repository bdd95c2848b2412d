"""What the routes take and give, for /openapi.json. Documentation only: nothing is parsed or rendered with
these.

The bodies are the protocol's own models; the answers are described here, because hot routes return stored
JSON.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from lineloop.protocol.error_codes import ERRORS, ErrorCode
from lineloop.protocol.messages import MessageStatus, Purpose
from lineloop.server.http.routing import Declared
from lineloop.server.http.statuses import answered_code, wants_status

REF = "#/components/schemas/{model}"
_PATH_PART = re.compile(r"\{(\w+)(?::\w+)?\}")


class Document(BaseModel):
    """Described when somebody asks for /openapi.json, not before."""

    model_config = ConfigDict(defer_build=True)


class ActorDocument(Document):
    kind: str
    key: str


class ContentDocument(Document):
    version: str
    biz: str
    meta: dict[str, Any]
    blocks: list[dict[str, Any]]


class MessageDocument(Document):
    """A message. `offset` is null while it streams; `run_id` is there when a run writes it."""

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
    run_id: str | None = None


class ConversationDocument(Document):
    """A conversation; `parent_id` is set on process conversations.

    `read_ordinal` and `unread` are those of the person who asks, null for anybody else.
    """

    id: str
    name: str
    owner: ActorDocument
    parent_id: str | None
    created_at: str
    archived_at: str | None
    last_ordinal: int
    updated_at: str
    read_ordinal: int | None
    unread: int | None


class ParticipantDocument(Document):
    """Who takes part; `display_name` when it was registered."""

    kind: str
    key: str
    owner: bool
    display_name: str | None
    process_conversation_id: str | None
    joined_at: str


class ParticipantList(Document):
    items: list[ParticipantDocument]
    next: str | None


class ReadDocument(Document):
    """How far the person has read, and how many messages of others lie beyond."""

    conversation_id: str
    ordinal: int
    unread: int


class SnippetDocument(Document):
    text: str
    hit: bool


class HitDocument(Document):
    """A message that was found, and the text around what was searched for."""

    message_id: str
    conversation_id: str
    root_id: str
    conversation_name: str
    archived: bool
    actor: ActorDocument
    purpose: Purpose
    ordinal: int
    created_at: str
    snippet: list[SnippetDocument]


class HitList(Document):
    items: list[HitDocument]
    next: str | None


class BlobDocument(Document):
    """Stored bytes, by the hash of their content."""

    hash: str
    bytes: int
    media_type: str


class MessageList(Document):
    items: list[MessageDocument]
    next: str | None


class ConversationList(Document):
    items: list[ConversationDocument]
    next: str | None


class ProgressDocument(Document):
    revision: int
    status: MessageStatus


class InboxDocument(Document):
    """Deliverable messages in offset order; commit `position` when they are done with."""

    messages: list[MessageDocument]
    position: int
    committed: int


class QuestionDocument(Document):
    id: str
    message_id: str
    state: str
    value: str | None
    reason: str | None
    deadline_at: str


class AnsweredDocument(Document):
    question: QuestionDocument
    answer: MessageDocument


class TokenDocument(Document):
    """`token` is shown once, when it is made."""

    id: str
    token: str
    actor: ActorDocument


class TokenLine(Document):
    """`actor` is null when what is stored of it names nobody: such a token allows nothing."""

    id: str
    actor: ActorDocument | None
    verbs: list[str] | None
    created_at: str


class TokenList(Document):
    items: list[TokenLine]
    next: str | None


class RegisteredActor(Document):
    kind: str
    key: str
    display_name: str
    description: str
    lease_until: str


class ActorList(Document):
    items: list[RegisteredActor]
    next: str | None


class UserLine(Document):
    """A person; `signed_in`: there is a browser whose cookie counts."""

    key: str
    created_at: str
    signed_in: bool
    invited_until: str | None


class InvitedDocument(UserLine):
    """`code` is shown once; it lets the person in once, until `invited_until`."""

    code: str


class UserList(Document):
    items: list[UserLine]
    next: str | None


class SessionDocument(Document):
    """`secret` is given once, together with the cookie; send it as X-Lineloop-Secret with every write."""

    user: ActorDocument
    secret: str | None


class StatusDocument(Document):
    """How the Kubernetes-shaped view refuses."""

    kind: str
    apiVersion: str
    metadata: dict[str, Any]
    status: str
    message: str
    reason: str
    details: dict[str, Any]
    code: int


class PlaceDocument(Document):
    pointer: str
    message: str


class Problem(Document):
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
    ErrorCode.UNKNOWN_FIELD,
    ErrorCode.STORAGE_UNAVAILABLE,
    ErrorCode.RATE_LIMITED,
)
_OF_CREDENTIALS = (ErrorCode.UNAUTHORIZED, ErrorCode.FORBIDDEN, ErrorCode.RATE_LIMITED)
_WITH_BODY = (
    ErrorCode.MALFORMED_JSON,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.LIMIT_EXCEEDED,
    ErrorCode.OVERLOADED,
    ErrorCode.REQUEST_TIMEOUT,
)

_models: dict[str, type[BaseModel]] = {"Problem": Problem, "StatusDocument": StatusDocument}


def document(
    answer: type[BaseModel] | None,
    *,
    body: type[BaseModel] | None = None,
    statuses: Sequence[int] = (200,),
    errors: Sequence[ErrorCode] = (),
    raw_body: bool = False,
    public: bool = False,
    media_types: Sequence[str] = (),
) -> dict[str, Any]:
    """The `openapi_extra` of a route: its body, its answers, and the problems it may answer with.

    A body without required fields may be left out. `raw_body`: bytes of any kind are sent. `public`:
    nobody is asked for a credential. `media_types`: the answer is text of these, no JSON of a model.
    """
    responses: dict[str, Any] = {}
    for status in statuses:
        responses[str(status)] = {"description": "Done"}
        if answer is not None:
            responses[str(status)]["content"] = _content(answer)
        elif media_types:
            responses[str(status)]["content"] = {name: {} for name in media_types}
    by_status: dict[int, list[str]] = {}
    common = [code for code in _COMMON if not public or code not in _OF_CREDENTIALS]
    for code in (*common, *(_WITH_BODY if body is not None else ()), *errors):
        by_status.setdefault(ERRORS[code].status, []).append(str(code))
    for status, codes in sorted(by_status.items()):
        responses[str(status)] = {
            "description": ", ".join(codes),
            "content": {"application/problem+json": {"schema": {"$ref": REF.format(model="Problem")}}},
        }
    extra: dict[str, Any] = {"responses": responses}
    if public:
        extra["security"] = []
    if body is not None:
        extra["requestBody"] = {"required": needs_body(body), "content": _content(body)}
    elif raw_body:
        bytes_ = {"schema": {"type": "string", "format": "binary"}}
        extra["requestBody"] = {"required": True, "content": {"*/*": bytes_}}
    return extra


def needs_body(model: type[BaseModel]) -> bool:
    """Whether there is a field that must be given."""
    return any(field.is_required() for field in model.model_fields.values())


def _content(model: type[BaseModel]) -> dict[str, Any]:
    _models[model.__name__] = model
    return {"application/json": {"schema": {"$ref": REF.format(model=model.__name__)}}}


def openapi_document(title: str, version: str, routes: Iterable[Declared]) -> dict[str, Any]:
    """The OpenAPI 3.1 document of all routes and their models."""
    from pydantic.json_schema import models_json_schema  # late: only documents need it

    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        path = _PATH_PART.sub(r"{\1}", route.path)
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, path)
    _, definitions = models_json_schema(
        [(model, "validation") for model in _models.values()], ref_template=REF
    )
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version},
        "paths": paths,
        "components": {
            "schemas": dict(sorted(definitions.get("$defs", {}).items())),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _operation(route: Declared, path: str) -> dict[str, Any]:
    name = route.endpoint.__name__
    described: dict[str, Any] = {
        "summary": name.replace("_", " ").title(),
        "operationId": re.sub(r"\W", "_", f"{name}{path}_{route.method.lower()}"),
    }
    if route.tags:
        described["tags"] = list(route.tags)
    if words := inspect.getdoc(route.endpoint):
        described["description"] = words
    parameters: list[dict[str, Any]] = [
        {"name": part, "in": "path", "required": True, "schema": {"type": "string"}}
        for part in _PATH_PART.findall(route.path)
    ]
    if route.query is not None:
        schema = route.query.model_json_schema(ref_template=REF)
        parameters += [
            {"name": field, "in": "query", "required": field in schema.get("required", ()), "schema": rules}
            for field, rules in schema.get("properties", {}).items()
        ]
    if parameters:
        described["parameters"] = parameters
    extra = route.openapi_extra
    if wants_status({"path": path}):
        extra = {**extra, "responses": _as_statuses(extra["responses"])}
    return {**described, **extra}


def _as_statuses(responses: Mapping[str, Any]) -> dict[str, Any]:
    """The refusals of the Kubernetes-shaped view. What is refused before any route is looked up stays a
    problem.
    """
    content = {"application/json": {"schema": {"$ref": REF.format(model="StatusDocument")}}}
    told: dict[str, Any] = {}
    for status, response in responses.items():
        if int(status) < 400 or int(status) == ERRORS[ErrorCode.HOST_NOT_ALLOWED].status:
            told[status] = response
            continue
        answered = str(answered_code(int(status)))
        words = ", ".join(filter(None, (told.get(answered, {}).get("description"), response["description"])))
        told[answered] = {"description": words, "content": {**content, **response["content"]}}
    return told
