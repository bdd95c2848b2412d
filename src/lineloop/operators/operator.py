"""An operator: who it is and what it does in a turn. Everything else comes with the worker.

Decides nothing about when turns run (worker) or what verbs do (turn).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from lineloop.control.controller import Result
from lineloop.operators.turn import Turn
from lineloop.protocol.actors import OPERATOR, Actor
from lineloop.protocol.errors import InvalidRequest

__all__ = ["Operator", "Reconcile", "Result"]

Reconcile = Callable[[Turn], Awaitable[Result | None]]
F = TypeVar("F", bound=Reconcile)


class Operator:
    """A participant that reacts to its conversations.

    `key` names it (`operator/<key>`), `display_name` is what people see. Raises InvalidRequest for a bad key.
    """

    def __init__(self, key: str, *, display_name: str, description: str = "") -> None:
        self.actor = Actor(OPERATOR, key)
        self.key = key
        self.display_name = display_name
        self.description = description
        self._reconcile: Reconcile | None = None

    def reconcile(self, function: F) -> F:
        """Decorator: the function that brings one conversation to where it should be.

        It is called with a Turn whenever there may be something to do, never twice at once for one
        conversation, and again after an exception. Returning `Result(requeue_after_seconds=…)` asks for
        another turn later. Raises InvalidRequest for a second function.
        """
        if self._reconcile is not None:
            raise InvalidRequest(f"operator {self.key!r} already has a reconcile function")
        self._reconcile = function
        return function

    @property
    def ready(self) -> bool:
        """Whether there is something to call."""
        return self._reconcile is not None

    async def take(self, turn: Turn) -> Result | None:
        """Run one turn. Raises whatever the function raises, InvalidRequest when there is none."""
        if self._reconcile is None:
            raise InvalidRequest(f"operator {self.key!r} has no reconcile function")
        return await self._reconcile(turn)
