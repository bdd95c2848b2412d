"""B9S: what storing a streamed answer writes: 100 KB that come in 5,000 appends."""

from __future__ import annotations

import sqlite3
from contextlib import AsyncExitStack, closing
from pathlib import Path

import psutil

from benchmarks.http_load import connections
from benchmarks.measure import ROUNDS, Goal, Report, single
from benchmarks.processes import Ready, lineloop
from benchmarks.stream_load import LinkWriter, appended, conversation, end_message, open_message

APPENDS, PIECE = 5_000, "twenty characters.. "
ANSWER = APPENDS * len(PIECE)
MANY, PER_FRAME = 16, 8

# Counts, inside the database, what statements hand to it: every logged patch, every version of a content.
_COUNTERS = """
CREATE TABLE written (bytes INTEGER NOT NULL);
INSERT INTO written VALUES (0);
CREATE TRIGGER count_patches AFTER INSERT ON patches BEGIN
    UPDATE written SET bytes = bytes + length(NEW.patch) + length(NEW.message_id) + 16; END;
CREATE TRIGGER count_messages AFTER INSERT ON messages BEGIN
    UPDATE written SET bytes = bytes + length(NEW.content); END;
CREATE TRIGGER count_snapshots AFTER UPDATE OF content ON messages BEGIN
    UPDATE written SET bytes = bytes + length(NEW.content); END;
"""


async def answers(ready: Ready, link: LinkWriter, count: int, per_frame: int) -> None:
    """`count` answers at once; a frame has `per_frame` appends of each, and the next waits for it."""
    url, token = ready["server_url"], ready["admin_token"]
    async with connections(url, token, 1) as (own,):
        place = await conversation(own)
        messages = [await open_message(own, place) for _ in range(count)]
    for begun in range(0, APPENDS, per_frame):
        some = [appended(number + 2, PIECE) for number in range(begun, min(begun + per_frame, APPENDS))]
        await link.send(dict.fromkeys(messages, some))
    async with connections(url, token, 1) as (own,):
        for message in messages:
            await end_message(own, message, APPENDS + 2)


def counted(database: Path) -> int:
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute("SELECT bytes FROM written").fetchone()[0]


async def handed_over(folder: Path) -> list[float]:
    """Bytes in rows and snapshots per byte of answer, one answer after the other."""
    found: list[float] = []
    async with AsyncExitStack() as stack:
        ready = await stack.enter_async_context(lineloop(folder, "counted", "serve", "--port", "0"))
        database = folder / "counted-data/server/server.sqlite3"
        with closing(sqlite3.connect(database, timeout=10)) as connection:
            connection.executescript(_COUNTERS)
        link = await stack.enter_async_context(LinkWriter.open(ready["server_url"], ready["admin_token"]))
        for _ in range(ROUNDS):
            before = counted(database)
            await answers(ready, link, 1, 1)
            found.append((counted(database) - before) / ANSWER)
    return found


async def measure(folder: Path) -> Report:
    rows = await handed_over(folder)
    many: list[float] = []
    alone: list[float] = []
    async with AsyncExitStack() as stack:
        ready = await stack.enter_async_context(lineloop(folder, "serve", "serve", "--port", "0"))
        link = await stack.enter_async_context(LinkWriter.open(ready["server_url"], ready["admin_token"]))
        server = psutil.Process(ready["pid"])

        async def written(count: int, per_frame: int) -> float:
            before = server.io_counters().write_bytes
            await answers(ready, link, count, per_frame)
            return (server.io_counters().write_bytes - before) / ANSWER / count

        for _ in range(ROUNDS):
            many.append(await written(MANY, PER_FRAME))
            alone.append(await written(1, 1))
    report = Report("B9S", "what a streamed answer writes", f"the answer itself, {ANSWER // 1000} KB.")
    report.rows = [
        single("logged patches and snapshots, per byte of the answer", "×", rows, Goal("<=", 30.0)),
        single(
            f"to the disk, {MANY} answers at once, {PER_FRAME} tokens a frame", "×", many, Goal("<=", 30.0)
        ),
        single("to the disk, one answer alone, a commit per token", "×", alone),
    ]
    report.notes = [
        "B9 is the shell's; this one counts storage. 5,000 appends of 20 characters each.",
        "A commit writes whole pages of 4 KiB to the log, one for every answer that grew, so a token with a "
        "commit of its own writes at least 200 times its 20 characters. To the disk: what the system counts.",
    ]
    return report
