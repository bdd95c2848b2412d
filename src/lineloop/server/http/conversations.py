"""Routes of conversations: create, read, list, stream."""

from __future__ import annotations

import hashlib
from typing import Annotated, Literal
from urllib.parse import quote

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from lineloop.kit import json
from lineloop.kit.database import Tx
from lineloop.protocol.actors import Actor
from lineloop.protocol.body_schemas import ACTOR_TEXT
from lineloop.protocol.errors import ErrorCode, InvalidRequest, LimitExceeded
from lineloop.protocol.messages import ConversationInfo
from lineloop.protocol.requests import (
    MAX_KEY_BYTES,
    ConversationBody,
    ConversationChangeBody,
    ReadBody,
    parse_body,
)
from lineloop.server.commit.caring import ChangeConversation, card_in, change_conversation_in, mark_read_in
from lineloop.server.commit.exporting import exported
from lineloop.server.commit.participation import CreateConversation
from lineloop.server.commit.visibility import visible_children, visible_roots
from lineloop.server.decide.access import Verb
from lineloop.server.decide.exporting import ExportFormat, file_name, pieces_of
from lineloop.server.http.bodies import raw_body
from lineloop.server.http.documents import (
    ConversationDocument,
    ConversationList,
    ReadDocument,
    document,
)
from lineloop.server.http.lists import PageQuery, Query, json_response, page_response
from lineloop.server.http.routing import Routes
from lineloop.server.http.services import EPOCH_HEADER, EVENT_STREAM, Services
from lineloop.server.http.sse import Viewer

_ARCHIVED = {"true": True, "false": False, "any": None}
_EXPORTS = tuple(one.media_type.partition(";")[0] for one in ExportFormat)
_MISSING = (ErrorCode.CONVERSATION_NOT_FOUND,)


class ConversationsQuery(PageQuery):
    parent_id: Annotated[str | None, Field(max_length=128)] = None
    actor: Annotated[str | None, Field(max_length=300, json_schema_extra=ACTOR_TEXT)] = None
    archived: Literal["true", "false", "any"] = "false"


class ExportQuery(Query):
    format: Literal["json", "markdown"] = "json"


