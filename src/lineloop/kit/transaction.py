"""What a database job sees: SQL within one transaction, and a word for after the commit.

SQL is a literal string with `:name` parameters. When a transaction begins and ends is decided by the writer
and the readers, never by a job.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence

Params = Mapping[str, object] | Sequence[object]
_NOTHING: tuple[object, ...] = ()


class Tx:
    """One run of one job. Worthless after the job has returned."""

    __slots__ = ("_connection", "_cursors", "callbacks", "errors")

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

    def one(self, sql: str, params: Params = _NOTHING) -> sqlite3.Row | None:
        """The first row, or None."""
        try:
            return self._connection.execute(sql, params).fetchone()  # pyright: ignore[reportArgumentType]
        except sqlite3.Error as error:
            self.errors.append(error)
            raise

    def all(self, sql: str, params: Params = _NOTHING) -> list[sqlite3.Row]:
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

    def after_commit(self, callback: Callable[[], object]) -> None:
        """Call `callback` on the event loop once this job is durable, before its future resolves.

        Callbacks run in job order. Dropped when the job fails or its transaction rolls back; a callback that
        raises is logged and stops nobody.
        """
        self.callbacks.append(callback)

    def close(self) -> None:
        """End the cursors, so that no forgotten SELECT holds a snapshot open."""
        for cursor in self._cursors:
            cursor.close()
        self._cursors.clear()
