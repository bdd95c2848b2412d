"""Routes of reading with a cursor: poll and commit. Hot: they take the raw request."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from lineloop.protocol.errors import ErrorCode
from lineloop.protocol.requests import CommitBody, PollBody, parse_body
from lineloop.server.commit.consuming import PollCommand
from lineloop.server.decide.access import Verb
from lineloop.server.decide.cursors import MAX_POLL_LIMIT
from lineloop.server.http.bodies import commit_command, raw_body
from lineloop.server.http.documents import InboxDocument, document
from lineloop.server.http.lists import text_response
from lineloop.server.http.routing import Routes
from lineloop.server.http.services import Services

_ERRORS = (ErrorCode.CONVERSATION_NOT_FOUND, ErrorCode.NOT_PARTICIPANT)


def inbox_routes(services: Services) -> Routes:
    router = Routes(prefix="/v1", tags=["inbox"])

    @router.post(
        "/conversations/{conversation_id}/poll",
        openapi_extra=document(InboxDocument, body=PollBody, errors=_ERRORS),
    )
    async def poll(request: Request, conversation_id: str) -> Response:
        grant = await services.grant(request, Verb.POLL)
        body = parse_body(PollBody, await raw_body(request, needed=False))
        command = PollCommand(
            conversation_id=conversation_id,
            actor=grant.actor(body.actor),
            after=body.after,
            limit=min(body.limit, MAX_POLL_LIMIT),
            purposes=tuple(body.purpose or ()),
            reader=grant,
        )
        return text_response((await services.commits.poll(command)).to_json())

    @router.post(
        "/conversations/{conversation_id}/commit",
        openapi_extra=document(
            None, body=CommitBody, statuses=(204,), errors=(*_ERRORS, ErrorCode.POSITION_CONFLICT)
        ),
    )
    async def commit(request: Request, conversation_id: str) -> Response:
        grant = await services.grant(request, Verb.COMMIT)
        body = parse_body(CommitBody, await raw_body(request))
        await services.commits.commit(commit_command(grant, conversation_id, body))
        return Response(status_code=204)

    services.hot.add("conversations", "poll", poll)
    services.hot.add("conversations", "commit", commit)
    return router
