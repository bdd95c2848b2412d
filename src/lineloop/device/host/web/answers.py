"""HTTP answers of the two listeners, in plain ASGI: small, whole, never redirected, never cached by others.

Decides what both listeners refuse before anything is looked up: another name for this machine, and methods
other than GET and HEAD.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from lineloop.kit.records import record

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

Headers = list[tuple[bytes, bytes]]

LOOPBACK = "127.0.0.1"
NOT_HERE = 404


@record
class Plain:
    """One whole answer. `headers` come on top of length and type."""

    status: int
    body: bytes = b""
    media_type: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[bytes, bytes], ...] = ()


def said(status: int, text: str) -> Plain:
    """A refusal in a few words, which never repeat anything of the request."""
    return Plain(status, text.encode())


def header(scope: Scope, name: bytes) -> str | None:
    """The value of a header that must occur once; None when it is missing or occurs twice."""
    found = [value for key, value in scope["headers"] if key == name]
    return found[0].decode("latin-1") if len(found) == 1 else None


def refusal(scope: Scope, host: str) -> Plain | None:
    """Why a request is not looked at: 421 for another Host than `host`, 405 for another method."""
    if header(scope, b"host") != host:
        return said(421, "this address has another name")
    if scope["method"] not in ("GET", "HEAD"):
        return Plain(405, b"only GET and HEAD", headers=((b"allow", b"GET, HEAD"),))
    return None


async def answer(scope: Scope, send: Send, plain: Plain, headers: Iterable[tuple[bytes, bytes]]) -> None:
    """Sends it; without the body for HEAD. A connection that carried a refused body is not kept."""
    sent: Headers = [
        (b"content-type", plain.media_type.encode()),
        (b"content-length", str(len(plain.body)).encode()),
        *headers,
        *plain.headers,
    ]
    if scope["method"] not in ("GET", "HEAD"):
        sent.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": plain.status, "headers": sent})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else plain.body})
