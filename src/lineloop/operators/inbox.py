"""What a turn received: messages to think about, late tool results, and the position that covers all of it.

Decides what an operator's author sees of a poll; envelopes and inventories are traffic between programs and
are covered by the position without being listed. Leaves polling and committing to the turn (spec/protocol.md
§5).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

from lineloop.kit.records import record
from lineloop.protocol.actors import RUNTIME
from lineloop.protocol.envelopes import TERMINAL_TYPES, EnvelopeType
from lineloop.protocol.messages import Message


@record
class LateResult:
    """A device's final answer to a tool call, as a message of its own.

    `reply_to_id` is the message that invoked the tool. `result` is set when `ok`, else `code` and `text` tell
    what went wrong. A run that waited for the answer has seen it too: match by `call_id`
    (`<run>/<step>.<n>`).
    """

    message: Message
    call_id: str
    ok: bool
    result: dict[str, Any] | None = None
    code: str | None = None
    text: str | None = None

    @property
    def reply_to_id(self) -> str | None:
        return self.message.reply_to_id


class Inbox(Sequence[Message]):
    """The messages of one poll that people and operators wrote, in offset order.

    `position` (an offset) covers everything polled, also what is not listed: commit it when all is safely
    done. `committed` is where the poll began; `results` are the late tool results among what was polled.
    """

    def __init__(
        self, messages: Iterable[Message], *, position: int, committed: int = 0, full: bool = False
    ) -> None:
        polled = list(messages)
        self._messages = [message for message in polled if not message.purpose.carries_envelope]
        self.results = [late for message in polled if (late := late_result(message)) is not None]
        self.position = position
        self.committed = committed
        # The page was full: more may wait behind it.
        self.full = full

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        return self._messages[index]

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages)


def late_result(message: Message) -> LateResult | None:
    """The final tool answer that a device gives as the reply to an invoke, or None."""
    envelope = message.envelope
    if envelope is None or message.reply_to_id is None or message.actor.kind != RUNTIME:
        return None
    if envelope.get("type") not in TERMINAL_TYPES:
        return None
    payload: Any = envelope.get("payload")
    fields: dict[str, Any] = payload if isinstance(payload, dict) else {}
    correlation: Any = envelope.get("correlation") or {}
    call_id = str(correlation.get("call_id") or "")
    if envelope["type"] == EnvelopeType.TOOL_RESULT:
        result: Any = fields.get("result")
        return LateResult(message, call_id, ok=True, result=result if isinstance(result, dict) else {})
    return LateResult(
        message,
        call_id,
        ok=False,
        code=str(fields.get("code") or "internal"),
        text=str(fields.get("message") or ""),
    )


def wakes(message: Message) -> bool:
    """Whether a pushed message is a reason to start a turn: a receipt or an inventory is none."""
    return not message.purpose.carries_envelope or late_result(message) is not None
