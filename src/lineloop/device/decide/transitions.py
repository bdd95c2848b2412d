"""Takes steps in the state tables by naming the state that follows.

Decides nothing of its own: the tables of protocol.machines say which step is legal. Facts carry states, so
the deciders speak of the state they want and the table answers whether an event leads there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from lineloop.protocol.errors import IllegalTransition
from lineloop.protocol.machines import ACTIVATION, CALL, INSTANCE, Machine

S = TypeVar("S", bound=str)
E = TypeVar("E", bound=str)


def _stepper(machine: Machine[S, E]) -> Callable[[str, str], None]:
    legal = {(str(start), str(end)) for (start, _), end in machine.transitions.items()}

    def step(state: str, target: str) -> None:
        if (state, target) not in legal:
            raise IllegalTransition(
                f"{machine.name}: {target} does not follow {state}",
                detail={"machine": machine.name, "state": state, "target": target},
            )

    return step


move_call = _stepper(CALL)
move_activation = _stepper(ACTIVATION)
move_instance = _stepper(INSTANCE)
