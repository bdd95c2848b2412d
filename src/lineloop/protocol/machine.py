"""A table of states and steps, and its one reader (spec/protocol.md §11)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Generic, TypeVar

from lineloop.kit.records import record
from lineloop.protocol.errors import IllegalTransition

S = TypeVar("S", bound=str)
E = TypeVar("E", bound=str)


@record
class Machine(Generic[S, E]):
    """A table of transitions. Terminal states are those without a way out."""

    name: str
    initial: S
    transitions: Mapping[tuple[S, E], S]

    @property
    def states(self) -> tuple[S, ...]:
        """In order of first mention."""
        pairs = ((start, end) for (start, _), end in self.transitions.items())
        return tuple(dict.fromkeys([self.initial, *chain.from_iterable(pairs)]))

    @property
    def events(self) -> tuple[E, ...]:
        return tuple(dict.fromkeys(event for _, event in self.transitions))

    @property
    def terminal(self) -> frozenset[S]:
        return frozenset(self.states) - {state for state, _ in self.transitions}

    def next(self, state: S, event: E) -> S:
        """The state after `event`. Raises IllegalTransition when the table has no such step."""
        after = self.transitions.get((state, event))
        if after is None:
            raise IllegalTransition(
                f"{self.name}: {event} is not possible in state {state}",
                detail={"machine": self.name, "state": str(state), "event": str(event)},
            )
        return after

    def allows(self, state: S, event: E) -> bool:
        return (state, event) in self.transitions

    def is_terminal(self, state: S) -> bool:
        return not any(start == state for start, _ in self.transitions)


Row = tuple[Iterable[S], E, S]


def table_of(rows: Sequence[Row[S, E]]) -> Mapping[tuple[S, E], S]:
    """The table of rows (from any of these states, by this event, to that state). Raises ValueError for two
    rows that answer one pair.
    """
    table: dict[tuple[S, E], S] = {}
    for starts, event, end in rows:
        for start in starts:
            if (start, event) in table:
                raise ValueError(f"two rows for {start} and {event}")
            table[(start, event)] = end
    return MappingProxyType(table)
