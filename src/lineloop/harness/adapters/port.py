"""What an adapter is given and what it owes (spec/protocol.md §6.3).

An adapter carries out one Run against whatever it speaks to. It decides what to say and which tools to
call; where that is written, how it survives a crash and who may write are the runner's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Any, ClassVar, Protocol

from lineloop.kit.records import record
from lineloop.protocol.actors import Actor

Json = dict[str, Any]


class Replay(StrEnum):
    """How a take-over continues a Run.

    exact: the adapter says the same again; what was applied is compared and skipped. snapshot: it names its
    blocks by native ids and sets them again. none: a take-over ends `unknown`, nothing runs a second time.
    """

    EXACT = "exact"
    SNAPSHOT = "snapshot"
    NONE = "none"


class Cancel(StrEnum):
    """What cancelling does at the other end."""

    ACKNOWLEDGED = "acknowledged"
    BEST_EFFORT = "best_effort"
    UNSUPPORTED = "unsupported"


@record
class ToolSpec:
    """A tool as a model sees it. `name` is unique in the Run; `app_scope` and `method` are empty for model
    functions.
    """

    name: str
    title: str
    description: str
    input_schema: Json
    app_scope: str = ""
    method: str = ""
    contract_version: str = ""
    app_title: str = ""
    call_model: str = ""

    @property
    def is_human(self) -> bool:
        """A model function that asks the person; never part of an inventory."""
        return not self.app_scope


@record
class ToolCall:
    """One call of a recorded response. `key` is `<step>.<index>` by its place in the response. `problem` says
    why its arguments could not be read; such a call is answered with an error and never sent.
    """

    key: str
    name: str
    arguments: Json
    problem: str = ""

    def to_json(self) -> Json:
        return {"key": self.key, "name": self.name, "arguments": self.arguments}

    @classmethod
    def from_json(cls, value: Json) -> ToolCall:
        return cls(value["key"], value["name"], value["arguments"])


class ToolOutcome(StrEnum):
    """How a call came back to the Run. `started`: an operation runs on; its end comes later, to the
    operator.
    """

    RESULT = "result"
    STARTED = "started"
    ERROR = "error"
    CANCELLED = "cancelled"


@record
class ToolResult:
    """What a call gave: the tool's result, the time facts of `started`, or `{"code", "message", …}` of an
    error.
    """

    key: str
    outcome: ToolOutcome
    content: Json
    receipts: tuple[Json, ...] = ()

    def to_json(self) -> Json:
        return {
            "key": self.key,
            "outcome": str(self.outcome),
            "content": self.content,
            "receipts": list(self.receipts),
        }

    @classmethod
    def from_json(cls, value: Json) -> ToolResult:
        return cls(
            value["key"], ToolOutcome(value["outcome"]), value["content"], tuple(value.get("receipts", ()))
        )


@record
class RunRequest:
    """The Run as submitted: immutable, the same at every take-over. `history` is `[{"role", "text"}]`,
    oldest first.
    """

    run_id: str
    conversation_id: str
    target: str
    text: str
    actor: Actor
    prompter: Actor
    deadline_ms: int
    history: Sequence[Json] = ()
    tools: Sequence[Any] = ()
    output_schema: Json | None = None
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])


@record
class RunResult:
    """`format` is `text` (content a string) or `json` (content any JSON). A JSON "rejected" is a success."""

    format: str
    content: Any


@record
class Reference:
    """A native execution that this Run owns, as persisted with its first event."""

    native_id: str
    facts: Json


class RunFailed(Exception):
    """The Run ends `failed` with this public code and message. `retryable` lets the runner
    try again first.
    """

    def __init__(self, code: str, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retryable = retryable


class RunIO(Protocol):
    """The adapter's only door. Every method that writes returns after the commit."""

    @property
    def cancelled(self) -> bool: ...

    @property
    def remaining_seconds(self) -> float: ...

    async def emit(self, patch: Json) -> None:
        """Queue a `set` or `append` patch of the output message; written with the next flush."""
        ...

    async def flush(self) -> None:
        """Write what was emitted."""
        ...

    async def reference(self, native_id: str, facts: Json) -> None:
        """Persist a native execution's id together with what was emitted so far."""
        ...

    async def submitting(self) -> None:
        """Note that a native create is about to be sent. A crash before `reference` is an unknown outcome."""
        ...

    def recorded(self, entry_type: str, key: str) -> Json | None:
        """The journal entry of that type and key, if an earlier attempt recorded it."""
        ...

    async def record(self, entry_type: str, key: str, facts: Json, content: Any = None) -> None:
        """Append a journal entry: in the next commit, that is before anything that follows from it."""
        ...

    async def tools(self) -> Sequence[ToolSpec]:
        """The tools of this Run, the same ones at every take-over."""
        ...

    async def call(self, calls: Sequence[ToolCall], narrate: Narrate) -> list[ToolResult]:
        """Carry out the calls of one response; each executes once. May leave the Run waiting without a
        slot.
        """
        ...

    async def sleep(self, seconds: float) -> None: ...


class Narrate(Protocol):
    """Words for a receipt of a call that has not come back yet, or None."""

    def __call__(self, call: ToolCall, receipt: Json) -> str | None: ...


class Adapter(Protocol):
    """One way of carrying out a Run. `resume` is called at take-over unless `replay` is none.

    `name` is what `harness_of` makes of the targets it takes.
    """

    name: ClassVar[str]
    replay: ClassVar[Replay]
    cancel: ClassVar[Cancel]
    label: ClassVar[str]
    """What people read about it, beside its output; may be empty."""

    async def run(self, request: RunRequest, io: RunIO) -> RunResult: ...

    async def resume(self, request: RunRequest, references: Sequence[Reference], io: RunIO) -> RunResult: ...

    async def repair(self, request: RunRequest, invalid: Any, problem: str, io: RunIO) -> RunResult | None:
        """One more attempt after a result broke `output_schema`; None when the adapter cannot repair."""
        ...
