"""The route of search."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from lineloop.kit import json
from lineloop.protocol.errors import ErrorCode, InvalidRequest
from lineloop.server.commit.searching import SearchCommand, search
from lineloop.server.decide.access import Verb
from lineloop.server.decide.searching import parse_query
from lineloop.server.http.documents import HitList, document
from lineloop.server.http.lists import Query, page_response
from lineloop.server.http.routing import Routes
from lineloop.server.http.services import Services

MAX_QUERY_LENGTH = 1_000
DEFAULT_HITS, MAX_HITS = 20, 100


class SearchQuery(Query):
    """`q` is free text; no character in it is special but the double quote."""

    model_config = ConfigDict(json_schema_extra={"required": ["q"]})
    free_texts = frozenset({"q"})

    q: Annotated[str | None, Field(max_length=MAX_QUERY_LENGTH)] = None
    conversation_id: Annotated[str | None, Field(max_length=128)] = None
    after: Annotated[str | None, Field(pattern="^[0-9]{1,18}$")] = None
    limit: Annotated[int, Field(ge=1, le=MAX_HITS)] = DEFAULT_HITS


def search_routes(services: Services) -> Routes:
    router = Routes(prefix="/v1", tags=["search"])

    @router.get(
        "/messages/search",
        openapi_extra=document(HitList, errors=(ErrorCode.INVALID_REQUEST, ErrorCode.CONVERSATION_NOT_FOUND)),
        query=SearchQuery,
    )
    async def search_messages(request: Request, query: SearchQuery) -> Response:
        """Messages that have all the words, in conversations that one sees; the newest first."""
        grant = await services.grant(request, Verb.READ)
        if query.q is None:
            raise InvalidRequest("q says what is searched for", pointer="/q")
        if query.conversation_id is not None:
            await services.visible_conversation(grant, query.conversation_id)
        command = SearchCommand(
            phrases=parse_query(query.q),
            reader=grant,
            within=query.conversation_id,
            below=int(query.after) if query.after is not None else None,
            limit=query.limit,
        )
        page = await services.commits.read(lambda tx: search(tx, command))
        cursor = str(page.next) if page.next is not None else None
        return page_response([json.dumps(hit) for hit in page.hits], cursor)

    return router
