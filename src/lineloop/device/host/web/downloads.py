"""Documents that a page asked for and its browser fetches: each at an address of its own, once.

Decides that an address is 128 random bits, good once and for a minute, and only for a page of this listener;
a document is passed on in parts as it comes, never held. Who may ask, the visit decides.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

import structlog

from lineloop.device.host.web.answers import NOT_HERE, Plain, Scope, Send, answer, header, said
from lineloop.kit.clock import Clock
from lineloop.kit.ids import Ids
from lineloop.kit.records import record
from lineloop.protocol.errors import LoopError

_log = structlog.get_logger(__name__)

PREFIX = "/download/"
GOOD_SECONDS = 60.0
MAX_WAITING = 64

Parts = Callable[[], AbstractAsyncContextManager[AsyncIterator[bytes]]]


@record
class Document:
    """What is fetched: its file name (ASCII), its media type, and its bytes as they come."""

    file_name: str
    media_type: str
    parts: Parts


class Downloads:
    """The documents that wait to be fetched; of many the oldest go."""

    def __init__(self, ids: Ids, clock: Clock) -> None:
        self._ids = ids
        self._clock = clock
        self._waiting: dict[str, tuple[float, Document]] = {}

    def offer(self, document: Document) -> str:
        """The path at which it is fetched, once, within GOOD_SECONDS."""
        path = f"{PREFIX}{self._ids.secret()}"
        self._waiting[path] = (self._clock.monotonic() + GOOD_SECONDS, document)
        while len(self._waiting) > MAX_WAITING:
            del self._waiting[next(iter(self._waiting))]
        return path

    async def serve(self, scope: Scope, send: Send, headers: list[tuple[bytes, bytes]]) -> None:
        """Answers a GET below PREFIX. A document that breaks off ends the connection: it is incomplete."""
        found = self._take(scope)
        if found is None:
            await answer(scope, send, said(NOT_HERE, "nothing here"), headers)
            return
        begun = False
        try:
            async with found.parts() as parts:
                begun = True
                await send({"type": "http.response.start", "status": 200, "headers": _head(found, headers)})
                async for part in parts:
                    await send({"type": "http.response.body", "body": part, "more_body": True})
        except LoopError as error:
            _log.warning("download_failed", code=str(error.code))
            if begun:
                # Without its last part the server ends the connection, and the browser knows it broke off.
                return
            await answer(scope, send, Plain(503, b"this could not be fetched just now"), headers)
            return
        await send({"type": "http.response.body", "body": b""})

    def _take(self, scope: Scope) -> Document | None:
        path = scope["raw_path"].decode("latin-1")
        own = header(scope, b"sec-fetch-site") in ("same-origin", None)
        good_until, document = (
            self._waiting.pop(path, (0.0, None)) if scope["method"] == "GET" else (0.0, None)
        )
        return document if own and self._clock.monotonic() < good_until else None


def _head(found: Document, headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [
        (b"content-type", found.media_type.encode()),
        (b"content-disposition", f'attachment; filename="{found.file_name}"'.encode()),
        (b"cache-control", b"no-store"),
        *headers,
    ]
