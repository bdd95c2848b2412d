"""What programs may send: the body of every POST (spec/protocol.md §8.2); frames are in `link_requests`.

Decides field names, required fields, limits and fields that exclude each other. Leaves to the server who may
do it and what it means. Unknown fields are refused, so that a typo is an error and not a silence.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self, TypeVar, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from lineloop.kit import json as codec
from lineloop.protocol import body_schemas
from lineloop.protocol.actors import MAX_PART_BYTES, USER, Actor
from lineloop.protocol.content import Purpose
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import FieldError, InvalidRequest, LimitExceeded, LoopError, PatchInvalid
from lineloop.protocol.json_rules import validation_errors
from lineloop.protocol.machines import MessageStatus
from lineloop.protocol.patches import PatchOp, validate_patch_shape
from lineloop.protocol.questions import QuestionKind

MAX_KEY_BYTES = 256
MAX_META_BYTES = 32 * 1024
MAX_NAME_LENGTH = 200
MAX_QUESTION_TEXT_LENGTH = 8_000
MAX_CHOICES = 64
MAX_PAGE = 1_000
MAX_PATCHES = 1_000
MAX_QUESTION_TIMEOUT_MS = 365 * 24 * 3600 * 1000
MAX_RUN_TIMEOUT_MS = 7 * 24 * 3600 * 1000
MAX_LEASE_MS = 24 * 3600 * 1000
MAX_ORDINAL = 10**15

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")

EndStatus = Literal[MessageStatus.COMPLETED, MessageStatus.FAILED, MessageStatus.CANCELLED]


def _over(limit: str, maximum: int) -> PydanticCustomError:
    return PydanticCustomError("limit_exceeded", "{limit} is at most {max}", {"limit": limit, "max": maximum})


def at_most(limit: str, maximum: int) -> BeforeValidator:
    """Stands after a list's own bound: a breach has the code of limits and is found before the items are."""

    def check(value: Any) -> Any:
        if isinstance(value, list) and len(cast("list[Any]", value)) > maximum:
            raise _over(limit, maximum)
        return value

    return BeforeValidator(check)


def _key(value: str) -> str:
    if len(value.encode()) > MAX_KEY_BYTES:
        raise _over("key_bytes", MAX_KEY_BYTES)
    if _CONTROL.search(value):
        raise PydanticCustomError("value_error", "a key has no control characters")
    return value


def _name(value: str) -> str:
    if not value.strip() or _CONTROL.search(value):
        raise PydanticCustomError("value_error", "a name is not blank and has no control characters")
    return value


def _storable(value: str) -> str:
    if "\0" in value:
        raise PydanticCustomError("value_error", "a text with the character U+0000 cannot be stored")
    return value


def _meta(value: dict[str, Any]) -> dict[str, Any]:
    if value and len(codec.dumps(value).encode()) > MAX_META_BYTES:
        raise _over("meta_bytes", MAX_META_BYTES)
    return value


def _actor(value: Any) -> Actor:
    if isinstance(value, Actor):
        return value
    if isinstance(value, dict) and len(cast("dict[str, Any]", value)) > 2:
        raise PydanticCustomError("value_error", "an actor has kind and key, nothing else")
    try:
        return Actor.from_wire(value)
    except InvalidRequest as error:
        raise PydanticCustomError("value_error", "{reason}", {"reason": error.message}) from error


def _actor_pattern(value: Any) -> Actor:
    if not isinstance(value, str):
        return _actor(value)
    try:
        return Actor.parse(value)
    except InvalidRequest as error:
        raise PydanticCustomError("value_error", "{reason}", {"reason": error.message}) from error


def _patch(value: dict[str, Any]) -> dict[str, Any]:
    try:
        validate_patch_shape(value)
    except PatchInvalid as error:
        raise PydanticCustomError("patch_invalid", "{reason}", {"reason": error.message}) from error
    if value["op"] == PatchOp.END:
        raise PydanticCustomError("patch_invalid", "a message is ended through its end route")
    return value


