"""Every state and every legal step, as data: one table per kind of object (spec/protocol.md §11).

Decides which step is legal and nothing else; when a step is taken is decided by the decide modules. The
tables are read by both languages: spec/golden/machines holds them, tools/generate.py writes the TypeScript
copy.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from lineloop.protocol.machine import Machine, Row, table_of

# --- the device Runtime ---


class RuntimeState(StrEnum):
    CREATED = "created"
    RESTORING = "restoring"
    AUTHENTICATING = "authenticating"
    SYNCHRONIZING = "synchronizing"
    ONLINE = "online"
    RECONNECTING = "reconnecting"
    OFFLINE_DEGRADED = "offline_degraded"
    STOPPING = "stopping"
    STOPPED = "stopped"


class RuntimeEvent(StrEnum):
    START = "start"
    CONNECT = "connect"
    AUTHENTICATED = "authenticated"
    SYNCHRONIZED = "synchronized"
    LOSE_CONNECTION = "lose_connection"
    GO_OFFLINE = "go_offline"
    STOP = "stop"
    FINISH = "finish"


_R, _RE = RuntimeState, RuntimeEvent
_RUNNING = (_R.AUTHENTICATING, _R.SYNCHRONIZING, _R.ONLINE)

RUNTIME: Machine[RuntimeState, RuntimeEvent] = Machine(
    "runtime",
    _R.CREATED,
    table_of(
        [
            ((_R.CREATED,), _RE.START, _R.RESTORING),
            ((_R.RESTORING, _R.RECONNECTING, _R.OFFLINE_DEGRADED), _RE.CONNECT, _R.AUTHENTICATING),
            ((_R.AUTHENTICATING,), _RE.AUTHENTICATED, _R.SYNCHRONIZING),
            ((_R.SYNCHRONIZING,), _RE.SYNCHRONIZED, _R.ONLINE),
            ((*_RUNNING, _R.OFFLINE_DEGRADED), _RE.LOSE_CONNECTION, _R.RECONNECTING),
            ((*_RUNNING, _R.RECONNECTING), _RE.GO_OFFLINE, _R.OFFLINE_DEGRADED),
            (
                (_R.CREATED, _R.RESTORING, *_RUNNING, _R.RECONNECTING, _R.OFFLINE_DEGRADED),
                _RE.STOP,
                _R.STOPPING,
            ),
            ((_R.STOPPING,), _RE.FINISH, _R.STOPPED),
        ]
    ),
)


class InstallState(StrEnum):
    DOWNLOADING = "downloading"
    VERIFYING = "verifying"
    INSTALLED = "installed"
    UPDATING = "updating"
    FAILED = "failed"


class InstallEvent(StrEnum):
    DOWNLOADED = "downloaded"
    VERIFIED = "verified"
    UPDATE = "update"
    UPDATED = "updated"
    ROLLED_BACK = "rolled_back"
    FAIL = "fail"
    RETRY = "retry"


_I, _IE = InstallState, InstallEvent

INSTALL: Machine[InstallState, InstallEvent] = Machine(
    "install",
    _I.DOWNLOADING,
    table_of(
        [
            ((_I.DOWNLOADING,), _IE.DOWNLOADED, _I.VERIFYING),
            ((_I.VERIFYING,), _IE.VERIFIED, _I.INSTALLED),
            ((_I.INSTALLED,), _IE.UPDATE, _I.UPDATING),
            ((_I.UPDATING,), _IE.UPDATED, _I.INSTALLED),
            ((_I.UPDATING, _I.FAILED), _IE.ROLLED_BACK, _I.INSTALLED),
            ((_I.DOWNLOADING, _I.VERIFYING, _I.INSTALLED, _I.UPDATING), _IE.FAIL, _I.FAILED),
            ((_I.FAILED,), _IE.RETRY, _I.DOWNLOADING),
        ]
    ),
)


class AppOperationState(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class AppOperationEvent(StrEnum):
    START = "start"
    SUCCEED = "succeed"
    FAIL = "fail"


_A, _AE = AppOperationState, AppOperationEvent

APP_OPERATION: Machine[AppOperationState, AppOperationEvent] = Machine(
    "app_operation",
    _A.PENDING,
    table_of(
        [
            ((_A.PENDING,), _AE.START, _A.RUNNING),
            ((_A.RUNNING,), _AE.SUCCEED, _A.SUCCEEDED),
            ((_A.PENDING, _A.RUNNING), _AE.FAIL, _A.FAILED),
        ]
    ),
)


class InstanceState(StrEnum):
    STARTING = "starting"
    FOREGROUND = "foreground"
    BACKGROUND = "background"
    SUSPENDED = "suspended"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"


class InstanceEvent(StrEnum):
    FOREGROUND = "foreground"
    BACKGROUND = "background"
    SUSPEND = "suspend"
    STOP = "stop"
    FINISH = "finish"
    FAIL = "fail"


_N, _NE = InstanceState, InstanceEvent
LIVE_INSTANCE_STATES = (_N.STARTING, _N.FOREGROUND, _N.BACKGROUND, _N.SUSPENDED)

INSTANCE: Machine[InstanceState, InstanceEvent] = Machine(
    "instance",
    _N.STARTING,
    table_of(
        [
            ((_N.STARTING, _N.BACKGROUND, _N.SUSPENDED), _NE.FOREGROUND, _N.FOREGROUND),
            ((_N.STARTING, _N.FOREGROUND, _N.SUSPENDED), _NE.BACKGROUND, _N.BACKGROUND),
            ((_N.FOREGROUND, _N.BACKGROUND), _NE.SUSPEND, _N.SUSPENDED),
            (LIVE_INSTANCE_STATES, _NE.STOP, _N.STOPPING),
            ((_N.STOPPING,), _NE.FINISH, _N.STOPPED),
            (LIVE_INSTANCE_STATES, _NE.FAIL, _N.FAILED),
        ]
    ),
)


class ActivationState(StrEnum):
    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"
    CANCELLED = "cancelled"


class ActivationEvent(StrEnum):
    READY = "ready"
    FAIL = "fail"
    CANCEL = "cancel"


_V, _VE = ActivationState, ActivationEvent

ACTIVATION: Machine[ActivationState, ActivationEvent] = Machine(
    "activation",
    _V.STARTING,
    table_of(
        [
            ((_V.STARTING,), _VE.READY, _V.READY),
            ((_V.STARTING,), _VE.FAIL, _V.FAILED),
            ((_V.STARTING,), _VE.CANCEL, _V.CANCELLED),
        ]
    ),
)


class CallState(StrEnum):
    RECEIVED = "received"
    ACCEPTED = "accepted"
    AWAITING_CONSENT = "awaiting_consent"
    WAITING_ACTIVATION = "waiting_activation"
    WAITING_FOREGROUND = "waiting_foreground"
    DISPATCHED = "dispatched"
    OPERATING = "operating"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class CallEvent(StrEnum):
    ACCEPT = "accept"
    ASK_CONSENT = "ask_consent"
    WAIT_ACTIVATION = "wait_activation"
    WAIT_FOREGROUND = "wait_foreground"
    DISPATCH = "dispatch"
    OPERATE = "operate"
    SUCCEED = "succeed"
    NOT_BEGUN = "not_begun"
    """The tool's own schema has an outcome for "it never began", and that outcome is the answer."""
    FAIL = "fail"
    CANCEL = "cancel"


