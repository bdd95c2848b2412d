"""An answer that is sent while it is made, until it ends or the reader goes.

Starlette's own would do; it brings a second concurrency library into a process that has one already, which
a start with a viewer pays for (benchmark B8).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from lineloop.kit.tasks import Tasks


class StreamedResponse(Response):
    """Each text of `parts` is sent at once. What `parts` raises breaks the connection after what was sent."""

    def __init__(
        self,
        parts: AsyncIterator[str],
        *,
        status_code: int = 200,
        headers: Mapping[str, str] | None = None,
        media_type: str | None = None,
    ) -> None:
        self._parts = parts
        self.status_code = status_code
        self.media_type = media_type
        self.background = None
        self.init_headers(headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        # On leaving the block both are over, and so is the iterator with its clean-up.
        async with Tasks("streamed") as tasks:
            sending = tasks.spawn(self._send(send), name="send")
            leaving = tasks.spawn(_gone(receive), name="gone")
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
            left = leaving.result() if leaving.done() else None
            failure = sending.result() if sending.done() else None
            gone = leaving.done()
        if left is not None:
            raise left
        if failure is not None and not (gone and isinstance(failure, OSError)):
            raise failure

    async def _send(self, send: Send) -> Exception | None:
        try:
            await send(
                {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            )
            async for part in self._parts:
                await send({"type": "http.response.body", "body": part.encode(), "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except Exception as error:
            return error
        finally:
            if isinstance(self._parts, AsyncGenerator):
                await self._parts.aclose()
        return None


async def _gone(receive: Receive) -> Exception | None:
    """Returns when the reader has gone, or with what broke while its words were read."""
    try:
        while (await receive())["type"] != "http.disconnect":
            pass
    except Exception as error:
        return error
    return None
