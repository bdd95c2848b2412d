"""Runs on the wire (spec/protocol.md §6.2, §6.3). Leaves driving and storing them to the engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from lineloop.kit.records import record
from lineloop.protocol.errors import InvalidRequest
from lineloop.protocol.machines import RUN, MessageStatus, RunPhase

__all__ = ["MessageStatus", "Run", "RunPhase", "RunResult", "message_status_of"]

_STATUS = {RunPhase.SUCCEEDED: MessageStatus.COMPLETED, RunPhase.CANCELLED: MessageStatus.CANCELLED}


@record
class RunResult:
    """`format` is `text` (content is a string) or `json` (content is any JSON value)."""

    format: str
    content: Any


@record
class Run:
    """One execution of a harness and its output message. `error` is `{"code","message"}` or None."""

    id: str
    message_id: str
    conversation_id: str
    phase: RunPhase
    deadline_at: str
    error: dict[str, Any] | None = None
    result: RunResult | None = None

    @property
    def ended(self) -> bool:
        return RUN.is_terminal(self.phase)

    def to_wire(self) -> dict[str, Any]:
        wire: dict[str, Any] = {
            "id": self.id,
            "message_id": self.message_id,
            "conversation_id": self.conversation_id,
            "phase": self.phase.value,
            "deadline_at": self.deadline_at,
            "error": self.error,
        }
        if self.result is not None:
            wire["result"] = {"format": self.result.format, "content": self.result.content}
        return wire

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> Self:
        """Raises InvalidRequest."""
        result = wire.get("result")
        try:
            return cls(
                id=wire["id"],
                message_id=wire["message_id"],
                conversation_id=wire.get("conversation_id", ""),
                phase=RunPhase(wire["phase"]),
                deadline_at=wire["deadline_at"],
                error=wire.get("error"),
                result=RunResult(result["format"], result["content"]) if result is not None else None,
            )
        except (KeyError, ValueError, TypeError) as error:
            raise InvalidRequest(f"this is not a run: {error}") from error


def message_status_of(phase: RunPhase) -> MessageStatus:
    """The output message's status: succeeded → completed, cancelled → cancelled, any other end → failed."""
    if not RUN.is_terminal(phase):
        return MessageStatus.STREAMING
    return _STATUS.get(phase, MessageStatus.FAILED)
