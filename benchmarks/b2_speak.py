"""B2: messages spoken over HTTP, acknowledged durably, beside the same rows through the bare database."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any

from benchmarks.http_load import Connection, connections
from benchmarks.measure import Figures, Goal, Report, in_turn, per_second, row
from benchmarks.processes import lineloop
from lineloop.kit.clock import SystemClock
from lineloop.kit.database import Tx
from lineloop.kit.ids import Ids
from lineloop.kit.sqlite.database import SqliteDatabase

WRITERS, EACH = 32, 40
TEXT = "The quick brown fox jumps over the lazy dog. " * 4


class Bare:
    """The rows of a message, written by hand: the counters of its conversation, then the message itself."""

    def __init__(self, database: SqliteDatabase, template: dict[str, Any]) -> None:
        self._database = database
        self._template = template
        self._ids = Ids(SystemClock())
        columns = ", ".join(template)
        values = ", ".join(f":{name}" for name in template)
        self._insert = f"INSERT INTO messages ({columns}) VALUES ({values})"

    async def write(self, _: int) -> None:
        name = self._ids.uuid7()

        def job(tx: Tx) -> None:
            counters = tx.one(
                "UPDATE conversations SET last_ordinal = last_ordinal + 1, last_offset = last_offset + 1"
                " WHERE id = :id RETURNING last_ordinal, last_offset",
                {"id": self._template["conversation_id"]},
            )
            assert counters is not None
            fresh = {"id": name, "key": name, "ordinal": counters[0], "offset_": counters[1]}
            tx.run(self._insert, {**self._template, **fresh})

        await self._database.write(job)


def template_of(path: Path, message_id: str) -> dict[str, Any]:
    """A stored message as the columns and values of its row."""
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        found = connection.execute("SELECT * FROM messages WHERE id = ?", (message_id,)).fetchone()
    return dict(found)


def speaker(connection: Connection, conversation_id: str, ids: Ids) -> Callable[[int], Any]:
    async def speak(_: int) -> dict[str, Any]:
        body = {"key": ids.uuid7(), "text": TEXT}
        return await connection.post(f"/v1/conversations/{conversation_id}/messages", body)

    return speak


async def measure(folder: Path) -> Report:
    ids = Ids(SystemClock())
    async with AsyncExitStack() as stack:
        ready = await stack.enter_async_context(lineloop(folder, "serve", "serve", "--port", "0"))
        pool = await stack.enter_async_context(
            connections(ready["server_url"], ready["admin_token"], WRITERS)
        )
        conversation = (await pool[0].post("/v1/conversations", {"name": "bench"}))["id"]
        first = await speaker(pool[0], conversation, ids)(0)
        bare_path = folder / "bare.sqlite3"
        with closing(sqlite3.connect(folder / "serve-data/server/server.sqlite3")) as source:
            source.execute("VACUUM INTO ?", (str(bare_path),))
        database = await SqliteDatabase.open(bare_path, clock=SystemClock())
        stack.push_async_callback(database.close)
        bare = Bare(database, template_of(bare_path, first["id"]))

        async def ours() -> Figures:
            return {"rate": await per_second([speaker(one, conversation, ids) for one in pool], EACH)}

        async def theirs() -> Figures:
            return {"rate": await per_second([bare.write] * WRITERS, EACH)}

        mine, other = await in_turn(ours, theirs)
    return Report(
        "B2",
        f"`speak` over HTTP, acknowledged durably, {WRITERS} writers",
        "the same rows through the same one-writer database, in process, without HTTP, rules or wake-ups.",
        [row("messages per second", "/s", "rate", mine, other, Goal(">=", 0.35))],
        ["The load runs on the same machine as the server, on connections that stay open."],
    )
