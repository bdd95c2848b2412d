"""B7, polling: the last page of a conversation of a million messages beside that of a thousand.

The messages are put into the server's database while it is down, as copies of one that it has stored itself.
"""

from __future__ import annotations

import sqlite3
import statistics
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any

from benchmarks.http_load import Connection, connections
from benchmarks.measure import Figures, Goal, Row, in_turn, latencies_ms, row
from benchmarks.processes import lineloop

FEW, MANY = 1_000, 1_000_000
PAGE = 100
POLLS = 100
READER = {"kind": "operator", "key": "bench"}
TEXT = "The quick brown fox jumps over the lazy dog. " * 2

# What differs from copy to copy; everything else is as in the message that was spoken. `:first` messages are
# there already.
_OWN = {
    "id": "printf('msg_%s%024x', substr(:conversation, -8), number)",
    "key": "printf('copy-%d', number)",
    "ordinal": "number",
    "offset_": "number",
    "change": "number",
}


async def begun(connection: Connection, name: str) -> str:
    """A conversation in which the reader takes part and something is said to everyone."""
    conversation = (await connection.post("/v1/conversations", {"name": name}))["id"]
    place = f"/v1/conversations/{conversation}/messages"
    await connection.post(place, {"key": "first", "text": TEXT, "target": READER})
    await connection.post(place, {"key": "second", "text": TEXT})
    return conversation


def fill(path: Path, conversation: str, count: int) -> None:
    """Copies the last message until there are `count`, and counts them in."""
    with closing(sqlite3.connect(path)) as database, database:
        database.row_factory = sqlite3.Row
        database.execute("PRAGMA synchronous = OFF")
        found = database.execute(
            "SELECT * FROM messages WHERE conversation_id = ? ORDER BY ordinal DESC LIMIT 1", (conversation,)
        )
        template: dict[str, Any] = dict(found.fetchone())
        values = ", ".join(_OWN.get(name, f":{name}") for name in template)
        database.execute(
            "WITH RECURSIVE numbers(number) AS"
            " (SELECT :first + 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < :count)"
            f" INSERT INTO messages ({', '.join(template)}) SELECT {values} FROM numbers",
            {**template, "conversation": conversation, "first": template["ordinal"], "count": count},
        )
        counted = {"conversation": conversation, "count": count}
        database.execute(
            "UPDATE conversations SET last_ordinal = :count, last_offset = :count, change = :count"
            " WHERE id = :conversation",
            counted,
        )
        database.execute(
            "UPDATE consumers SET end_offset = :count, previous_end_offset = :count - 1"
            " WHERE conversation_id = :conversation",
            counted,
        )


async def measure(folder: Path) -> tuple[Row, str]:
    """The row, and the sentence on how it came about."""
    async with AsyncExitStack() as stack:
        ready = await stack.enter_async_context(lineloop(folder, "grown", "serve", "--port", "0"))
        pool = await stack.enter_async_context(connections(ready["server_url"], ready["admin_token"], 1))
        few, many = [await begun(pool[0], name) for name in ("few", "many")]
    for conversation, count in ((few, FEW), (many, MANY)):
        fill(folder / "grown-data/server/server.sqlite3", conversation, count)
    (folder / "grown.ready.json").unlink(missing_ok=True)
    async with AsyncExitStack() as stack:
        ready = await stack.enter_async_context(lineloop(folder, "grown", "serve", "--port", "0"))
        (connection,) = await stack.enter_async_context(
            connections(ready["server_url"], ready["admin_token"], 1)
        )

        async def polled(conversation: str, count: int) -> Figures:
            body = {"actor": READER, "after": count - PAGE, "limit": PAGE}

            async def call(_: int) -> None:
                page = await connection.post(f"/v1/conversations/{conversation}/poll", body)
                assert len(page["messages"]) == PAGE, page

            return {"p50": statistics.median(await latencies_ms(call, POLLS))}

        async def large() -> Figures:
            return await polled(many, MANY)

        async def small() -> Figures:
            return await polled(few, FEW)

        mine, other = await in_turn(large, small)
    what = f"poll the last {PAGE} of {MANY:,} messages, p50"
    note = f"Polls: {len(mine)} rounds of {POLLS} over HTTP; the yardstick polls a conversation of {FEW:,}."
    return row(what, "ms", "p50", mine, other, Goal("<=", 1.5)), note
