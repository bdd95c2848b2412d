"""Routes of conversations: create, read, list, stream."""

from __future__ import annotations

import hashlib
from typing import Annotated

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from lineloop.kit import json
from lineloop.kit.database import Tx
from lineloop.protocol.actors import Actor
from lineloop.protocol.errors import ErrorCode, InvalidRequest, LimitExceeded
from lineloop.protocol.requests import MAX_KEY_BYTES, ConversationBody, parse_body
from lineloop.server.commit.participation import CreateConversation
from lineloop.server.commit.visibility import visible_children, visible_roots
from lineloop.server.decide.access import Verb
from lineloop.server.http.bodies import raw_body
from lineloop.server.http.documents import ConversationDocument, ConversationList, document
from lineloop.server.http.lists import PageQuery, json_response, page_response
from lineloop.server.http.routing import Routes
from lineloop.server.http.services import Services
from lineloop.server.http.sse import Viewer
from lineloop.server.records import Conversation

_MISSING = (ErrorCode.CONVERSATION_NOT_FOUND,)
EVENT_STREAM = "text/event-stream"
EPOCH_HEADER = "x-lineloop-epoch"


class ConversationsQuery(PageQuery):
    parent_id: Annotated[str | None, Field(max_length=128)] = None
    actor: Annotated[str | None, Field(max_length=300)] = None


def conversation_routes(services: Services) -> Routes:
    router = Routes(prefix="/v1", tags=["conversations"])

    @router.post(
        "/conversations", openapi_extra=document(ConversationDocument, body=ConversationBody, statuses=(201,))
    )
    async def create_conversation(request: Request) -> Response:
        """With an `Idempotency-Key` header the same key of the same owner answers the same conversation."""
        grant = await services.grant(request, Verb.CREATE)
        body = parse_body(ConversationBody, await raw_body(request, needed=False))
        owner = grant.actor()
        key = request.headers.get("idempotency-key")
        conversation_id = services.ids.make("con") if key is None else _id_of_key(owner, key)
        command = CreateConversation(conversation_id, body.name or "", owner)
        conversation = await services.commits.create_conversation(command)
        return json_response(conversation.to_wire(), 201)

    @router.get("/conversations", openapi_extra=document(ConversationList), query=ConversationsQuery)
    async def list_conversations(request: Request, query: ConversationsQuery) -> Response:
        """Root conversations that one takes part in, of `actor` too if named; with `parent_id` the process
        conversations under it (L2, L4).
        """
        parent_id, after, limit = query.parent_id, query.after, query.limit
        grant = await services.grant(request, Verb.READ)
        actor = Actor.parse(query.actor) if query.actor else None

        def read(tx: Tx) -> list[Conversation]:
            if parent_id is None:
                return visible_roots(tx, grant, after=after, limit=limit + 1, member=actor)
            return visible_children(tx, grant, parent_id, after=after, limit=limit + 1, actor=actor)

        found = await services.commits.read(read)
        items = [json.dumps(conversation.to_wire()) for conversation in found[:limit]]
        return page_response(items, found[limit - 1].id if len(found) > limit else None)

    @router.get(
        "/conversations/{conversation_id}", openapi_extra=document(ConversationDocument, errors=_MISSING)
    )
    async def get_conversation(request: Request, conversation_id: str) -> Response:
        grant = await services.grant(request, Verb.READ)
        return json_response((await services.visible_conversation(grant, conversation_id)).to_wire())

    @router.get("/conversations/{conversation_id}/stream", openapi_extra=document(None, errors=_MISSING))
    async def stream_conversation(request: Request, conversation_id: str) -> Response:
        """Server-sent events `message`, `patch`, `ping`; `Last-Event-ID` resumes."""
        grant = await services.grant(request, Verb.READ)
        conversation = await services.visible_conversation(grant, conversation_id)
        after = _last_event_id(request)
        if request.headers.get(EPOCH_HEADER, services.epoch) != services.epoch:
            after = None  # What the viewer knows is of another life of the database.
        viewer = Viewer(services, conversation.root_id, after, grant)
        headers = {
            "cache-control": "no-store",
            "x-accel-buffering": "no",
            EPOCH_HEADER: services.epoch,
        }
        return services.streamed(grant, viewer.events(), media_type=EVENT_STREAM, headers=headers)

    return router


def _id_of_key(owner: Actor, key: str) -> str:
    """One conversation per owner and key, however often it is asked for. Raises LimitExceeded."""
    if len(key.encode()) > MAX_KEY_BYTES:
        detail = {"limit": "key_bytes", "max": MAX_KEY_BYTES}
        raise LimitExceeded(f"key_bytes is at most {MAX_KEY_BYTES}", detail=detail)
    digest = hashlib.sha256(f"{owner} {key}".encode()).hexdigest()
    return f"con_{digest[:32]}"


def _last_event_id(request: Request) -> int | None:
    value = request.headers.get("last-event-id")
    if value is None or value == "":
        return None
    if not value.isdigit() or len(value) > 15:
        raise InvalidRequest("Last-Event-ID is a change number")
    return int(value)
