"""Errors as RFC 9457 problem documents (spec/protocol.md §12). Nothing of the inside goes out: no trace, no
cause.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route

from lineloop.kit import json
from lineloop.protocol.errors import ErrorCode, InvalidRequest, LoopError
from lineloop.server.http.statuses import status_response, wants_status

PROBLEM_TYPE = "application/problem+json"
RETRY_AFTER_SECONDS = 1


def refusal(scope: Mapping[str, Any], error: LoopError) -> Response:
    """The answer to a request that met `error`, in the form that clients of its path read."""
    return status_response(error) if wants_status(scope) else problem_response(error)


def problem_response(error: LoopError) -> Response:
    """The answer to a request that met `error`."""
    headers: dict[str, str] = {}
    if error.status in (429, 503) and error.retryable:
        wait_ms = error.detail.get("retry_after_ms", RETRY_AFTER_SECONDS * 1000)
        headers["retry-after"] = str(max(1, -(-wait_ms // 1000)))
    if error.status == 401:
        headers["www-authenticate"] = "Bearer"
    body = json.dumps(error.to_problem())
    return Response(body.encode(), status_code=error.status, headers=headers, media_type=PROBLEM_TYPE)


def internal_error(request_id: str) -> LoopError:
    """What is said about a bug: only where it was recorded."""
    return LoopError(
        "something broke on our side", code=ErrorCode.INTERNAL, detail={"request_id": request_id}
    )


def _methods(request: Request) -> list[str]:
    """What the path can be asked with; each method is a route of its own."""
    routes = [route for route in request.app.routes if isinstance(route, Route)]
    found = [route.methods or () for route in routes if route.matches(request.scope)[0] is not Match.NONE]
    return sorted({method for methods in found for method in methods})


def install_handlers(app: Starlette, refused: Callable[[Mapping[str, Any], LoopError], None]) -> None:
    """Every refusal of the framework becomes a coded problem; `refused` hears of those by a route."""

    async def loop_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, LoopError)
        refused(request.scope, error)
        return refusal(request.scope, error)

    async def http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code == 405:
            met = LoopError("not with this method", code=ErrorCode.METHOD_NOT_ALLOWED)
        elif error.status_code == 404:
            met = LoopError("no such route", code=ErrorCode.ROUTE_NOT_FOUND)
        else:
            met = InvalidRequest(str(error.detail))
        response = refusal(request.scope, met)
        for name, value in (error.headers or {}).items():
            response.headers[name] = value
        if error.status_code == 405:
            response.headers["allow"] = ", ".join(_methods(request))
        return response

    async def broken(request: Request, _: Exception) -> Response:
        # The framework raises it again behind this answer; the edge records it.
        return problem_response(internal_error(request.state.request_id))

    app.add_exception_handler(Exception, broken)
    app.add_exception_handler(LoopError, loop_error)
    app.add_exception_handler(HTTPException, http_error)