def conversation_routes(services: Services) -> Routes:
    router = Routes(prefix="/v1", tags=["conversations"])

    @router.post(
        "/conversations",
        openapi_extra=document(ConversationDocument, body=ConversationBody, statuses=(200, 201)),
    )
    async def create_conversation(request: Request) -> Response:
        """201 for a new one, 200 for the one that the same owner made under the same `key`.

        The header `Idempotency-Key` counts as `key` where the body has none.
        """
        grant = await services.grant(request, Verb.CREATE)
        body = parse_body(ConversationBody, await raw_body(request, needed=False))
        owner = grant.actor()
        key = body.key if body.key is not None else (request.headers.get("idempotency-key") or None)
        conversation_id = services.ids.make("con") if key is None else _id_of_key(owner, key)
        command = CreateConversation(conversation_id, body.name or "", owner)
        conversation, is_new = await services.commits.create_conversation(command)
        info = await services.commits.read(lambda tx: card_in(tx, conversation, grant))
        return json_response(info.to_wire(), 201 if is_new else 200)

    @router.get("/conversations", openapi_extra=document(ConversationList), query=ConversationsQuery)
    async def list_conversations(request: Request, query: ConversationsQuery) -> Response:
        """Root conversations that one takes part in, of `actor` too if named; with `parent_id` the process
        conversations under it (L2, L4). Archived ones only where `archived` asks for them.
        """
        parent_id, after, limit = query.parent_id, query.after, query.limit
        grant = await services.grant(request, Verb.READ)
        actor = Actor.parse(query.actor) if query.actor else None
        archived = _ARCHIVED[query.archived]

        def read(tx: Tx) -> list[ConversationInfo]:
            if parent_id is None:
                found = visible_roots(
                    tx, grant, after=after, limit=limit + 1, member=actor, archived=archived
                )
            else:
                found = visible_children(tx, grant, parent_id, after=after, limit=limit + 1, actor=actor)
            return [card_in(tx, one, grant) for one in found]

        found = await services.commits.read(read)
        items = [json.dumps(info.to_wire()) for info in found[:limit]]
        return page_response(items, found[limit - 1].id if len(found) > limit else None)

    @router.get(
        "/conversations/{conversation_id}", openapi_extra=document(ConversationDocument, errors=_MISSING)
    )
    async def get_conversation(request: Request, conversation_id: str) -> Response:
        grant = await services.grant(request, Verb.READ)
        conversation = await services.visible_conversation(grant, conversation_id)
        info = await services.commits.read(lambda tx: card_in(tx, conversation, grant))
        return json_response(info.to_wire())

    @router.patch(
        "/conversations/{conversation_id}",
        openapi_extra=document(ConversationDocument, body=ConversationChangeBody, errors=_MISSING),
    )
    async def change_conversation(request: Request, conversation_id: str) -> Response:
        """Names, archives or brings back a root conversation, for everyone in it."""
        grant = await services.grant(request, Verb.CREATE)
        body = parse_body(ConversationChangeBody, await raw_body(request))
        command = ChangeConversation(conversation_id, grant, body.name, body.archived)
        info = await services.commits.write(
            lambda tx: change_conversation_in(tx, services.commits.ctx, command),
            "server.care",
            conversation_id,
        )
        return json_response(info.to_wire())

    @router.put(
        "/conversations/{conversation_id}/read",
        openapi_extra=document(ReadDocument, body=ReadBody, errors=_MISSING),
    )
    async def mark_read(request: Request, conversation_id: str) -> Response:
        """The person has read everything up to `ordinal`. Never moves back."""
        grant = await services.grant(request, Verb.READ)
        body = parse_body(ReadBody, await raw_body(request))
        read = await services.commits.write(
            lambda tx: mark_read_in(tx, services.commits.ctx, conversation_id, body.ordinal, grant),
            "server.read",
            conversation_id,
        )
        answer = {"conversation_id": conversation_id, "ordinal": read.ordinal, "unread": read.unread}
        return json_response(answer)

    @router.get(
        "/conversations/{conversation_id}/stream",
        openapi_extra=document(None, errors=_MISSING, media_types=(EVENT_STREAM,)),
    )
    async def stream_conversation(request: Request, conversation_id: str) -> Response:
        """Server-sent events `message`, `patch`, `ping`; `Last-Event-ID` resumes."""
        grant = await services.grant(request, Verb.READ)
        conversation = await services.visible_conversation(grant, conversation_id)
        after = _last_event_id(request)
        if request.headers.get(EPOCH_HEADER, services.epoch) != services.epoch:
            after = None  # What the viewer knows is of another life of the database.
        viewer = Viewer(services, conversation, after, grant)
        return services.event_stream(grant, viewer.events())

    @router.get(
        "/conversations/{conversation_id}/export",
        openapi_extra=document(None, errors=_MISSING, media_types=_EXPORTS),
        query=ExportQuery,
    )
    async def export(request: Request, conversation_id: str, query: ExportQuery) -> Response:
        """The whole conversation with its process conversations, as a file; attachments by their hash."""
        grant = await services.grant(request, Verb.READ)
        conversation = await services.visible_conversation(grant, conversation_id)
        chosen = ExportFormat(query.format)
        text = exported(services.commits, conversation, grant, pieces_of(chosen))
        name = quote(file_name(conversation.name, chosen), safe="")
        headers = {
            "content-type": chosen.media_type,
            "content-disposition": f"attachment; filename*=UTF-8''{name}",
            "x-content-type-options": "nosniff",
            "cache-control": "no-store",
        }
        return services.streamed(grant, text, media_type=None, headers=headers)

    return router


def _id_of_key(owner: Actor, key: str) -> str:
    """One conversation per owner and key, however often it is asked for. Raises LimitExceeded."""
    if len(key.encode()) > MAX_KEY_BYTES:
        detail = {"limit": "key_bytes", "max": MAX_KEY_BYTES}
        raise LimitExceeded(f"key_bytes is at most {MAX_KEY_BYTES}", detail=detail)
    digest = hashlib.sha256(json.canonical([owner.kind, owner.key, key])).hexdigest()
    return f"con_{digest[:32]}"


def _last_event_id(request: Request) -> int | None:
    value = request.headers.get("last-event-id")
    if value is None or value == "":
        return None
    if not value.isdigit() or len(value) > 15:
        raise InvalidRequest("Last-Event-ID is a change number")
    return int(value)
