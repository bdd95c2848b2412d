"""What a person is told about an Agent Tool call: one quiet line per receipt, one for the result.

Decides the words, from envelopes alone. A call counts as running only after its receipt `started`
(spec/protocol.md §7): before that the words say that it is starting, never that it runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lineloop.kit.clock import parse_rfc3339

RECEIPTS = frozenset({"lineup.tool.accepted", "lineup.tool.progress"})
INVOKE, RESULT, ERROR, CANCEL = (
    "lineup.tool.invoke",
    "lineup.tool.result",
    "lineup.tool.error",
    "lineup.tool.cancel",
)


@dataclass
class Call:
    """One call as the conversation tells it. Times are UTC epoch milliseconds."""

    call_id: str
    app_scope: str
    method: str
    params: dict[str, Any] = field(default_factory=dict[str, Any])
    stage: str = "sent"
    ends_at_ms: int | None = None
    ended: bool = False

    @property
    def name(self) -> str:
        """`pomodoro.start`, however the app names its methods."""
        scope = f"{self.app_scope}."
        return self.method if self.method.startswith(scope) else scope + self.method

    @property
    def label(self) -> str:
        """What the person called the thing, if they did: the parameter `label` or `title`."""
        for name in ("label", "title"):
            value = self.params.get(name)
            if isinstance(value, str) and value.strip():
                return value.strip()
        return self.name

    @property
    def running(self) -> bool:
        """Started, with an end to count down to, and not over."""
        return self.stage == "started" and self.ends_at_ms is not None and not self.ended


def clock_text(milliseconds: float) -> str:
    """`0:07`, `19:59`, `1:05:00`; a begun second counts whole."""
    seconds = max(-(-int(milliseconds) // 1000), 0)
    hours, rest = divmod(seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def arguments_text(params: Mapping[str, Any]) -> str:
    """`minutes 1, label tea`; long values are cut."""
    parts: list[str] = []
    for name, value in params.items():
        shown = str(value)
        parts.append(f"{name} {shown if len(shown) <= 40 else shown[:39] + '…'}")
    return ", ".join(parts)


def told_of(call: Call, kind: str, payload: Mapping[str, Any], now_ms: int) -> str | None:
    """Moves the call on by one envelope and answers the line for it; None when there is nothing new to say.

    `now_ms` is when the envelope was spoken, so that an old receipt reads as it did then.
    """
    if call.ended:
        return None
    if kind in RECEIPTS:
        return _receipt(call, payload, now_ms)
    if kind == RESULT:
        call.ended = True
        return f"{_mark(call, payload)} {call.name}: {result_text(payload.get('result'))}"
    if kind == ERROR:
        call.ended = True
        code, message = payload.get("code", "failed"), payload.get("message", "")
        return f"✗ {call.name}: {code}" + (f" ({message})" if message else "")
    return None


def _receipt(call: Call, payload: Mapping[str, Any], now_ms: int) -> str | None:
    stage = str(payload.get("stage", ""))
    if stage == call.stage and stage != "progress":
        return None
    call.stage = stage
    reason = payload.get("reason")
    match stage:
        case "accepted":
            return None  # the line of the call itself says as much
        case "starting":
            return f"· {call.name} is starting"
        case "activation_ready":
            return f"· {call.name}: the app is ready"
        case "activation_failed" | "activation_cancelled":
            word = "did not start" if stage == "activation_failed" else "was cancelled before it started"
            return f"✗ {call.name} {word}" + (f": {reason}" if reason else "")
        case "started":
            call.ends_at_ms = end_of(payload, now_ms)
            left = call.ends_at_ms and f", {clock_text(call.ends_at_ms - now_ms)} to go"
            return f"● {call.name} started{left or ''}"
        case "progress":
            message = payload.get("message") or payload.get("progress")
            return f"· {call.name}: {message}" if message else None
        case _:
            return f"· {call.name}: {stage}" if stage else None


def end_of(payload: Mapping[str, Any], now_ms: int) -> int | None:
    """When a started operation ends, from the time facts of its receipt."""
    ends_at = payload.get("ends_at")
    if isinstance(ends_at, str):
        try:
            return parse_rfc3339(ends_at)
        except ValueError:
            return None
    remaining = payload.get("remaining_ms", payload.get("duration_ms"))
    return now_ms + remaining if isinstance(remaining, int) else None


def _mark(call: Call, payload: Mapping[str, Any]) -> str:
    """What did not begin, what was cut short (only what had started can be), what is done."""
    result: Any = payload.get("result")
    outcome: Any = result.get("outcome") if isinstance(result, Mapping) else None
    if outcome == "not_started":
        return "✗"
    return "■" if call.stage == "started" and outcome != "completed" else "✓"


def result_text(result: Any) -> str:
    """A result in a few words: its outcome with elapsed time or reason, or the plain values."""
    if not isinstance(result, Mapping):
        return str(result)
    facts: dict[str, Any] = dict(result)
    outcome = facts.pop("outcome", None)
    elapsed = facts.pop("elapsed_ms", None)
    reason = facts.pop("reason", None)
    if outcome is None:
        return arguments_text(result) or "done"
    words = str(outcome).replace("_", " ")
    if isinstance(elapsed, int):
        words += f" after {clock_text(elapsed - elapsed % 1000)}"
    return words + (f" ({str(reason).replace('_', ' ')})" if reason else "")
