"""Refusals of the Kubernetes-shaped view, as its clients read them: a `Status` object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from lineloop.protocol.errors import LoopError
from lineloop.server.http.lists import json_response

_VIEWS = ("/api", "/apis")
_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    408: "Timeout",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    503: "ServiceUnavailable",
}


def wants_status(scope: Mapping[str, Any]) -> bool:
    """Whether the path belongs to the Kubernetes-shaped view."""
    path: str = scope["path"]
    return path in _VIEWS or path.startswith(tuple(f"{view}/" for view in _VIEWS))


def answered_code(status: int) -> int:
    """The status with which these views answer: what breaks a rule is a bad request there."""
    return 400 if status == 422 else status


def status_of(error: LoopError) -> dict[str, Any]:
    """The `Status` of an error. Our own code stands among its causes."""
    code = answered_code(error.status)
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": error.message,
        "reason": _REASONS.get(code, "InternalError"),
        "details": {"causes": [{"reason": str(error.code), "message": error.message}]},
        "code": code,
    }


def status_response(error: LoopError) -> Response:
    status = status_of(error)
    return json_response(status, status["code"])
