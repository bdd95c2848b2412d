"""Facts (what has become true) and effects (what to do about it after the commit).

Every decider answers a Decision. Facts are written in one transaction by the store, in this order; effects
are hints for reconcilers, which can rebuild all of them from facts (design: runtime 3.2).
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from lineloop.device.decide.state import Activation, Call, Instance, Operation
from lineloop.kit.records import record

# ── facts ───────────────────────────────────────────────────────────────────────────────────────────────────


@record
class CallAccepted:
    call: Call


@record
class CallChanged:
    """The call as it is now; several of one call in one decision are written as the last."""

    call: Call


@record
class ReceiptIssued:
    call_ref: str
    sequence: int
    stage: str
    number: int
    reason: str | None
    facts: dict[str, Any] | None


@record
class MessageQueued:
    """An outbox entry, known by its key. `message` is the speak item of the link: key, target, content;
    `text` its JSON text, written once for the row and for the link.
    """

    conversation_id: str
    key: str
    message: dict[str, Any]
    text: str


@record
class SubSessionOpened:
    app_session_id: str
    conversation_id: str
    app_scope: str


@record
class SubSessionClosed:
    app_session_id: str


@record
class InstanceStarted:
    instance: Instance


@record
class InstanceChanged:
    instance: Instance


@record
class ActivationStarted:
    activation: Activation


@record
class ActivationEnded:
    activation: Activation


@record
class OperationStarted:
    operation: Operation


@record
class OperationEnded:
    operation: Operation


@record
class RecordWritten:
    """The conversation's static copy of what an operation came to."""

    record_id: str
    operation: Operation
    content: dict[str, Any]


@record
class FocusSet:
    """The conversation's whole stack, foreground last; chat is the empty stack."""

    conversation_id: str
    stack: tuple[str, ...]


@record
class ConsentRequested:
    consent_id: str
    call_ref: str


@record
class ConsentClosed:
    call_ref: str
    state: str


@record
class HostLeaseTaken:
    host_session_id: str


@record
class UiActionReceived:
    instance_id: str
    action_id: str
    digest: str
    action: str


@record
class InventoryPublished:
    agent: str
    conversation_id: str
    revision: str
    payload: dict[str, Any]


@record
class Audited:
    """One line of the audit; `source` is one of the three entries, or runtime."""

    source: str
    event: str
    actor: str | None = None
    conversation_id: str | None = None
    app_scope: str | None = None
    call_id: str | None = None
    call_ref: str | None = None
    inventory_revision: str | None = None
    code: str | None = None
    detail: dict[str, Any] | None = None


Fact = (
    CallAccepted
    | CallChanged
    | ReceiptIssued
    | MessageQueued
    | SubSessionOpened
    | SubSessionClosed
    | InstanceStarted
    | InstanceChanged
    | ActivationStarted
    | ActivationEnded
    | OperationStarted
    | OperationEnded
    | RecordWritten
    | FocusSet
    | ConsentRequested
    | ConsentClosed
    | HostLeaseTaken
    | UiActionReceived
    | InventoryPublished
    | Audited
)

# ── effects ─────────────────────────────────────────────────────────────────────────────────────────────────


@record
class StartContainer:
    activation: Activation


@record
class ShowInstance:
    """Ask the host to make this instance the foreground; only its confirmation makes it so."""

    instance: Instance
    activation_id: str | None


@record
class CloseInstance:
    """Take the instance away from the host and end its container; `restore`: what lay below is shown then."""

    instance: Instance
    restore: bool


@record
class Dispatch:
    call: Call


@record
class PumpSession:
    """More calls wait than one decision moves: come again."""

    conversation_id: str
    app_scope: str


@record
class EndStranded:
    """Calls may be left that waited for an app that has gone."""


@record
class CancelHandler:
    call: Call


@record
class CursorMoved:
    """The server may forget what was delivered up to here."""

    conversation_id: str
    position: int


@record
class SendSoon:
    """An outbox entry for the sender. `text` is its JSON text; `urgent` = do not wait for company."""

    conversation_id: str
    key: str
    text: str
    urgent: bool


@record
class ArmDeadline:
    """`kind`: call | activation | operation; `at` in UTC ms, `span_ms` its whole length."""

    kind: str
    id: str
    at: int
    span_ms: int


@record
class AskConsent:
    call: Call


@record
class WithdrawConsent:
    call_ref: str


@record
class PublishInventory:
    agent: str
    conversation_id: str


@record
class DeliverAction:
    """A checked UI action goes to the app session of its instance."""

    instance: Instance
    action_id: str
    action: str
    params: dict[str, Any]


@record
class ProjectInstance:
    """What the surface of an instance shows has changed; None: only which of them is in front."""

    instance_id: str | None


Effect = (
    StartContainer
    | ShowInstance
    | CloseInstance
    | Dispatch
    | PumpSession
    | EndStranded
    | CancelHandler
    | CursorMoved
    | SendSoon
    | ArmDeadline
    | AskConsent
    | WithdrawConsent
    | PublishInventory
    | DeliverAction
    | ProjectInstance
)


@record
class Decision:
    """The answer of every decider. Empty = nothing to do (a late or repeated event)."""

    facts: list[Fact] = field(default_factory=list[Fact])
    effects: list[Effect] = field(default_factory=list[Effect])

    def __bool__(self) -> bool:
        return bool(self.facts or self.effects)
