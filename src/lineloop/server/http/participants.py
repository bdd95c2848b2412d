"""Routes of who takes part in a conversation: list, invite, take out."""

from __future__ import annotations

from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response

from lineloop.kit import json
from lineloop.kit.clock import rfc3339
from lineloop.protocol.actors import Actor
from lineloop.protocol.errors import ErrorCode
from lineloop.protocol.requests import ParticipantBody, parse_body
from lineloop.server.commit.membership import ChangeMembership, invite_in, list_participants, remove_in
from lineloop.server.decide.access import Verb
from lineloop.server.http.bodies import raw_body
from lineloop.server.http.documents import ParticipantDocument, ParticipantList, document
from lineloop.server.http.lists import PageQuery, json_response, page_response
from lineloop.server.http.routing import Routes
from lineloop.server.http.services import Services
from lineloop.server.store.membership import Participant

_MISSING = (ErrorCode.CONVERSATION_NOT_FOUND,)
INVITE, REMOVE = "server.invite", "server.remove"


def participant_routes(services: Services) -> Routes:
    router = Routes(prefix="/v1/conversations/{conversation_id}/participants", tags=["participants"])
    commits = services.commits

    @router.get("", openapi_extra=document(ParticipantList, errors=_MISSING), query=PageQuery)
    async def list_who_takes_part(request: Request, conversation_id: str, query: PageQuery) -> Response:
        """Everybody in the root conversation, by kind and key."""
        grant = await services.grant(request, Verb.READ)
        conversation = await services.visible_conversation(grant, conversation_id)
        after, limit = query.after, query.limit
        owner, found = await commits.read(
            lambda tx: list_participants(tx, conversation.root_id, after=after, limit=limit + 1)
        )
        items = [json.dumps(_line(one, owner)) for one in found[:limit]]
        return page_response(items, str(found[limit - 1].actor) if len(found) > limit else None)

    @router.post(
        "",
        openapi_extra=document(
            ParticipantDocument,
            body=ParticipantBody,
            statuses=(200, 201),
            errors=(*_MISSING, ErrorCode.NOT_PARTICIPANT),
        ),
    )
    async def invite(request: Request, conversation_id: str) -> Response:
        """By the owner. 201 when the actor did not take part before, also when it comes back."""
        grant = await services.grant(request, Verb.CREATE)
        body = parse_body(ParticipantBody, await raw_body(request))
        command = ChangeMembership(conversation_id, body.actor, grant)
        conversation = await services.visible_conversation(grant, conversation_id)
        line, is_new = await commits.write(
            lambda tx: invite_in(tx, commits.ctx, command), INVITE, conversation_id
        )
        return json_response(_line(line, conversation.owner), 201 if is_new else 200)

    @router.delete(
        "/{kind:path}/{key}",
        openapi_extra=document(
            None, statuses=(204,), errors=(*_MISSING, ErrorCode.NOT_FOUND, ErrorCode.INVALID_REQUEST)
        ),
    )
    async def remove(request: Request, conversation_id: str, kind: str, key: str) -> Response:
        """By the owner, or by the actor itself. What it had open ends; it comes back by invitation only."""
        grant = await services.grant(request, Verb.CREATE)
        command = ChangeMembership(conversation_id, actor_of_path(request, kind, key), grant)
        await commits.write(lambda tx: remove_in(tx, commits.ctx, command), REMOVE, conversation_id)
        return Response(status_code=204)

    return router


def actor_of_path(request: Request, kind: str, key: str) -> Actor:
    """The actor at the end of the path. A slash that came encoded belongs to its part, where a key has none.

    Raises InvalidRequest.
    """
    raw: bytes = request.scope.get("raw_path") or b""
    written = raw.partition(b"?")[0].rpartition(b"/")[2].decode("ascii", "replace")
    return Actor(kind, unquote(written) if "%2f" in written.lower() else key)


def _line(one: Participant, owner: Actor) -> dict[str, object]:
    return {
        **one.actor.to_wire(),
        "owner": one.actor == owner,
        "display_name": one.display_name,
        "process_conversation_id": one.process_conversation_id,
        "joined_at": rfc3339(one.joined_at),
    }
