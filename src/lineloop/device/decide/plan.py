"""Collects the facts and effects of one decision while it is being made.

Decides how a call moves and what each move tells the agent: which state may follow which (protocol.machines),
that every receipt stage is told once, that sequence numbers rise by one, that a call ends once. Leaves to the
deciders when that happens.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lineloop.device.decide.envelopes import Address, Moment, compose_message, head_of
from lineloop.device.decide.facts import (
    Audited,
    CallAccepted,
    CallChanged,
    CancelHandler,
    ConsentClosed,
    Decision,
    Effect,
    Fact,
    MessageQueued,
    ReceiptIssued,
    SendSoon,
    WithdrawConsent,
)
from lineloop.device.decide.state import Call, IdSource, Limits
from lineloop.device.decide.transitions import move_call
from lineloop.kit import json
from lineloop.kit.records import record
from lineloop.protocol.envelopes import FromDevice, Stage, tool_error, tool_receipt, tool_result
from lineloop.protocol.error_codes import ERRORS, ErrorCode
from lineloop.protocol.errors import FieldError, LoopError


@record
class Failure:
    """Why a call ends without a result. `reason` is a controlled word; `message` is public."""

    code: ErrorCode
    reason: str | None = None
    message: str | None = None
    detail: dict[str, Any] | None = None
    errors: list[FieldError] | None = None

    def error(self) -> LoopError:
        """As the typed error; the reason stands beside the code."""
        detail = dict(self.detail or {})
        if self.reason is not None:
            detail["reason"] = self.reason
        return LoopError(
            self.message or ERRORS[self.code].meaning, code=self.code, detail=detail, errors=self.errors
        )


CANCELLED_CODES = frozenset(
    {ErrorCode.CANCELLED, ErrorCode.CANCELLED_BY_USER, ErrorCode.APP_ACTIVATION_CANCELLED}
)


@dataclass(slots=True)
class Plan:
    """A decision in the making. `source` is the entry it came through, for the audit."""

    moment: Moment
    ids: IdSource
    source: str
    limits: Limits
    facts: list[Fact] = field(default_factory=list[Fact])
    effects: list[Effect] = field(default_factory=list[Effect])

    @property
    def now(self) -> int:
        return self.moment.now

    def decision(self) -> Decision:
        return Decision(self.facts, self.effects)

    # ── calls ───────────────────────────────────────────────────────────────────────────────────────────────

    def accept(self, call: Call) -> None:
        self.facts.append(CallAccepted(call))

    def move(self, call: Call, state: str, **changes: Any) -> Call:
        """The call in its next state. Raises IllegalTransition."""
        move_call(call.state, state)
        moved = call.changed(state=state, **changes)
        self.facts.append(CallChanged(moved))
        return moved

    def receipt(
        self,
        call: Call,
        stage: str,
        *,
        reason: str | None = None,
        facts: dict[str, Any] | None = None,
        urgent: bool = True,
    ) -> Call:
        """Tells the agent one stage; `urgent` = nothing else is expected to follow at once."""
        number = call.progress + 1 if stage == "progress" else 0
        told = call.changed(sequence=call.sequence + 1, progress=max(call.progress, number))
        said = {"reason": reason, **(facts or {})} if reason is not None else facts
        envelope = tool_receipt(
            self._head(told), Stage(stage), call_id=call.call_id, sequence=told.sequence, facts=said
        )
        self._answer(told, envelope, urgent)
        self.facts.append(ReceiptIssued(call.ref, told.sequence, stage, number, reason, facts))
        self.facts.append(CallChanged(told))
        return told

    def succeed(self, call: Call, result: dict[str, Any]) -> Call:
        """Ends the call with its business result, which the caller has checked against the output schema."""
        ended = self._end(call, "succeeded", {"result": result}, None)
        envelope = tool_result(self._head(ended), result, call_id=call.call_id, sequence=ended.sequence)
        self._answer(ended, envelope, urgent=True)
        return ended

    def fail(self, call: Call, failure: Failure, *, handler_done: bool = False) -> Call:
        """Ends the call with a coded error; whoever works on it or was asked about it is told to stop."""
        state = "cancelled" if failure.code in CANCELLED_CODES else "failed"
        if call.state == "awaiting_consent":
            closed = "denied" if failure.code == ErrorCode.CANCELLED_BY_USER else "expired"
            self.facts.append(ConsentClosed(call.ref, closed))
            self.effects.append(WithdrawConsent(call.ref))
        if call.state in ("dispatched", "operating") and call.operation_id is None and not handler_done:
            self.effects.append(CancelHandler(call))
        error = failure.error()
        outcome = {"code": str(failure.code), "message": error.message, **error.detail}
        ended = self._end(call, state, outcome, failure.code)
        envelope = tool_error(self._head(ended), error, call_id=call.call_id, sequence=ended.sequence)
        self._answer(ended, envelope, urgent=True)
        return ended

    def _end(self, call: Call, state: str, outcome: dict[str, Any], code: ErrorCode | None) -> Call:
        return self.move(
            call,
            state,
            sequence=call.sequence + 1,
            outcome=json.dumps(outcome),
            error_code=str(code) if code is not None else None,
            deadline_at=None,
            ended_at=self.now,
            ended_by=self.source,
        )

    def _head(self, call: Call) -> FromDevice:
        return head_of(self.moment, _address(call), self.ids.make("env"))

    def _answer(self, call: Call, envelope: dict[str, Any], urgent: bool) -> None:
        if call.trace is not None:
            envelope["trace"] = json.loads(call.trace)
        message = compose_message(_address(call), answer_key(call.ref, call.sequence), envelope)
        self.speak(call.conversation_id, message, urgent=urgent)

    # ── messages and audit ──────────────────────────────────────────────────────────────────────────────────

    def speak(self, conversation_id: str, message: dict[str, Any], *, urgent: bool = True) -> None:
        """Queues a message."""
        key, text = message["key"], json.dumps(message)
        self.facts.append(MessageQueued(conversation_id, key, message, text))
        self.effects.append(SendSoon(conversation_id, key, text, urgent))

    def audit(self, event: str, **about: Any) -> None:
        self.facts.append(Audited(self.source, event, **about))

    def audit_call(
        self, call: Call, event: str, *, code: str | None = None, detail: dict[str, Any] | None = None
    ) -> None:
        """One audit line about a call. That it was accepted and how it ended is told by the call itself."""
        self.facts.append(
            Audited(
                self.source,
                event,
                actor=call.agent,
                conversation_id=call.conversation_id,
                app_scope=call.key.app_scope,
                call_id=call.call_id,
                call_ref=call.ref,
                inventory_revision=call.inventory_revision,
                code=code,
                detail=detail,
            )
        )


def answer_key(call_ref: str, sequence: int) -> str:
    """The stable key of the message that carries one answer."""
    return f"{call_ref}/{sequence}"


def _address(call: Call) -> Address:
    return Address(call.agent, call.conversation_id, call.key.app_scope, call.message_id, call.envelope_id)
