"""Routes as the server declares them, and what a request's path and query become.

Starlette serves them. FastAPI would do the same with more: its import and its analysis of every signature
take longer than a bare server's whole start (benchmark B8), and none of it is needed for endpoints that take
the raw request. Leaves the OpenAPI document to `documents`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from lineloop.kit.records import record
from lineloop.protocol.requests import request_error
from lineloop.server.http.lists import Query

Endpoint = Callable[..., Awaitable[Response]]
E = TypeVar("E", bound=Endpoint)
Q = TypeVar("Q", bound=BaseModel)


@record
class Declared:
    """One route: the endpoint is called with the request, the parts of its path by name, and `query`."""

    method: str
    path: str
    endpoint: Endpoint
    tags: tuple[str, ...]
    openapi_extra: dict[str, Any]
    query: type[BaseModel] | None


class Routes:
    """Collects endpoints under a prefix, with decorators `get`, `post`, `put`, `patch`, `delete`
    and `websocket`."""

    def __init__(self, *, prefix: str = "", tags: Sequence[str] = ()) -> None:
        self._prefix = prefix
        self._tags = tuple(tags)
        self.declared: list[Declared] = []
        self.served: list[BaseRoute] = []

    def get(
        self, path: str, *, openapi_extra: dict[str, Any], query: type[BaseModel] | None = None
    ) -> Callable[[E], E]:
        return self._adds("GET", path, openapi_extra, query)

    def post(
        self, path: str, *, openapi_extra: dict[str, Any], query: type[BaseModel] | None = None
    ) -> Callable[[E], E]:
        return self._adds("POST", path, openapi_extra, query)

    def put(self, path: str, *, openapi_extra: dict[str, Any]) -> Callable[[E], E]:
        return self._adds("PUT", path, openapi_extra)

    def patch(self, path: str, *, openapi_extra: dict[str, Any]) -> Callable[[E], E]:
        return self._adds("PATCH", path, openapi_extra)

    def delete(self, path: str, *, openapi_extra: dict[str, Any]) -> Callable[[E], E]:
        return self._adds("DELETE", path, openapi_extra)

    def websocket(
        self, path: str
    ) -> Callable[[Callable[[WebSocket], Awaitable[None]]], Callable[[WebSocket], Awaitable[None]]]:
        def add(endpoint: Callable[[WebSocket], Awaitable[None]]) -> Callable[[WebSocket], Awaitable[None]]:
            self.served.append(WebSocketRoute(self._prefix + path, endpoint))
            return endpoint

        return add

    def _adds(
        self, method: str, path: str, extra: dict[str, Any], query: type[BaseModel] | None = None
    ) -> Callable[[E], E]:
        def add(endpoint: E) -> E:
            declared = Declared(method, self._prefix + path, endpoint, self._tags, extra, query)
            self.declared.append(declared)
            self.served.append(_served(declared))
            return endpoint

        return add


def _served(declared: Declared) -> Route:
    endpoint, query, name = declared.endpoint, declared.query, declared.endpoint.__name__

    async def answer(request: Request) -> Response:
        request.state.route = name
        if query is None:
            if request.url.query:
                parse_query(Query, request)
            return await endpoint(request, **request.path_params)
        return await endpoint(request, **request.path_params, query=parse_query(query, request))

    route = Route(declared.path, answer, name=endpoint.__name__, methods=[declared.method])
    # Without the HEAD that Starlette adds to a GET: a stream would be opened for nobody.
    route.methods = {declared.method}
    return route


def parse_query(model: type[Q], request: Request) -> Q:
    """The parameters after the `?`. Raises unknown_field, InvalidRequest."""
    try:
        return model.model_validate(dict(request.query_params))
    except ValidationError as error:
        raise request_error(error) from None