def _schema(value: dict[str, Any]) -> dict[str, Any]:
    from lineloop.protocol.schemas import check_schema  # late: only bodies with a schema need its library

    try:
        check_schema(value)
    except InvalidRequest as error:
        raise PydanticCustomError("value_error", "{reason}", {"reason": error.message}) from error
    return value


def _distinct(value: list[str]) -> list[str]:
    if len(set(value)) != len(value):
        raise PydanticCustomError("value_error", "each source of tools is named once")
    return value


def _integer(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _user_key(value: str) -> str:
    _actor({"kind": USER, "key": value})
    if "*" in value:
        raise PydanticCustomError("value_error", "a person is one and no pattern")
    return value


# JSON has one kind of number: 2.0 is the integer 2, as JSON Schema has it.
WHOLE = BeforeValidator(_integer)
Key = Annotated[str, Field(min_length=1, json_schema_extra=body_schemas.KEY), AfterValidator(_key)]
Name = Annotated[
    str,
    Field(min_length=1, max_length=MAX_NAME_LENGTH, json_schema_extra=body_schemas.NAME),
    AfterValidator(_name),
]
UserKey = Annotated[
    str,
    Field(min_length=1, max_length=MAX_PART_BYTES, json_schema_extra=body_schemas.USER_KEY),
    AfterValidator(_user_key),
]
STORABLE = AfterValidator(_storable)
Id = Annotated[str, Field(min_length=1, max_length=128), STORABLE]
Meta = Annotated[dict[str, Any], AfterValidator(_meta)]
ActorField = Annotated[Actor, PlainValidator(_actor), WithJsonSchema(body_schemas.ACTOR)]
ActorPattern = Annotated[Actor, PlainValidator(_actor_pattern), WithJsonSchema(body_schemas.ACTOR_PATTERN)]
Offset = Annotated[int, Field(ge=0, le=2**53 - 1, strict=True), WHOLE]
Seq = Annotated[int, Field(ge=1, le=2**53 - 1, strict=True), WHOLE]
ToolSource = Literal["inventory", "human"]
Patch = Annotated[dict[str, Any], AfterValidator(_patch)]


class Body(BaseModel):
    """What every request body has in common."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class ConversationBody(Body):
    """POST /v1/conversations; the same `key` of the same owner names the same conversation."""

    name: Annotated[str, Field(max_length=MAX_NAME_LENGTH), STORABLE] | None = None
    key: Key | None = None


class ConversationChangeBody(Body):
    """PATCH /v1/conversations/{id}; what is left out stays as it is."""

    model_config = ConfigDict(json_schema_extra=body_schemas.some_of("name", "archived"))

    name: Name | None = None
    archived: Annotated[bool, Field(strict=True)] | None = None

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if self.name is None and self.archived is None:
            raise PydanticCustomError("value_error", "name or archived is given")
        return self


class ReadBody(Body):
    """PUT /v1/conversations/{id}/read"""

    ordinal: Annotated[int, Field(ge=0, le=MAX_ORDINAL, strict=True), WHOLE]


class ParticipantBody(Body):
    """POST /v1/conversations/{id}/participants: who is invited."""

    kind: Annotated[str, WithJsonSchema(body_schemas.ACTOR_KIND)]
    key: Annotated[str, WithJsonSchema(body_schemas.ACTOR_KEY)]

    @model_validator(mode="after")
    def _is_an_actor(self) -> Self:
        _actor({"kind": self.kind, "key": self.key})
        return self

    @property
    def actor(self) -> Actor:
        return Actor(self.kind, self.key)


class SpeakBody(Body):
    """POST /v1/conversations/{id}/messages

    One-shot: exactly one of text and content. With `stream` at most one of them, and no status. `purpose` may
    be left out: it follows from the content.
    """

    key: Key
    text: str | None = None
    content: dict[str, Any] | None = None
    actor: ActorField | None = None
    target: ActorField | None = None
    reply_to_id: Id | None = None
    purpose: Literal[Purpose.SPEECH, Purpose.INPUT, Purpose.ENVELOPE, Purpose.INVENTORY] | None = None
    stream: Annotated[bool, Field(strict=True)] = False
    status: EndStatus | None = None
    meta: Meta | None = None

    @model_validator(mode="after")
    def _exclusive(self) -> Self:
        if self.text is not None and self.content is not None:
            raise PydanticCustomError("value_error", "text and content exclude each other")
        if self.stream and self.status is not None:
            raise PydanticCustomError("value_error", "stream and status exclude each other")
        if not self.stream and self.text is None and self.content is None:
            raise PydanticCustomError("value_error", "text or content is required")
        return self


class PatchesBody(Body):
    """POST /v1/messages/{id}/patches"""

    patches: Annotated[
        list[Patch], Field(min_length=1, max_length=MAX_PATCHES), at_most("patches", MAX_PATCHES)
    ]


class EndBody(Body):
    """POST /v1/messages/{id}/end"""

    seq: Seq
    status: EndStatus = MessageStatus.COMPLETED


class PollBody(Body):
    """POST /v1/conversations/{id}/poll; `after` absent = from committed."""

    actor: ActorField | None = None
    after: Offset | None = None
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE, strict=True), WHOLE] = 100
    purpose: Annotated[list[Purpose], Field(max_length=len(Purpose))] | None = None


class CommitBody(Body):
    """POST /v1/conversations/{id}/commit"""

    actor: ActorField | None = None
    position: Offset


class Choice(Body):
    value: Annotated[str, Field(min_length=1, max_length=256)]
    label: Annotated[str, Field(min_length=1, max_length=256)]


class Labels(Body):
    """The words on the buttons of a confirm; the values stay `accepted` and `declined`."""

    accepted: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    declined: Annotated[str, Field(min_length=1, max_length=64)] | None = None


class QuestionBody(Body):
    """POST /v1/conversations/{id}/questions"""

    kind: QuestionKind
    effect_key: Key
    to: ActorField
    text: Annotated[str, Field(min_length=1, max_length=MAX_QUESTION_TEXT_LENGTH)]
    choices: Annotated[list[Choice], Field(max_length=MAX_CHOICES)] = []
    allow_other: Annotated[bool, Field(strict=True)] = False
    labels: Labels | None = None
    timeout_ms: Annotated[int, Field(ge=1, le=MAX_QUESTION_TIMEOUT_MS, strict=True), WHOLE]
    reply_to_id: Id | None = None
    actor: ActorField | None = None

    @model_validator(mode="after")
    def _choices_fit_kind(self) -> Self:
        if self.kind is QuestionKind.CONFIRM:
            if self.choices or self.allow_other:
                raise PydanticCustomError("value_error", "confirm has no choices and no allow_other")
            return self
        if self.labels is not None:
            raise PydanticCustomError("value_error", "labels belong to confirm")
        values = [choice.value for choice in self.choices]
        if len(set(values)) != len(values):
            raise PydanticCustomError("value_error", "the values of choices are unique")
        if not values and not self.allow_other:
            raise PydanticCustomError("value_error", "ask needs choices, allow_other, or both")
        return self


class AnswerBody(Body):
    """POST /v1/questions/{id}/answer; a value or a dismissal."""

    model_config = ConfigDict(json_schema_extra=body_schemas.exactly_one("value", "dismiss"))

    reply_to_id: Id
    value: Annotated[str, Field(min_length=1, max_length=MAX_QUESTION_TEXT_LENGTH)] | None = None
    dismiss: Literal[True] | None = None

    @model_validator(mode="after")
    def _one_of(self) -> Self:
        if (self.value is None) == (self.dismiss is None):
            raise PydanticCustomError("value_error", "exactly one of value and dismiss")
        return self


class HistoryItem(Body):
    """One thing that was said before; `person` and `user` are the same."""

    role: Literal["person", "user", "assistant", "system"]
    text: str


class RunBody(Body):
    """POST /v1/harness/runs; `target` names a configured harness, `history` what was said before, oldest
    first, `tools` the sources of tools.
    """

    conversation_id: Id
    idempotency_key: Key
    effect_key: Key
    target: Annotated[str, Field(min_length=1, max_length=128)]
    text: Annotated[str, Field(min_length=1)]
    history: Annotated[list[HistoryItem], Field(max_length=MAX_PAGE)] = []
    tools: Annotated[list[ToolSource], Field(max_length=32), AfterValidator(_distinct)] = []
    output_schema: Annotated[dict[str, Any], AfterValidator(_schema)] | None = None
    actor: ActorField | None = None
    recipient: ActorField | None = None
    meta: Meta | None = None
    timeout_ms: Annotated[int, Field(ge=1, le=MAX_RUN_TIMEOUT_MS, strict=True), WHOLE] = 30 * 60 * 1000


class TokenBody(Body):
    """POST /v1/tokens; `actor` is an actor or `KIND/KEY`, where the key may be `*`. Verbs that are given are
    not none.
    """

    actor: ActorPattern
    verbs: (
        Annotated[list[Annotated[str, Field(pattern=r"^[a-z_*]{1,32}$")]], Field(min_length=1, max_length=32)]
        | None
    ) = None


class ActorBody(Body):
    """PUT /v1/actors/{kind}/{key}"""

    display_name: Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH), STORABLE]
    description: Annotated[str, Field(max_length=2_000), STORABLE] | None = None
    lease_ms: Annotated[int, Field(ge=1_000, le=MAX_LEASE_MS, strict=True), WHOLE]


class UserBody(Body):
    """POST /v1/users; without a `key` the person gets a fresh one."""

    key: UserKey | None = None


class SessionBody(Body):
    """POST /v1/session: the code of an invitation, which works once."""

    code: Annotated[str, Field(min_length=1, max_length=MAX_KEY_BYTES)]


M = TypeVar("M", bound=BaseModel)


def parse_body(model: type[M], raw: bytes | bytearray | str) -> M:
    """The body in `raw`. Raises LoopError: `malformed_json` (400), `unknown_field`, `limit_exceeded`,
    `patch_invalid` or `invalid_request` (422), with the pointer of each broken place.
    """
    try:
        value = codec.loads(raw)
    except ValueError as error:
        raise malformed_json(error) from error
    return parse_value(model, value)


def parse_value(model: type[M], value: Any) -> M:
    """As `parse_body`, for a value that is parsed already."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise request_error(error) from error


def malformed_json(error: Exception) -> LoopError:
    return LoopError(f"the body is not JSON: {error}", code=ErrorCode.MALFORMED_JSON)


def request_error(error: ValidationError, prefix: str = "") -> LoopError:
    """The coded error of a Pydantic refusal. One code speaks for all places only when all have it."""
    details = error.errors(include_url=False, include_input=False)
    kinds = {str(place["type"]) for place in details}
    places = validation_errors(error, prefix)
    for kind, code in _CODES:
        if kinds == {kind}:
            limit: dict[str, Any] = details[0].get("ctx", {}) if code is ErrorCode.LIMIT_EXCEEDED else {}
            return _ERRORS.get(code, LoopError)(_sentence(places[0]), code=code, errors=places, detail=limit)
    return InvalidRequest(_sentence(places[0]), errors=places)


_CODES = (
    ("extra_forbidden", ErrorCode.UNKNOWN_FIELD),
    ("limit_exceeded", ErrorCode.LIMIT_EXCEEDED),
    ("patch_invalid", ErrorCode.PATCH_INVALID),
)


_ERRORS: dict[ErrorCode, type[LoopError]] = {
    ErrorCode.UNKNOWN_FIELD: InvalidRequest,
    ErrorCode.LIMIT_EXCEEDED: LimitExceeded,
    ErrorCode.PATCH_INVALID: PatchInvalid,
}


def _sentence(place: FieldError) -> str:
    return f"{place['pointer'] or '/'}: {place['message']}"
