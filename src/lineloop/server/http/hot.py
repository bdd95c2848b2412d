"""The short way to the busiest routes.

They are ordinary routes of the framework, which documents them; but looking them up there, solving no
dependencies and unwinding exit stacks costs more than speaking itself (benchmark B2). So the edge asks here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

Handler = Callable[[Request, str], Awaitable[Response]]


@dataclass(slots=True)
class HotRoutes:
    """Handlers of `POST /v1/<collection>/{id}/<action>`; they raise LoopError like every route."""

    _handlers: dict[tuple[str, str], Handler] = field(default_factory=dict[tuple[str, str], Handler])

    def add(self, collection: str, action: str, handler: Handler) -> None:
        self._handlers[collection, action] = handler

    def find(self, scope: Mapping[str, Any]) -> tuple[Handler, str] | None:
        """The handler and the id in the path. Parameters are judged on the long way."""
        if scope["method"] != "POST" or scope["query_string"]:
            return None
        parts = scope["path"].split("/")
        if len(parts) != 5 or parts[1] != "v1" or not parts[3]:
            return None
        handler = self._handlers.get((parts[2], parts[4]))
        return (handler, parts[3]) if handler is not None else None
