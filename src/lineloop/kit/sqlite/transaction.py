"""What a job sees of SQLite. When a transaction begins and ends is decided by the writer and the readers."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from lineloop.kit.database import Params, Row

_NOTHING: tuple[object, ...] = ()


class SqliteTx:
    """One run of one job. Worthless after the job has returned."""

    __slots__ = ("_connection", "_cursors", "callbacks", "errors")

    shared = False

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._cursors: list[sqlite3.Cursor] = []
        self.callbacks: list[Callable[[], object]] = []
        # Every error of SQLite, kept although a job may swallow or translate it.
        self.errors: list[sqlite3.Error] = []

    def execute(self, sql: str, params: Params = _NOTHING) -> sqlite3.Cursor:
        """Run one statement. The cursor lives until the job returns. Raises sqlite3.Error."""
        try:
            cursor = self._connection.execute(sql, params)  # pyright: ignore[reportArgumentType]
        except sqlite3.Error as error:
            self.errors.append(error)
            raise
        self._cursors.append(cursor)
        return cursor

    def one(self, sql: str, params: Params = _NOTHING) -> Row | None:
        """The first row, or None."""
        try:
            return self._connection.execute(sql, params).fetchone()  # pyright: ignore[reportArgumentType]
        except sqlite3.Error as error:
            self.errors.append(error)
            raise

    def all(self, sql: str, params: Params = _NOTHING) -> list[Row]:
        """Every row."""
        try:
            return self._connection.execute(sql, params).fetchall()  # pyright: ignore[reportArgumentType]
        except sqlite3.Error as error:
            self.errors.append(error)
            raise

    def run(self, sql: str, params: Params = _NOTHING) -> int:
        """Run one statement and tell how many rows it changed."""
        try:
            return self._connection.execute(sql, params).rowcount  # pyright: ignore[reportArgumentType]
        except sqlite3.Error as error:
            self.errors.append(error)
            raise

    def put(self, sql: str, params: Params = _NOTHING) -> None:
        try:
            self._connection.execute(sql, params)  # pyright: ignore[reportArgumentType]
        except sqlite3.Error as error:
            self.errors.append(error)
            raise

    def later(self, sql: str, params: Params = _NOTHING) -> Callable[[], list[Row]]:
        rows = self.all(sql, params)
        return lambda: rows

    def after_commit(self, callback: Callable[[], object]) -> None:
        self.callbacks.append(callback)

    def if_undone(self, callback: Callable[[], object]) -> None:
        """Nobody else writes: what an undone job left in a memory is behind what is stored, or equal."""

    def lock(self, name: str) -> None:
        """There is one writer: whoever writes is alone already."""

    def close(self) -> None:
        """End the cursors, so that no forgotten SELECT holds a snapshot open."""
        for cursor in self._cursors:
            cursor.close()
        self._cursors.clear()
