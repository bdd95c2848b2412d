"""The route of /openapi.json."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from starlette.requests import Request
from starlette.responses import Response

from lineloop.kit import json
from lineloop.server.http.documents import document, openapi_document
from lineloop.server.http.lists import text_response
from lineloop.server.http.routing import Declared, Routes

TITLE, VERSION = "Lineloop", "1"


def document_routes(described: Sequence[Declared]) -> Routes:
    router = Routes(tags=["documents"])

    @cache
    def text() -> str:
        return json.dumps(openapi_document(TITLE, VERSION, described))

    @router.get("/openapi.json", openapi_extra=document(None))
    async def openapi(_: Request) -> Response:
        """What this server offers."""
        return text_response(text())

    return router
