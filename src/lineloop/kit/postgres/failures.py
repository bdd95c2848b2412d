"""What PostgreSQL's SQLSTATEs mean: for the one who asked, for the jobs beside it, for the connection."""

from __future__ import annotations

from typing import Final

import psycopg

from lineloop.kit.storage_errors import (
    DatabaseBusyElsewhere,
    DatabaseCorrupt,
    DatabaseError,
    DatabaseUnavailable,
)

_UNIQUE_VIOLATION: Final = "23505"
_DEADLOCK: Final = "40P01"
_SERIALIZATION: Final = "40001"
_LOCK_TIMEOUT: Final = "55P03"
_READ_ONLY: Final = "25006"
_PLAN_CHANGED: Final = "0A000"
_NO_SUCH_STATEMENT: Final = "26000"
_CORRUPT: Final = frozenset({"XX001", "XX002"})
# Of the connection (08), of its end (57P), of a stale plan, and of a server that only reads since a failover:
# a fresh connection, maybe to another server, may do.
_CONNECTION_CLASSES: Final = ("08", "57P")
_STALE: Final = frozenset({_READ_ONLY, _PLAN_CHANGED, _NO_SUCH_STATEMENT, "25P03", "25P04"})
# Out of something (53), of the system below (58), and a statement that took too long.
_UNAVAILABLE_CLASSES: Final = ("53", "58")
_CANCELED: Final = "57014"


class ConnectionLost(Exception):
    """The connection is gone, or not worth keeping."""


def state_of(error: BaseException | None) -> str:
    """The SQLSTATE of an error, empty when it has none."""
    return getattr(error, "sqlstate", None) or ""


def is_connection_gone(error: psycopg.Error, *, reads_only: bool = False) -> bool:
    """Whether the connection that raised `error` must be replaced. One that `reads_only` refuses a write."""
    state = state_of(error)
    if state == _READ_ONLY and reads_only:
        return False
    return state.startswith(_CONNECTION_CLASSES) or state in _STALE


def worth_another_run(error: BaseException | None) -> bool:
    """Whether the job may succeed when it is run once more, after those that it met."""
    return state_of(error) in (_UNIQUE_VIOLATION, _DEADLOCK, _SERIALIZATION, _LOCK_TIMEOUT)


def storage_failure(error: BaseException) -> DatabaseError | None:
    """The situation that `error` tells of, or None when it is about one statement only."""
    state = state_of(error)
    if state in _CORRUPT:
        return DatabaseCorrupt(str(error))
    if state in (_LOCK_TIMEOUT, _DEADLOCK, _SERIALIZATION):
        return DatabaseBusyElsewhere(str(error))
    if state.startswith(_UNAVAILABLE_CLASSES) or state == _CANCELED:
        return DatabaseUnavailable(str(error))
    return None