_C, _CE = CallState, CallEvent
_BEFORE_FOREGROUND = (_C.ACCEPTED, _C.AWAITING_CONSENT, _C.WAITING_ACTIVATION)
_BEFORE_ROUTING = (*_BEFORE_FOREGROUND, _C.WAITING_FOREGROUND)
LIVE_CALL_STATES = (_C.RECEIVED, *_BEFORE_ROUTING, _C.DISPATCHED, _C.OPERATING)

CALL: Machine[CallState, CallEvent] = Machine(
    "call",
    _C.RECEIVED,
    table_of(
        [
            ((_C.RECEIVED,), _CE.ACCEPT, _C.ACCEPTED),
            ((_C.ACCEPTED,), _CE.ASK_CONSENT, _C.AWAITING_CONSENT),
            ((_C.ACCEPTED, _C.AWAITING_CONSENT), _CE.WAIT_ACTIVATION, _C.WAITING_ACTIVATION),
            (_BEFORE_FOREGROUND, _CE.WAIT_FOREGROUND, _C.WAITING_FOREGROUND),
            (_BEFORE_ROUTING, _CE.DISPATCH, _C.DISPATCHED),
            (_BEFORE_ROUTING, _CE.OPERATE, _C.OPERATING),
            ((_C.DISPATCHED, _C.OPERATING), _CE.SUCCEED, _C.SUCCEEDED),
            (_BEFORE_ROUTING, _CE.NOT_BEGUN, _C.SUCCEEDED),
            (LIVE_CALL_STATES, _CE.FAIL, _C.FAILED),
            (LIVE_CALL_STATES, _CE.CANCEL, _C.CANCELLED),
        ]
    ),
)


OPERATION_ACTIVE = "active"


def operation_machine(outcomes: Iterable[str], *, active: str = OPERATION_ACTIVE) -> Machine[str, str]:
    """An operation ends once, in one of its declared outcomes; each event is named like its outcome.

    `active` is the app's own word for the running state (Pomodoro: `focusing`). Raises ValueError when no
    outcome is declared or one is named like the running state.
    """
    rows: list[Row[str, str]] = [((active,), outcome, outcome) for outcome in dict.fromkeys(outcomes)]
    if not rows or any(end == active for _, _, end in rows):
        raise ValueError("an operation needs outcomes that differ from its running state")
    return Machine("operation", active, table_of(rows))


class CapabilityState(StrEnum):
    REQUESTED = "requested"
    AWAITING_CONSENT = "awaiting_consent"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    EXPIRED = "expired"
    DENIED = "denied"


class CapabilityEvent(StrEnum):
    ASK_CONSENT = "ask_consent"
    RUN = "run"
    SUCCEED = "succeed"
    FAIL = "fail"
    EXPIRE = "expire"
    DENY = "deny"


_P, _PE = CapabilityState, CapabilityEvent

