"""What a failing database means for the one who asked (design decision 3).

Here SQLite's result codes become five situations; what an answer on the wire says about them is decided by
the commit rooms of the server and the device.
"""

from __future__ import annotations

import sqlite3
from typing import Final


class DatabaseError(Exception):
    """Any failure of the store itself, as opposed to a failing job."""


class DatabaseUnavailable(DatabaseError):
    """Nothing was stored: disk full, closed, or refusing work. The same request may succeed later."""


class DatabaseBusyElsewhere(DatabaseUnavailable):
    """Nothing was stored: another process held the write lock for longer than the busy timeout."""


class QueueFull(DatabaseUnavailable):
    """Nothing was stored: too many jobs wait already."""


class DatabaseOutcomeUnknown(DatabaseError):
    """The job may or may not be stored. After an I/O error the database is done; the process must restart."""


class DatabaseCorrupt(DatabaseError):
    """The file is not a sound database. The database refuses further work."""


class TransactionEnded(Exception):
    """A job ended the transaction that it was given, without saying why. Its own writes are undone."""


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
