"""Session data: what an app may store for its sub-session (design: runtime 3.6).

Decides which data are acceptable, whether a replace wins, and the quotas. Never reads what the data mean.
Scope is not decided here: it comes from the session's context, so no request can name another's data.
"""

from __future__ import annotations

from typing import Any, cast

from lineloop.kit import json
from lineloop.kit.records import record
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import LoopError
from lineloop.protocol.json_rules import is_deeper_than

MAX_DEPTH = 64
MAX_SESSION_BYTES = 1024 * 1024
MAX_APP_BYTES = 64 * 1024 * 1024
MAX_REVISION = 2**53 - 1


@record
class CheckedData:
    """Acceptable data as compact JSON text, and its size in bytes of UTF-8."""

    text: str
    size_bytes: int


@record
class StoredData:
    """What is stored; nothing stored is revision 0 and no bytes."""

    revision: int = 0
    size_bytes: int = 0


@record
class SessionDataReplaced:
    """Fact: the data of the sub-session are now `text`. `grown_bytes` may be negative."""

    revision: int
    text: str
    size_bytes: int
    grown_bytes: int


def parse_session_data(text: str) -> Any:
    """The value of a JSON text under the strict rules: no duplicate names, NaN, Infinity or lone surrogates.

    Raises LoopError session_data_invalid.
    """
    try:
        return json.strict_loads(text)
    except ValueError as error:
        raise _invalid(f"not acceptable JSON: {error}") from error


def check_session_data(data: Any) -> CheckedData:
    """Raises LoopError session_data_invalid (no object, not JSON, too deep) or
    session_data_quota_exceeded.
    """
    if not isinstance(data, dict):
        raise _invalid("the top level is an object")
    value = cast("dict[str, Any]", data)
    if is_deeper_than(value, MAX_DEPTH):
        raise _invalid(f"nested more than {MAX_DEPTH} levels")
    try:
        text = json.dumps(value)
        size_bytes = len(text.encode())
    except ValueError as error:
        raise _invalid(f"not acceptable JSON: {error}") from error
    if size_bytes > MAX_SESSION_BYTES:
        raise _quota(size_bytes, MAX_SESSION_BYTES)
    return CheckedData(text, size_bytes)


def check_expected_revision(value: Any) -> int:
    """Raises LoopError session_data_invalid unless it is a whole number from 0."""
    if type(value) is not int or not 0 <= value <= MAX_REVISION:
        raise _invalid("expected_revision is a whole number from 0", pointer="/expected_revision")
    return value


def decide_replace(
    stored: StoredData, app_bytes: int, data: CheckedData, expected_revision: int
) -> SessionDataReplaced:
    """Compare and swap. `app_bytes` is what the app stores in all its sub-sessions together.

    Raises LoopError session_data_revision_conflict (detail: current revision), session_data_quota_exceeded.
    """
    if expected_revision != stored.revision:
        raise LoopError(
            f"the data are at revision {stored.revision} by now",
            code=ErrorCode.SESSION_DATA_REVISION_CONFLICT,
            detail={"revision": stored.revision},
        )
    grown_bytes = data.size_bytes - stored.size_bytes
    if app_bytes + grown_bytes > MAX_APP_BYTES:
        raise _quota(app_bytes + grown_bytes, MAX_APP_BYTES)
    return SessionDataReplaced(stored.revision + 1, data.text, data.size_bytes, grown_bytes)


def _invalid(message: str, pointer: str | None = None) -> LoopError:
    return LoopError(message, code=ErrorCode.SESSION_DATA_INVALID, pointer=pointer)


def _quota(size_bytes: int, limit_bytes: int) -> LoopError:
    return LoopError(
        f"{size_bytes} bytes are more than the {limit_bytes} allowed",
        code=ErrorCode.SESSION_DATA_QUOTA_EXCEEDED,
        detail={"limit_bytes": limit_bytes},
    )
