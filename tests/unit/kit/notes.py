"""Jobs that write numbered notes, and what of them is stored."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from lineloop.kit.database import (
    Tx,
)

Job = Callable[[Tx], int]
# Starts tests/unit/kit/kit_child.py in a process of its own.
Child = Callable[..., "subprocess.Popen[str]"]


def note(number: int, owner: str = "me") -> Job:
    def job(tx: Tx) -> int:
        tx.run(
            "INSERT INTO notes(owner, number) VALUES (:owner, :number)", {"owner": owner, "number": number}
        )
        return number

    return job


def numbers(tx: Tx) -> list[int]:
    return [row["number"] for row in tx.all("SELECT number FROM notes ORDER BY id")]


def stored(path: Path, owner: str = "me") -> set[int]:
    with closing(sqlite3.connect(path)) as connection:
        return {
            row[0]
            for row in connection.execute("SELECT number FROM notes WHERE owner = ?", (owner,)).fetchall()
        }


NOTES = """CREATE TABLE notes(
    id INTEGER PRIMARY KEY, owner TEXT NOT NULL, number INTEGER NOT NULL, body BLOB, UNIQUE(owner, number)
)"""


def refuse(tx: Tx) -> int:
    note(99)(tx)
    raise KeyError("no")


async def outcomes(*futures: asyncio.Future[Any]) -> list[Any]:
    return await asyncio.gather(*futures, return_exceptions=True)
