"""Rules of cursors: poll and commit (spec/protocol.md §5). Pure. All numbers are offsets."""

from __future__ import annotations

from lineloop.kit.records import record
from lineloop.protocol.errors import Conflict, ErrorCode, InvalidRequest

DEFAULT_POLL_LIMIT = 100
MAX_POLL_LIMIT = 500


@record
class Cursor:
    """What is stored of an actor's reading: all it could read, what it was given, what it is done with."""

    end_offset: int
    position: int
    committed: int


def decide_poll_start(cursor: Cursor, after: int | None) -> int:
    """Where a poll starts: `after`, or what was committed (L50)."""
    if after is None:
        return cursor.committed
    if after < 0:
        raise InvalidRequest("after is an offset from 0", pointer="/after")
    return after


def decide_commit(cursor: Cursor, position: int, pushed: int = 0) -> int | None:
    """The new committed offset, or None when it is covered already: commits never go back.

    `pushed` is what the caller's link has delivered, which counts as polled. Raises `position_conflict`
    (L51).
    """
    if position < 0:
        raise InvalidRequest("position is an offset from 0", pointer="/position")
    if position <= cursor.committed:
        return None
    known = max(cursor.position, min(pushed, cursor.end_offset))
    if position > known:
        raise Conflict(
            "the position lies beyond what was polled",
            code=ErrorCode.POSITION_CONFLICT,
            detail={"position": known, "committed": cursor.committed},
        )
    return position
