"""What a failing database means on the wire: its situations as coded errors (spec/errors.json)."""

from __future__ import annotations

from lineloop.kit.database import (
    DatabaseBusyElsewhere,
    DatabaseCorrupt,
    DatabaseError,
    DatabaseOutcomeUnknown,
    QueueFull,
)
from lineloop.kit.faults import FaultInjected
from lineloop.kit.storage_errors import UnstorableText
from lineloop.protocol.errors import (
    ConnectionLost,
    ErrorCode,
    InvalidRequest,
    LoopError,
    Overloaded,
    StorageUnavailable,
)


def storage_error(error: DatabaseError | FaultInjected | UnstorableText) -> LoopError:
    """The error to answer with; raise it `from error`."""
    if isinstance(error, FaultInjected):
        if error.site.endswith(".after_commit"):
            return ConnectionLost("the answer was lost")
        return LoopError(str(error), code=ErrorCode.FAULT_INJECTED)
    if isinstance(error, UnstorableText):
        return InvalidRequest("a text with the character U+0000 cannot be stored")
    if isinstance(error, QueueFull):
        return Overloaded("too many writes are waiting")
    if isinstance(error, DatabaseBusyElsewhere):
        return LoopError("another process holds the database", code=ErrorCode.DATABASE_LOCKED)
    if isinstance(error, DatabaseCorrupt):
        return LoopError("the database file is damaged", code=ErrorCode.STORAGE_CORRUPT)
    if isinstance(error, DatabaseOutcomeUnknown):
        return ConnectionLost("whether this was stored is unknown; try again with the same key")
    return StorageUnavailable("the storage refused the write; nothing was stored")
