"""B4: one conversation, many viewers: how many patches a second reach them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

from benchmarks import bare_sse_peer
from benchmarks.http_load import Connection, connections
from benchmarks.measure import Figures, Goal, Report, in_turn, row
from benchmarks.processes import free_port, lineloop, listening, start, stop
from benchmarks.stream_load import LinkWriter, appended, conversation, end_message, open_message, viewers

VIEWERS, PATCHES, FRAME = 100, 2_000, 20
LAST = PATCHES - 1


class Arrivals:
    """Counts what came; `all` is set when every viewer has the last patch."""

    def __init__(self) -> None:
        self.count = 0
        self._last = 0
        self.all = asyncio.Event()

    def seen(self, mark: int, _: float) -> None:
        self.count += 1
        if mark == LAST:
            self._last += 1
            if self._last == VIEWERS:
                self.all.set()


def text(mark: int) -> str:
    return f"~{mark}~ a few words of text"


Publish = Callable[[int], Awaitable[None]]


async def deliveries(url: str, token: str, path: str, publish: Publish) -> Figures:
    """`publish(begin)` sends FRAME patches from number `begin` on, and returns when they are accepted."""
    arrivals = Arrivals()
    async with viewers(url, token, [path] * VIEWERS, [arrivals.seen] * VIEWERS):
        await asyncio.sleep(0.3)
        begun = time.perf_counter()
        for number in range(0, PATCHES, FRAME):
            await publish(number)
        await asyncio.wait_for(arrivals.all.wait(), 120)
        seconds = time.perf_counter() - begun
    assert arrivals.count == VIEWERS * PATCHES, arrivals.count
    return {"rate": arrivals.count / seconds}


async def measure(folder: Path) -> Report:
    async with AsyncExitStack() as stack:
        ready = await stack.enter_async_context(lineloop(folder, "serve", "serve", "--port", "0"))
        url, token = ready["server_url"], ready["admin_token"]
        link = await stack.enter_async_context(LinkWriter.open(url, token))
        port = free_port()
        peer = start([bare_sse_peer.__file__, str(port)], folder / "peer.log")
        stack.callback(stop, peer)
        await listening(port, peer, folder / "peer.log")
        bare_url = f"http://127.0.0.1:{port}"

        async def ours() -> Figures:
            return await _ours(url, token, link)

        async def theirs() -> Figures:
            async def publish(begin: int, bare: Connection) -> None:
                lines = [
                    json.dumps({"message_id": "msg_" + "0" * 32, "patch": appended(n + 2, text(n))})
                    for n in range(begin, begin + FRAME)
                ]
                await bare.post_text("/publish", "\n".join(lines))

            async with connections(bare_url, "none", 1) as (bare,):
                return await deliveries(bare_url, "none", "/stream", lambda begin: publish(begin, bare))

        mine, other = await in_turn(ours, theirs)
    return Report(
        "B4",
        f"{VIEWERS} viewers of one conversation",
        "a bare Starlette with a queue per viewer that is drained and sent as one piece; nothing is stored.",
        [
            row(
                "patches delivered per second, all viewers together",
                "/s",
                "rate",
                mine,
                other,
                Goal(">=", 0.6),
            )
        ],
        [
            f"{PATCHES:,} patches a round in frames of {FRAME}, each frame sent when the one before is "
            "accepted; ours are durable by then.",
            "Viewers and writer run on the same machine as the server.",
        ],
    )


async def _ours(url: str, token: str, link: LinkWriter) -> Figures:
    async with connections(url, token, 1) as (own,):
        place = await conversation(own)
        message = await open_message(own, place)

    async def publish(begin: int) -> None:
        await link.send({message: [appended(n + 2, text(n)) for n in range(begin, begin + FRAME)]})

    figures = await deliveries(url, token, f"/v1/conversations/{place}/stream", publish)
    async with connections(url, token, 1) as (own,):
        await end_message(own, message, PATCHES + 2)
    return figures
