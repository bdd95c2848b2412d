"""Lineloop: a durable runtime in which people, agents and mini-apps work together.

The names below are the public ones; they are loaded on first use, so that `import lineloop` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lineloop.client import Loop, MessageHandle
    from lineloop.control.controller import Result
    from lineloop.operators.inbox import Inbox, LateResult
    from lineloop.operators.operator import Operator
    from lineloop.operators.turn import Turn
    from lineloop.protocol.actors import Actor
    from lineloop.protocol.errors import CapacityExceeded, LoopError
    from lineloop.protocol.messages import Message, MessageStatus

__all__ = [
    "Actor",
    "CapacityExceeded",
    "Inbox",
    "LateResult",
    "Loop",
    "LoopError",
    "Message",
    "MessageHandle",
    "MessageStatus",
    "Operator",
    "Result",
    "Turn",
]

__version__ = "0.1.0"

_HOMES = {
    "Actor": "lineloop.protocol.actors",
    "CapacityExceeded": "lineloop.protocol.errors",
    "Inbox": "lineloop.operators.inbox",
    "LateResult": "lineloop.operators.inbox",
    "Loop": "lineloop.client",
    "LoopError": "lineloop.protocol.errors",
    "Message": "lineloop.protocol.messages",
    "MessageHandle": "lineloop.client",
    "MessageStatus": "lineloop.protocol.messages",
    "Operator": "lineloop.operators.operator",
    "Result": "lineloop.control.controller",
    "Turn": "lineloop.operators.turn",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'lineloop' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