CAPABILITY: Machine[CapabilityState, CapabilityEvent] = Machine(
    "capability",
    _P.REQUESTED,
    table_of(
        [
            ((_P.REQUESTED,), _PE.ASK_CONSENT, _P.AWAITING_CONSENT),
            ((_P.REQUESTED, _P.AWAITING_CONSENT), _PE.RUN, _P.RUNNING),
            ((_P.RUNNING,), _PE.SUCCEED, _P.SUCCEEDED),
            ((_P.RUNNING,), _PE.FAIL, _P.FAILED),
            ((_P.REQUESTED, _P.AWAITING_CONSENT, _P.RUNNING), _PE.EXPIRE, _P.EXPIRED),
            ((_P.REQUESTED, _P.AWAITING_CONSENT), _PE.DENY, _P.DENIED),
        ]
    ),
)


class OutboxState(StrEnum):
    PENDING = "pending"
    SENT = "sent"


class OutboxEvent(StrEnum):
    ACKNOWLEDGE = "acknowledge"


OUTBOX: Machine[OutboxState, OutboxEvent] = Machine(
    "outbox",
    OutboxState.PENDING,
    table_of([((OutboxState.PENDING,), OutboxEvent.ACKNOWLEDGE, OutboxState.SENT)]),
)

# --- the conversation server ---


class RunPhase(StrEnum):
    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    WAITING_INPUT = "waiting_input"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    UNKNOWN = "unknown"


class RunEvent(StrEnum):
    START = "start"
    RUN = "run"
    WAIT = "wait"
    RESUME = "resume"
    SUCCEED = "succeed"
    FAIL = "fail"
    CANCEL = "cancel"
    TIME_OUT = "time_out"
    LOSE = "lose"
    """The outcome cannot be known: a crash between create and reference, or no adapter for the target."""


_H, _HE = RunPhase, RunEvent
LIVE_RUN_PHASES = (_H.PENDING, _H.STARTING, _H.RUNNING, _H.WAITING_INPUT)

RUN: Machine[RunPhase, RunEvent] = Machine(
    "run",
    _H.PENDING,
    table_of(
        [
            ((_H.PENDING,), _HE.START, _H.STARTING),
            ((_H.STARTING,), _HE.RUN, _H.RUNNING),
            ((_H.RUNNING,), _HE.WAIT, _H.WAITING_INPUT),
            ((_H.WAITING_INPUT,), _HE.RESUME, _H.RUNNING),
            ((_H.RUNNING,), _HE.SUCCEED, _H.SUCCEEDED),
            (LIVE_RUN_PHASES, _HE.FAIL, _H.FAILED),
            (LIVE_RUN_PHASES, _HE.CANCEL, _H.CANCELLED),
            (LIVE_RUN_PHASES, _HE.TIME_OUT, _H.TIMED_OUT),
            (LIVE_RUN_PHASES, _HE.LOSE, _H.UNKNOWN),
        ]
    ),
)


class QuestionState(StrEnum):
    PENDING = "pending"
    SUCCESS = "success"
    DISMISSED = "dismissed"
    TIMEOUT = "timeout"
    FAILURE = "failure"


class QuestionEvent(StrEnum):
    ANSWER = "answer"
    DISMISS = "dismiss"
    TIME_OUT = "time_out"
    FAIL = "fail"


_Q, _QE = QuestionState, QuestionEvent

QUESTION: Machine[QuestionState, QuestionEvent] = Machine(
    "question",
    _Q.PENDING,
    table_of(
        [
            ((_Q.PENDING,), _QE.ANSWER, _Q.SUCCESS),
            ((_Q.PENDING,), _QE.DISMISS, _Q.DISMISSED),
            ((_Q.PENDING,), _QE.TIME_OUT, _Q.TIMEOUT),
            ((_Q.PENDING,), _QE.FAIL, _Q.FAILURE),
        ]
    ),
)


class MessageStatus(StrEnum):
    """`streaming` until End; the other three are final. A one-shot message starts in a final state."""

    STREAMING = "streaming"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        return self is not MessageStatus.STREAMING


class MessageEvent(StrEnum):
    COMPLETE = "complete"
    FAIL = "fail"
    CANCEL = "cancel"


MESSAGE: Machine[MessageStatus, MessageEvent] = Machine(
    "message",
    MessageStatus.STREAMING,
    table_of(
        [
            ((MessageStatus.STREAMING,), MessageEvent.COMPLETE, MessageStatus.COMPLETED),
            ((MessageStatus.STREAMING,), MessageEvent.FAIL, MessageStatus.FAILED),
            ((MessageStatus.STREAMING,), MessageEvent.CANCEL, MessageStatus.CANCELLED),
        ]
    ),
)

MACHINES: tuple[Machine[str, str], ...] = (
    RUNTIME,  # pyright: ignore[reportAssignmentType]
    INSTALL,
    APP_OPERATION,
    INSTANCE,
    ACTIVATION,
    CALL,
    operation_machine(("completed", "interrupted")),
    CAPABILITY,
    OUTBOX,
    RUN,
    QUESTION,
    MESSAGE,
)
