"""Routes of messages: speak, read, append, end. The writing ones are hot: they take the raw request."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from lineloop.protocol.errors import ErrorCode, InvalidRequest
from lineloop.protocol.messages import Purpose
from lineloop.protocol.requests import EndBody, PatchesBody, SpeakBody, parse_body
from lineloop.server.decide.access import Verb
from lineloop.server.http.bodies import append_command, end_command, raw_body, speak_command
from lineloop.server.http.documents import MessageDocument, MessageList, ProgressDocument, document
from lineloop.server.http.lists import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    Query,
    json_response,
    page_response,
    text_response,
)
from lineloop.server.http.routing import Routes
from lineloop.server.http.services import Services
from lineloop.server.store import history
from lineloop.server.store.history import HistoryFilter

_SPEAK_ERRORS = (ErrorCode.CONVERSATION_NOT_FOUND, ErrorCode.KEY_CONFLICT, ErrorCode.BLOCK_PROTECTED)
_STREAM_ERRORS = (
    ErrorCode.MESSAGE_NOT_FOUND,
    ErrorCode.SEQUENCE_CONFLICT,
    ErrorCode.MESSAGE_ENDED,
    ErrorCode.MESSAGE_OWNED_BY_RUN,
    ErrorCode.PATCH_INVALID,
)
_READABLE = tuple(purpose for purpose in Purpose if not purpose.carries_envelope)
_ALL = "all"

Ordinal = Annotated[str | None, Field(max_length=15, pattern="^[0-9]*$")]


class HistoryQuery(Query):
    """How history is read; `after` and `before` are exclusive ordinals, or the cursor of a page."""

    after: Ordinal = None
    before: Ordinal = None
    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT)] = DEFAULT_LIMIT
    order: Literal["asc", "desc"] = "asc"
    reply_to_id: Annotated[str | None, Field(max_length=128)] = None
    purpose: Annotated[str | None, Field(max_length=200)] = None
    call_id: Annotated[str | None, Field(max_length=256)] = None

    def asked(self, conversation_id: str) -> HistoryFilter:
        """One more than a page holds, so that its end is known. Raises InvalidRequest."""
        precise = self.call_id is not None or self.reply_to_id is not None
        return HistoryFilter(
            conversation_id=conversation_id,
            after=int(self.after) if self.after else None,
            before=int(self.before) if self.before else None,
            limit=self.limit + 1,
            descending=self.order == "desc",
            reply_to_id=self.reply_to_id,
            call_id=self.call_id,
            purposes=_purposes(self.purpose, precise=precise),
        )


def message_routes(services: Services) -> Routes:
    router = Routes(prefix="/v1", tags=["messages"])
    commits, ids = services.commits, services.ids

    @router.post(
        "/conversations/{conversation_id}/messages",
        openapi_extra=document(MessageDocument, body=SpeakBody, statuses=(200, 201), errors=_SPEAK_ERRORS),
    )
    async def speak(request: Request, conversation_id: str) -> Response:
        """201 for a new message, 200 for the one that exists under the key."""
        grant = await services.grant(request, Verb.SPEAK)
        body = parse_body(SpeakBody, await raw_body(request))
        answer = await commits.speak(speak_command(grant, conversation_id, body, ids))
        return text_response(answer.message.to_json(), 201 if answer.created else 200)

    @router.post(
        "/messages/{message_id}/patches",
        openapi_extra=document(ProgressDocument, body=PatchesBody, statuses=(202,), errors=_STREAM_ERRORS),
    )
    async def append(request: Request, message_id: str) -> Response:
        grant = await services.grant(request, Verb.SPEAK)
        body = parse_body(PatchesBody, await raw_body(request))
        progress = await commits.append(append_command(grant, message_id, body))
        return json_response(progress.to_wire(), 202)

    @router.post(
        "/messages/{message_id}/end",
        openapi_extra=document(
            ProgressDocument, body=EndBody, statuses=(202,), errors=(*_STREAM_ERRORS, ErrorCode.END_CONFLICT)
        ),
    )
    async def end(request: Request, message_id: str) -> Response:
        grant = await services.grant(request, Verb.SPEAK)
        body = parse_body(EndBody, await raw_body(request))
        progress = await commits.end(end_command(grant, message_id, body))
        return json_response(progress.to_wire(), 202)

    @router.get(
        "/messages/{message_id}",
        openapi_extra=document(MessageDocument, errors=(ErrorCode.MESSAGE_NOT_FOUND,)),
    )
    async def get_message(request: Request, message_id: str) -> Response:
        grant = await services.grant(request, Verb.READ)
        return text_response((await services.visible_message(grant, message_id)).to_json())

    @router.get(
        "/conversations/{conversation_id}/messages",
        openapi_extra=document(MessageList, errors=(ErrorCode.CONVERSATION_NOT_FOUND,)),
        query=HistoryQuery,
    )
    async def read_history(request: Request, conversation_id: str, query: HistoryQuery) -> Response:
        """History by ordinal; moves no cursor. Without `purpose`, `call_id` or `reply_to_id`, what people and
        agents said to each other, without the traffic between programs; `purpose=all` gives everything.
        """
        grant = await services.grant(request, Verb.READ)
        await services.visible_conversation(grant, conversation_id)
        asked = query.asked(conversation_id)
        found = await commits.read(lambda tx: history.page(tx, asked))
        limit = query.limit
        items = [message.to_json() for message in found[:limit]]
        return page_response(items, str(found[limit - 1].ordinal) if len(found) > limit else None)

    services.hot.add("conversations", "messages", speak)
    services.hot.add("messages", "patches", append)
    services.hot.add("messages", "end", end)
    return router


def _purposes(given: str | None, *, precise: bool) -> tuple[Purpose, ...]:
    """The purposes to read; none means all of them."""
    if given is None or given == "":
        return () if precise else _READABLE
    if given == _ALL:
        return ()
    try:
        return tuple(Purpose(name) for name in given.split(","))
    except ValueError:
        raise InvalidRequest("there is no such purpose", pointer="/purpose") from None
