"""The outermost layer: what must hold before any route is looked up, and what happens when one breaks.

Decides Host and Origin, the size of a body while it is read, request ids, and that a bug answers a coded
problem. Leaves credentials and everything else to the routes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from itertools import count
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

import structlog
from starlette.requests import Request
from starlette.responses import Response

from lineloop.kit.ids import Ids
from lineloop.kit.records import record
from lineloop.protocol.errors import ErrorCode, Forbidden, InvalidRequest, LimitExceeded, LoopError
from lineloop.server.http.blobs import UPLOAD_PATH
from lineloop.server.http.hot import HotRoutes
from lineloop.server.http.metrics import NO_ROUTE, Metrics
from lineloop.server.http.problems import internal_error, problem_response
from lineloop.server.http.refusals import Refusals
from lineloop.server.settings import ServerSettings

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]

REQUEST_ID = b"x-request-id"
DISCARDED_BYTES = 16 * 1024 * 1024
DISCARD_SECONDS = 5.0

_log = structlog.get_logger(__name__)


@record
class BodyRules:
    """How large a body may be, and how long it may pause and take in all."""

    limit: str
    bytes: int
    idle_seconds: float
    seconds: float

    def too_large(self) -> LimitExceeded:
        return LimitExceeded("the body is too large", detail={"limit": self.limit, "max": self.bytes})


class Edge:
    """Wraps the application. `metrics` counts every answer by its status."""

    def __init__(
        self,
        app: AsgiApp,
        hot: HotRoutes,
        settings: ServerSettings,
        ids: Ids,
        metrics: Metrics,
        refusals: Refusals,
    ) -> None:
        self._app = app
        self._hot = hot
        self._hosts = frozenset(name.lower() for name in settings.hosts)
        self._origins = frozenset(settings.origins)
        idle = settings.body_idle_seconds
        self._body = BodyRules("body_bytes", settings.body_bytes, idle, settings.body_seconds)
        self._upload = BodyRules("blob_bytes", settings.blob_bytes, idle, settings.blob_seconds)
        # One random name per process, a number per request: cheap, and unique wherever logs are put together.
        self._name = ids.make("req")[:20]
        self._numbers = count(1)
        self._metrics = metrics
        self._refusals = refusals

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id = f"{self._name}_{next(self._numbers)}"
        exchange = _Exchange(receive, send, request_id.encode(), self._rules(scope))
        state = scope.setdefault("state", {})
        state["request_id"] = request_id
        begun = asyncio.get_running_loop().time()
        try:
            self._check(scope)
            if (hot := self._hot.find(scope)) is not None:
                handler, subject = hot
                state["route"] = handler.__name__
                response = await handler(Request(scope, exchange.receive), subject)  # pyright: ignore[reportArgumentType]
                await exchange.answer(response)
            else:
                await self._app(scope, exchange.receive, exchange.send)
        except LoopError as error:
            self._refusals.of_request(scope, error)
            await self._refuse(scope, exchange, receive, error)
        except Exception:
            if not exchange.left:
                _log.exception("request_failed", request_id=request_id, path=scope.get("path"))
                await self._refuse(scope, exchange, receive, internal_error(request_id))
        seconds = asyncio.get_running_loop().time() - begun
        self._metrics.request(state.get("route", NO_ROUTE), exchange.status, seconds)

    async def _refuse(self, scope: Scope, exchange: _Exchange, receive: Receive, error: LoopError) -> None:
        if exchange.status:
            return  # Too late for another answer; the connection breaks and the client sees that.
        response = problem_response(error)
        if error.code is ErrorCode.LIMIT_EXCEEDED:
            # Who still sends does not listen yet, and would see a broken pipe instead of the answer.
            await exchange.discard()
            response.headers["connection"] = "close"
        with suppress(_Left):
            await response(scope, receive, exchange.send)  # pyright: ignore[reportArgumentType]

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            self._check(scope)
        except LoopError as error:
            _log.info("link_refused", code=error.code)
            self._refusals.of_request(scope, error)
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": str(error.code)})
            return
        await self._app(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        """Raises host_not_allowed (another site's name points here), origin_not_allowed (another site's
        page), LimitExceeded for a body that says it is too large, before any of it is read; route_not_found
        and InvalidRequest for a path or a query that is no UTF-8.
        """
        host = origin = None
        announced = 0
        for name, value in scope["headers"]:
            if name == b"host":
                host = value.decode("latin-1")
            elif name == b"origin":
                origin = value.decode("latin-1")
            elif name == b"content-length" and value.isdigit():
                announced = int(value)
        if host is None or host_name(host) not in self._hosts:
            raise LoopError("this server does not go by that name", code=ErrorCode.HOST_NOT_ALLOWED)
        if origin is not None and origin not in self._origins and not _is_own(origin, host):
            raise Forbidden(
                "pages of that origin may not call this server", code=ErrorCode.ORIGIN_NOT_ALLOWED
            )
        rules = self._rules(scope)
        if announced > rules.bytes:
            raise rules.too_large()
        _check_text(scope)

    def _rules(self, scope: Scope) -> BodyRules:
        return self._upload if scope["path"] == UPLOAD_PATH else self._body


def _check_text(scope: Scope) -> None:
    """What is no UTF-8 names nothing; decoded leniently it would name something else."""
    path, query = scope.get("raw_path") or b"", scope.get("query_string") or b""
    if b"%" in path and (b"%00" in path or not _is_utf8(path)):
        raise LoopError("the path is no UTF-8, or has a NUL", code=ErrorCode.ROUTE_NOT_FOUND)
    if b"%" in query and not _is_utf8(query):
        raise InvalidRequest("the query is no UTF-8")


def _is_utf8(encoded: bytes) -> bool:
    try:
        unquote_to_bytes(encoded).decode()
    except UnicodeDecodeError:
        return False
    return True


def host_name(host: str) -> str:
    """The name in a Host header, lower case, without the port; brackets of IPv6 stay."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).lower()


