"""A Run as the server's rooms hand it to each other: plain values, no SQL, no HTTP, no rules."""

from __future__ import annotations

from typing import Any

from lineloop.kit.records import record
from lineloop.protocol.actors import Actor
from lineloop.protocol.machines import RunPhase


@record
class RunRow:
    """A Run as stored. Times are UTC milliseconds; `request`, `result` and `error` are parsed JSON."""

    id: str
    conversation_id: str
    root_id: str
    actor: Actor
    idempotency_key: str
    digest: str
    effect_key: str
    target: str
    prompter: Actor
    request: dict[str, Any]
    message_id: str
    phase: RunPhase
    runnable: bool
    wakes: int
    retries: int
    ledger_seq: int
    submitting: int | None
    cancel_requested_at: int | None
    deadline_at: int
    lease_holder: str | None
    lease_token: int
    lease_until: int
    result: dict[str, Any] | None
    error: dict[str, Any] | None
    created_at: int

    def is_held(self, now: int) -> bool:
        return self.lease_holder is not None and self.lease_until > now
