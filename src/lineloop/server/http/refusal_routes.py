"""Route of the audit of refusals, for an administrator."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, JsonValue
from starlette.requests import Request
from starlette.responses import Response

from lineloop.kit import json
from lineloop.kit.clock import rfc3339
from lineloop.protocol.errors import InvalidRequest
from lineloop.server.decide.access import Verb
from lineloop.server.http.documents import Document, document
from lineloop.server.http.lists import PageQuery, page_response
from lineloop.server.http.routing import Routes
from lineloop.server.http.services import Services
from lineloop.server.store import refusals
from lineloop.server.store.refusals import RefusalRow

LAST = 2**53


class RefusalDocument(Document):
    """Equal refusals of a minute; `peer` is an address where no credential was known."""

    code: str
    action: str
    credential: str
    actor: str
    peer: str
    count: int
    first_at: str
    last_at: str


class RefusalList(Document):
    items: list[RefusalDocument]
    next: str | None


_CURSOR: dict[str, JsonValue] = {"pattern": r"^([0-9]{1,15}(\..*)?)?$"}


class RefusalsQuery(PageQuery):
    """`after` is the `next` of the page before."""

    after: Annotated[str, Field(max_length=300, json_schema_extra=_CURSOR)] = ""


def refusal_routes(services: Services) -> Routes:
    router = Routes(prefix="/v1", tags=["refusals"])
    commits = services.commits

    @router.get("/refusals", openapi_extra=document(RefusalList), query=RefusalsQuery)
    async def list_refusals(request: Request, query: RefusalsQuery) -> Response:
        """What was refused to whom, the newest first."""
        await services.grant(request, Verb.ADMIN)
        before_at, before_id = _place(query.after)
        limit = query.limit
        found = await commits.read(
            lambda tx: refusals.page(tx, before_at=before_at, before_id=before_id, limit=limit + 1)
        )
        last = found[limit - 1] if len(found) > limit else None
        items = [json.dumps(_line(one)) for one in found[:limit]]
        return page_response(items, f"{last.last_at}.{last.id}" if last else None)

    return router


def _place(cursor: str) -> tuple[int, str]:
    """Raises InvalidRequest."""
    if not cursor:
        return LAST, ""
    at, _, name = cursor.partition(".")
    if not (at.isascii() and at.isdecimal() and len(at) <= 15):
        raise InvalidRequest("this is no cursor of this list", pointer="/after")
    return int(at), name


def _line(row: RefusalRow) -> dict[str, object]:
    return {
        "code": row.code,
        "action": row.action,
        "credential": row.credential,
        "actor": row.actor,
        "peer": row.peer,
        "count": row.count,
        "first_at": rfc3339(row.first_at),
        "last_at": rfc3339(row.last_at),
    }
