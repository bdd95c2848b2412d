"""What SQLite's result codes mean for the one who asked: the situations of `storage_errors`."""

from __future__ import annotations

import sqlite3
from typing import Final

from lineloop.kit.storage_errors import (
    DatabaseCorrupt,
    DatabaseError,
    DatabaseOutcomeUnknown,
    DatabaseUnavailable,
)

_FATAL: Final = {
    sqlite3.SQLITE_IOERR: DatabaseOutcomeUnknown,
    sqlite3.SQLITE_CORRUPT: DatabaseCorrupt,
    sqlite3.SQLITE_NOTADB: DatabaseCorrupt,
}
_UNAVAILABLE: Final = frozenset(
    {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_PERM,
    }
)


def primary_code(error: BaseException) -> int:
    """SQLite's primary result code of an error, 0 when it has none."""
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF


def storage_failure(error: BaseException) -> DatabaseError | None:
    """The situation that `error` tells of, or None when it is about one statement only."""
    code = primary_code(error)
    if (fatal := _FATAL.get(code)) is not None:
        return fatal(str(error))
    return DatabaseUnavailable(str(error)) if code in _UNAVAILABLE else None


def is_fatal(failure: DatabaseError) -> bool:
    """Whether the database must refuse further work."""
    return isinstance(failure, DatabaseOutcomeUnknown | DatabaseCorrupt)
