"""What a connection to a server must be able to do, so that verbs do not care how it is made.

Decides the shape of an answer, of a stream's event and of a link connection, and how bodies and parameters
are written. Leaves to the transports (http, in process) how bytes travel, and to the verbs which path means
what (spec/protocol.md §8).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import field
from typing import Any, Protocol

from lineloop.kit import json as codec
from lineloop.kit.records import record
from lineloop.protocol.error_codes import ERRORS, ErrorCode
from lineloop.protocol.errors import (
    ConnectionLost,
    InvalidRequest,
    LoopError,
    Overloaded,
    StorageUnavailable,
)

Params = Mapping[str, str | int | bool | None]


@record
class Response:
    """A successful answer: HTTP status (200 to 299) and the decoded JSON body, None when it is empty."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@record
class ServerSentEvent:
    """One event of a stream; `id` is the last id that the stream has named, "" before the first."""

    event: str = "message"
    data: str = ""
    id: str = ""


class LinkConnection(Protocol):
    """One open link. The client's hello is already sent; the first frame received is the server's hello."""

    async def send(self, frame: str) -> None:
        """Send one frame, as JSON text. Raises ConnectionLost; whether the frame arrived is then unknown."""
        ...

    async def receive(self) -> dict[str, Any]:
        """The next frame. Raises ConnectionLost when the connection has ended."""
        ...

    async def close(self) -> None:
        """End the connection; a waiting `receive` raises ConnectionLost. Repeating it is harmless."""
        ...


class Transport(Protocol):
    """A way to reach a server with one identity."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        params: Params | None = None,
        timeout_seconds: float = 30.0,
    ) -> Response:
        """One short call. Raises the typed LoopError of the answer, or ConnectionLost when there is none."""
        ...

    async def upload(
        self, path: str, body: AsyncIterator[bytes], *, media_type: str, params: Params | None = None
    ) -> Response:
        """Send bytes of any length as they come. Raises as `request` does."""
        ...

    def parts(
        self, path: str, *, params: Params | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The bytes of an answer as they come. Entering raises the LoopError of a refusal; a break raises
        ConnectionLost.
        """
        ...

    def events(
        self, path: str, *, params: Params | None = None, last_event_id: str | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[ServerSentEvent]]:
        """An SSE stream. Entering raises the LoopError of a refusal; a break raises ConnectionLost."""
        ...

    def lines(
        self, path: str, *, params: Params | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[str]]:
        """A stream of text lines (watches). Raises as `events` does."""
        ...

    async def open_link(self) -> LinkConnection:
        """A new link connection. Raises ConnectionLost, or the LoopError of a refusal."""
        ...

    async def close(self) -> None:
        """Give all connections back."""
        ...


# Answers in another form than ours: of a proxy, or Kubernetes-shaped.
_CODES_OF_STATUS = {
    401: ErrorCode.UNAUTHORIZED,
    403: ErrorCode.FORBIDDEN,
    404: ErrorCode.NOT_FOUND,
    410: ErrorCode.RESOURCE_EXPIRED,
}


def error_of_answer(status: int, body: Any) -> LoopError:
    """The typed error of a refused call;

    An answer that is no problem document (a proxy's) goes by its status.
    """
    if isinstance(body, dict) and body.get("code") in ERRORS:
        return LoopError.from_problem(body)
    if status == 429:
        return Overloaded("the server asks to slow down")
    if status in (502, 504):
        return ConnectionLost(f"a proxy answered {status}; whether the server got the call is unknown")
    if status == 503:
        return StorageUnavailable("the server is not available")
    if (code := _CODES_OF_STATUS.get(status)) is not None:
        return LoopError.from_problem({"code": code, "detail": f"the server answered {status}"})
    if isinstance(body, dict) and "code" in body:
        return LoopError.from_problem(body)
    return LoopError(f"the server answered {status} without a code")


def encoded_body(body: Any) -> bytes | None:
    """Raises InvalidRequest for what is no JSON (NaN, lone surrogates, objects of Python)."""
    try:
        return None if body is None else codec.dumps(body).encode()
    except (ValueError, TypeError) as error:
        raise InvalidRequest(f"this is not JSON: {error}") from error


def decoded_body(body: bytes | bytearray | None) -> Any:
    """None for an empty body, and for what is no JSON: a proxy's page, error_of_answer goes by the status."""
    if not body:
        return None
    try:
        return codec.loads(bytes(body))
    except ValueError:
        return None


def given_params(params: Params | None) -> dict[str, str]:
    """Parameters that have a value, booleans in lower case."""
    given: dict[str, str] = {}
    for name, value in (params or {}).items():
        if isinstance(value, bool):
            given[name] = "true" if value else "false"
        elif value is not None:
            given[name] = str(value)
    return given
