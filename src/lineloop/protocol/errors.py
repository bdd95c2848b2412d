"""One tree of coded errors for every part (spec/errors.json, spec/protocol.md §12).

The code is the contract; messages are for people and may change. Which status a code has and whether a retry
makes sense is decided in spec/errors.json alone.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypedDict

from lineloop.protocol.error_codes import ERRORS, ErrorCode


class FieldError(TypedDict):
    """One broken place of a request: an RFC 6901 pointer and a sentence."""

    pointer: str
    message: str


class LoopError(Exception):
    """An error that has a code of spec/errors.json.

    `detail` holds public facts in JSON (never secrets, never stack traces); `errors` the broken places.
    """

    default_code: ClassVar[ErrorCode] = ErrorCode.INTERNAL

    def __init__(
        self,
        message: str,
        *,
        code: ErrorCode | str | None = None,
        detail: dict[str, Any] | None = None,
        errors: list[FieldError] | None = None,
        pointer: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = ErrorCode(code) if code is not None else self.default_code
        self.detail = detail or {}
        self.errors = errors or ([{"pointer": pointer, "message": message}] if pointer is not None else [])

    @property
    def status(self) -> int:
        """The HTTP status of the code."""
        return ERRORS[self.code].status

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later. A hint, not an order."""
        return ERRORS[self.code].retryable

    def to_problem(self) -> dict[str, Any]:
        """The RFC 9457 problem document."""
        problem: dict[str, Any] = {
            "type": f"urn:lineloop:error:{self.code}",
            "title": ERRORS[self.code].meaning,
            "status": self.status,
            "code": str(self.code),
            "detail": self.message,
            "retryable": self.retryable,
        }
        if self.errors:
            problem["errors"] = self.errors
        if self.detail:
            problem["context"] = self.detail
        return problem

    @staticmethod
    def from_problem(problem: dict[str, Any]) -> LoopError:
        """Rebuild the typed error on the client's side; an unknown code becomes `internal`."""
        code = problem.get("code", "internal")
        known = ErrorCode(code) if code in ERRORS else ErrorCode.INTERNAL
        return _BY_CODE.get(known, LoopError)(
            str(problem.get("detail") or problem.get("title") or code),
            code=known,
            detail=problem.get("context"),
            errors=problem.get("errors"),
        )


class InvalidRequest(LoopError):
    default_code = ErrorCode.INVALID_REQUEST


class Unauthorized(LoopError):
    default_code = ErrorCode.UNAUTHORIZED


class Forbidden(LoopError):
    default_code = ErrorCode.FORBIDDEN


class NotFound(LoopError):
    default_code = ErrorCode.NOT_FOUND


class Conflict(LoopError):
    default_code = ErrorCode.KEY_CONFLICT


class LimitExceeded(LoopError):
    default_code = ErrorCode.LIMIT_EXCEEDED


class CapacityExceeded(LoopError):
    default_code = ErrorCode.HARNESS_CAPACITY_EXCEEDED


class Overloaded(LoopError):
    default_code = ErrorCode.OVERLOADED


class StorageUnavailable(LoopError):
    default_code = ErrorCode.STORAGE_UNAVAILABLE


class ConnectionLost(LoopError):
    default_code = ErrorCode.CONNECTION_LOST


class IllegalTransition(LoopError):
    default_code = ErrorCode.ILLEGAL_TRANSITION


class PatchInvalid(LoopError):
    default_code = ErrorCode.PATCH_INVALID


def _class_of(code: ErrorCode) -> type[LoopError]:
    exact = {
        ErrorCode.HARNESS_CAPACITY_EXCEEDED: CapacityExceeded,
        ErrorCode.OVERLOADED: Overloaded,
        ErrorCode.STORAGE_UNAVAILABLE: StorageUnavailable,
        ErrorCode.CONNECTION_LOST: ConnectionLost,
        ErrorCode.ILLEGAL_TRANSITION: IllegalTransition,
        ErrorCode.PATCH_INVALID: PatchInvalid,
    }
    if code in exact:
        return exact[code]
    by_status: dict[int, type[LoopError]] = {
        401: Unauthorized,
        403: Forbidden,
        404: NotFound,
        409: Conflict,
        413: LimitExceeded,
        422: InvalidRequest,
    }
    return by_status.get(ERRORS[code].status, LoopError)


_BY_CODE: dict[ErrorCode, type[LoopError]] = {code: _class_of(code) for code in ErrorCode}
