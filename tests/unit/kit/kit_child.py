"""Other processes for the tests of kit: run as a script with the name of a role and a path."""

from __future__ import annotations

import asyncio
import json
import resource
import sqlite3
import sys
from pathlib import Path

import structlog

from lineloop.kit.clock import SystemClock
from lineloop.kit.database import DatabaseError, Tx
from lineloop.kit.datadir import DataDir, FileLock
from lineloop.kit.faults import Faults
from lineloop.kit.sqlite.database import SqliteDatabase


def say(value: object) -> None:
    print(json.dumps(value), flush=True)  # noqa: T201


def insert(tx: Tx, owner: str, number: int) -> int:
    tx.run("INSERT INTO notes(owner, number) VALUES (:owner, :number)", {"owner": owner, "number": number})
    return number


async def write_for_ever(path: Path, owner: str) -> None:
    """Eight writers; each acknowledged number is printed."""
    database = await SqliteDatabase.open(path, clock=SystemClock())

    async def writer(first: int) -> None:
        for number in range(first, 1_000_000, 8):
            say(await database.write(lambda tx, number=number: insert(tx, owner, number)))

    await asyncio.gather(*(writer(first) for first in range(8)))


async def write_some(path: Path, owner: str) -> None:
    database = await SqliteDatabase.open(path, clock=SystemClock())
    await asyncio.gather(
        *(database.write(lambda tx, number=number: insert(tx, owner, number)) for number in range(300))
    )
    for number in range(300, 400):
        await database.write(lambda tx, number=number: insert(tx, owner, number))
    await database.close()
    say("done")


async def hit_io_error(path: Path, _: str) -> None:
    """A file size limit makes the kernel refuse writes with EFBIG: to SQLite an I/O error."""
    fatal: list[str] = []
    database = await SqliteDatabase.open(
        path, clock=SystemClock(), on_fatal=lambda error: fatal.append(type(error).__name__)
    )
    await database.write(lambda tx: insert(tx, "before", 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 * 1024, resource.RLIM_INFINITY))
    big = "INSERT INTO notes(owner, number, body) VALUES ('big', 1, zeroblob(400000))"
    outcomes = await asyncio.gather(
        database.submit(lambda tx: tx.run(big)),
        database.submit(lambda tx: insert(tx, "small", 2)),
        return_exceptions=True,
    )
    try:
        await database.write(lambda tx: insert(tx, "later", 3))
        refused = "accepted"
    except DatabaseError as error:
        refused = type(error).__name__
    say({"outcomes": [type(o).__name__ for o in outcomes], "fatal": fatal, "refused": refused})


async def die_at(path: Path, plan: str) -> None:
    faults = Faults(["note.before_commit", "note.after_commit"], plan)
    database = await SqliteDatabase.open(path, clock=SystemClock(), faults=faults)
    await database.write(lambda tx: insert(tx, "note", 1), label="note")
    say("acknowledged")


async def hold_lock(path: Path, _: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    say("locked")
    await asyncio.to_thread(sys.stdin.read)


async def own_directory(path: Path, _: str) -> None:
    with DataDir(path):
        say("owned")
        await asyncio.to_thread(sys.stdin.read)


async def own_file(path: Path, _: str) -> None:
    with FileLock(path):
        say("owned")
        await asyncio.to_thread(sys.stdin.read)


ROLES = {
    role.__name__: role
    for role in (write_for_ever, write_some, hit_io_error, die_at, hold_lock, own_directory, own_file)
}

if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    asyncio.run(ROLES[sys.argv[1]](Path(sys.argv[2]), sys.argv[3]))