def _is_own(origin: str, host: str) -> bool:
    return urlsplit(origin).scheme in ("http", "https") and origin.split("://", 1)[1] == host


class _Left(OSError):
    """Nobody waits for the answer any more (an OSError, as ASGI has it)."""


class _Exchange:
    """One request: counts its body while it comes and does not wait for ever, marks its answer.

    `left`: the client went before its answer.
    """

    def __init__(self, receive: Receive, send: Send, request_id: bytes, rules: BodyRules) -> None:
        self._receive = receive
        self._send = send
        self._request_id = request_id
        self._left = rules.bytes
        self._rules = rules
        self._more = True
        self._late = False
        self._until: float | None = None
        self.status = 0
        self.left = False

    async def receive(self) -> Message:
        """Raises LimitExceeded, request_timeout; after the body it waits for the client to go."""
        message = await (self._part() if self._more else self._receive())
        self._more = message.get("more_body", False)
        if message["type"] == "http.request":
            self._left -= len(message.get("body", b""))
            if self._left < 0:
                raise self._rules.too_large()
        return message

    async def _part(self) -> Message:
        """The next part of the body. Raises request_timeout."""
        now = asyncio.get_running_loop().time()
        if self._until is None:
            self._until = now + self._rules.seconds
        try:
            async with asyncio.timeout_at(min(now + self._rules.idle_seconds, self._until)):
                return await self._receive()
        except TimeoutError:
            self._late = True
            raise LoopError("the body did not arrive in time", code=ErrorCode.REQUEST_TIMEOUT) from None

    async def discard(self) -> None:
        """Reads the rest of the body and forgets it, up to a bound of bytes and time."""
        left = DISCARDED_BYTES
        with suppress(TimeoutError):
            async with asyncio.timeout(DISCARD_SECONDS):
                while self._more and left > 0:
                    message = await self._receive()
                    self._more = message.get("more_body", False)
                    left -= len(message.get("body", b""))

    async def answer(self, response: Response) -> None:
        """Sends a response whose body is there already."""
        self.status = response.status_code
        headers = [*response.raw_headers, (REQUEST_ID, self._request_id)]
        await self._pass({"type": "http.response.start", "status": self.status, "headers": headers})
        await self._pass({"type": "http.response.body", "body": response.body})

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message.get("headers", ()), (REQUEST_ID, self._request_id)]
            if self._late:
                # What still comes of the body must not be taken for the next request.
                message["headers"].append((b"connection", b"close"))
        await self._pass(message)

    async def _pass(self, message: Message) -> None:
        try:
            await self._send(message)
        except OSError as error:
            self.left = True
            raise _Left from error
