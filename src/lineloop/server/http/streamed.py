"""An answer that is sent while it is made, until it ends, the reader goes, or its credential is revoked.

Starlette's own would do; it brings a second concurrency library into a process that has one already, which
a start with a viewer pays for (benchmark B8). A reader that takes nothing is let go below, by the connection.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from lineloop.kit.tasks import Tasks

COMPLETE_SECONDS = 1.0


class OpenStreams:
    """Open answers by the credential that asked for them."""

    def __init__(self) -> None:
        self._open: defaultdict[str, set[StreamedResponse]] = defaultdict(set)

    def add(self, credential: str, response: StreamedResponse) -> Callable[[], None]:
        """Answers what takes it out again."""
        self._open[credential].add(response)

        def remove() -> None:
            self._open[credential].discard(response)
            if not self._open[credential]:
                del self._open[credential]

        return remove

    def end_of(self, credential: str) -> None:
        """The streams of a credential that counts no more end now."""
        for response in list(self._open.get(credential, ())):
            response.end()


class StreamedResponse(Response):
    """Each part is sent at once, texts as UTF-8. What `parts` raises breaks the connection after that."""

    def __init__(
        self,
        parts: AsyncIterator[str] | AsyncIterator[bytes],
        *,
        streams: OpenStreams,
        credential: str,
        status_code: int = 200,
        headers: Mapping[str, str] | None = None,
        media_type: str | None = None,
    ) -> None:
        self._parts = parts
        self.status_code = status_code
        self.media_type = media_type
        self.background = None
        self._started = False
        self._ended = asyncio.Event()
        self._leave = streams.add(credential, self) if credential else _nowhere
        self.init_headers(headers)

    def end(self) -> None:
        """No further part goes out; the answer is completed as it stands."""
        self._ended.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        # On leaving the block all are over, and so is the iterator with its clean-up.
        failure: Exception | None = None
        try:
            async with Tasks("streamed") as tasks:
                sending = tasks.spawn(self._send(send), name="send")
                leaving = tasks.spawn(_gone(receive), name="gone")
                ending = tasks.spawn(self._ended.wait(), name="end")
                await asyncio.wait((sending, leaving, ending), return_when=asyncio.FIRST_COMPLETED)
                if not leaving.done() and not sending.done():
                    sending.cancel()
                    await asyncio.wait((sending,))
                    failure = await self._complete(send)
                elif sending.done():
                    failure = sending.result()
                left = leaving.result() if leaving.done() else None
                gone = leaving.done()
        finally:
            self._leave()
        if left is not None:
            raise left
        if failure is not None and not (gone and isinstance(failure, OSError)):
            raise failure

    async def _send(self, send: Send) -> Exception | None:
        try:
            await self._start(send)
            async for part in self._parts:
                body = part if isinstance(part, bytes) else part.encode()
                await send({"type": "http.response.body", "body": body, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except Exception as error:
            return error
        finally:
            if isinstance(self._parts, AsyncGenerator):
                await self._parts.aclose()
        return None

    async def _start(self, send: Send) -> None:
        self._started = True
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})

    async def _complete(self, send: Send) -> Exception | None:
        """The end of an answer that was stopped; who does not take even that gets a broken one."""
        try:
            async with asyncio.timeout(COMPLETE_SECONDS):
                if not self._started:
                    await self._start(send)
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            return None
        except Exception as error:
            return error
        return None


def _nowhere() -> None:
    """Without a credential there is nothing to take it out of."""


async def _gone(receive: Receive) -> Exception | None:
    """Returns when the reader has gone, or with what broke while its words were read."""
    try:
        while (await receive())["type"] != "http.disconnect":
            pass
    except Exception as error:
        return error
    return None
