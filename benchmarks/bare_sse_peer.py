"""The yardstick of B4: Starlette, a queue per viewer, and what waits there sent as one piece.

`python bare_sse_peer.py PORT`. POST /publish takes a body of lines; each is an event for every viewer.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

queues: set[asyncio.Queue[str]] = set()


async def publish(request: Request) -> Response:
    lines = (await request.body()).decode().splitlines()
    events = [f"event: patch\nid: 1\ndata: {line}\n\n" for line in lines]
    for queue in queues:
        for event in events:
            queue.put_nowait(event)
    return Response(b"{}")


async def stream(_: Request) -> Response:
    async def events() -> AsyncIterator[str]:
        queue: asyncio.Queue[str] = asyncio.Queue()
        queues.add(queue)
        try:
            yield ": hello\n\n"
            while True:
                parts = [await queue.get()]
                while not queue.empty():
                    parts.append(queue.get_nowait())
                yield "".join(parts)
        finally:
            queues.discard(queue)

    return StreamingResponse(events(), media_type="text/event-stream")


if __name__ == "__main__":
    app = Starlette(routes=[Route("/stream", stream), Route("/publish", publish, methods=["POST"])])
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error")
