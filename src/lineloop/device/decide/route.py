"""What a decision about a session needs besides the session itself. Decides nothing."""

from __future__ import annotations

from lineloop.device.decide.schemas import Schemas
from lineloop.device.decide.state import App, Call
from lineloop.kit.records import record
from lineloop.protocol.actors import Actor


@record
class Route:
    """The session's app, whom records are for, and what an end of the running operation would say.

    `operation_call` is the call that the active operation answers; `elapsed_ms` how long it has run, by the
    monotonic clock while the process lives.
    """

    app: App
    schemas: Schemas
    person: Actor | None = None
    operation_call: Call | None = None
    elapsed_ms: int = 0
