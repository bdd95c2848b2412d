"""What the runner needs from whoever stores Runs (spec/protocol.md §6). The server implements it.

Every write names a lease; the storage checks its token in the same transaction, so that a late writer is
refused there and not here. Decides shapes only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, Protocol

from lineloop.harness.adapters.port import Json, RunRequest
from lineloop.kit.records import record
from lineloop.protocol.actors import Actor
from lineloop.protocol.machines import RunEvent, RunPhase


@record
class Lease:
    """The right to write one Run. `token` grows with every take-over."""

    run_id: str
    holder: str
    token: int


@record
class Entry:
    """A ledger entry to append. `(type, key)` is unique in a Run; `facts` are small and impersonal,
    `content` is not.
    """

    type: str
    facts: Json
    key: str | None = None
    content: Any = None
    native_id: str | None = None


@record
class StoredEntry:
    """A ledger entry as read. `at` is UTC milliseconds; erased content reads as None."""

    seq: int
    attempt: int
    type: str
    key: str | None
    native_id: str | None
    at: int
    facts: Json
    content: Any

    def to_wire(self, at: str) -> Json:
        return {
            "seq": self.seq,
            "attempt": self.attempt,
            "type": self.type,
            "key": self.key,
            "native_id": self.native_id,
            "at": at,
            "facts": self.facts,
            "content": self.content,
        }


@record
class Claim:
    """A Run that this holder may now drive, with all it needs to continue.

    `revision` is the output's last patch; `wakes` counts the answers that arrived so far; `submitting` is
    the attempt whose native create has no reference yet.
    """

    lease: Lease
    request: RunRequest
    phase: RunPhase
    root_id: str
    message_id: str
    revision: int
    wakes: int
    entries: Sequence[StoredEntry]
    submitting: int | None
    cancel_requested: bool
    retries: int


@record
class Invoke:
    """A tool call for a device: one durable message. `until` is `result` or `started_or_result`."""

    call_id: str
    message_key: str
    device: Actor
    payload: Json
    inventory_revision: str
    until: str


@record
class PersonQuestion:
    """A question of a Run to the person whose conversation it is. `kind` is `ask` or `confirm`."""

    call_id: str
    kind: str
    text: str
    choices: tuple[tuple[str, str], ...]
    allow_other: bool


@record
class Finish:
    """The end of a Run: a result only with `succeed`, an error `{"code", "message"}` with every other
    event.
    """

    event: RunEvent
    result: Json | None = None
    error: Json | None = None
    facts: Json = field(default_factory=dict[str, Any])


@record
class RunChange:
    """What one commit does to a Run. `suspend_at` gives the lease back if no answer came since that many
    wakes.

    Patches carry their seq and entries their key, so that a repeated commit changes nothing. Invokes and
    questions are paired with the key of their `tool.dispatched` entry, whose facts get the `message_id`.
    """

    entries: Sequence[Entry] = ()
    patches: Sequence[Json] = ()
    invokes: Sequence[tuple[str, Invoke]] = ()
    questions: Sequence[tuple[str, PersonQuestion]] = ()
    answered: Sequence[str] = ()
    events: Sequence[RunEvent] = ()
    submitting: bool = False
    suspend_at: int | None = None
    retry_in_ms: int | None = None
    finish: Finish | None = None


@record
class Written:
    """What the Run looks like after a commit; `entries` as they were stored."""

    revision: int
    wakes: int
    suspended: bool
    cancel_requested: bool
    entries: Sequence[StoredEntry] = ()


@record
class Answers:
    """What has come back for the given messages: envelopes (payload with type) and closed questions."""

    wakes: int
    envelopes: dict[str, list[Json]]
    questions: dict[str, Json]


@record
class DeviceInventory:
    """The newest inventory that a device published to an operator in a conversation."""

    device: Actor
    revision: str
    payload: Json


@record
class Held:
    """What became of held leases at a renewal."""

    lost: frozenset[str]
    cancelled: frozenset[str]


class RunPort(Protocol):
    """Storage of Runs, as the runner sees it. Raises LeaseLost where a lease is named and no longer holds."""

    def on_runnable(self, callback: Callable[[], None]) -> None:
        """Call `callback` on the loop whenever a Run became runnable. A hint."""
        ...

    def on_cancelled(self, callback: Callable[[str], None]) -> None:
        """Call `callback` with the id of a Run whose cancel was requested while somebody held it. A hint."""
        ...

    async def has_runnable(self) -> bool: ...

    async def claim(self, holder: str, limit: int, lease_ms: int) -> list[Claim]: ...

    async def renew(self, leases: Sequence[Lease], lease_ms: int) -> Held:
        """Keep leases for `lease_ms` from now; 0 only looks. Those that are lost are not touched."""
        ...

    async def release(self, leases: Sequence[Lease]) -> None: ...

    async def write(self, lease: Lease, change: RunChange, *, label: str) -> Written: ...

    async def end_due(self, limit: int) -> int:
        """End overdue and cancelled Runs that nobody holds; returns how many."""
        ...

    async def answers(self, run_id: str, invokes: Sequence[str], asked: Sequence[str]) -> Answers: ...

    async def output_patches(self, message_id: str) -> list[Json]:
        """Every patch of the output so far, in order."""
        ...

    async def inventory(self, root_id: str, operator: Actor) -> DeviceInventory | None: ...

    async def request_inventory(self, root_id: str, operator: Actor, run_id: str, attempt: int) -> bool:
        """Ask the devices of the conversation for their inventory. False when there is none."""
        ...
