"""B7: what growth costs. Appending to a message of a megabyte beside appending to one of a kilobyte; polling
a million messages beside a thousand (b7_history); an inventory of many apps (b7_inventory).
"""

from __future__ import annotations

import statistics
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from benchmarks import b7_history, b7_inventory
from benchmarks.http_load import Connection, connections
from benchmarks.measure import Figures, Goal, Report, in_turn, latencies_ms, percentile, row
from benchmarks.processes import lineloop
from lineloop.kit.clock import SystemClock
from lineloop.kit.ids import Ids

SMALL, LARGE = 1024, 1024 * 1024
PIECE = "token " * 3
APPENDS = 150
GROW_PIECE = 64 * 1024


class Stream:
    """One open streaming message that is appended to."""

    def __init__(self, connection: Connection, message_id: str) -> None:
        self._connection = connection
        self._id = message_id
        self._seq = 0

    async def send(self, patch: dict[str, Any]) -> None:
        self._seq += 1
        body = {"patches": [{**patch, "seq": self._seq}]}
        answer = await self._connection.post(f"/v1/messages/{self._id}/patches", body)
        assert answer["revision"] == self._seq, answer

    async def grow(self, size: int) -> None:
        block = {"id": "text", "type": "text", "content": ""}
        await self.send({"op": "set", "block": block})
        for begun in range(0, size, GROW_PIECE):
            await self.append("x" * min(GROW_PIECE, size - begun))

    async def append(self, text: str) -> None:
        await self.send({"op": "append", "mask": "block.content", "block": {"id": "text", "content": text}})

    async def figures(self) -> Figures:
        async def call(_: int) -> None:
            await self.append(PIECE)

        times = await latencies_ms(call, APPENDS)
        return {"p50": statistics.median(times), "p99": percentile(times, 0.99)}


async def opened(connection: Connection, conversation: str, size: int) -> Stream:
    body = {"key": Ids(SystemClock()).uuid7(), "stream": True}
    message = await connection.post(f"/v1/conversations/{conversation}/messages", body)
    stream = Stream(connection, message["id"])
    await stream.grow(size)
    return stream


async def measure(folder: Path) -> Report:
    async with AsyncExitStack() as stack:
        ready = await stack.enter_async_context(lineloop(folder, "serve", "serve", "--port", "0"))
        pool = await stack.enter_async_context(connections(ready["server_url"], ready["admin_token"], 1))
        conversation = (await pool[0].post("/v1/conversations", {"name": "bench"}))["id"]

        async def side(size: int) -> Figures:
            return await (await opened(pool[0], conversation, size)).figures()

        async def large() -> Figures:
            return await side(LARGE)

        async def small() -> Figures:
            return await side(SMALL)

        mine, other = await in_turn(large, small)
    polls, how = await b7_history.measure(folder)
    report = Report("B7", "growth", "the same with little: a message of 1 KB, a conversation of 1,000.")
    report.rows = [
        row("append to a message of 1 MB, p50", "ms", "p50", mine, other, Goal("<=", 1.2)),
        row("append to a message of 1 MB, p99", "ms", "p99", mine, other, None),
        polls,
        b7_inventory.measure(),
    ]
    report.notes = [
        f"{len(mine)} rounds of {APPENDS} durable appends over HTTP to a fresh message of each size.",
        how,
    ]
    return report
