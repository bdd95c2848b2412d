"""Every decision made twice from the same reads, time and ids: it has to come to the same facts and effects.

The second time reads nothing: it is told what the first one read. So a whole history is a proof that nothing
else than event, state and time decides, and that its log replays to the same facts.
"""

from __future__ import annotations

from collections import deque
from typing import Any, TypeVar

from lineloop.device.commit.room import Decide, Room
from lineloop.device.decide.plan import Plan
from lineloop.kit.database import Tx

T = TypeVar("T")


class _Ids:
    """Ids as they come, kept to be given out a second time."""

    def __init__(self, ids: Any, known: deque[tuple[str, str]] | None = None) -> None:
        self._ids = ids
        self._known = known
        self.drawn: deque[tuple[str, str]] = deque()

    def make(self, prefix: str) -> str:
        if self._known is None:
            made = self._ids.make(prefix)
            self.drawn.append((prefix, made))
            return made
        asked, made = self._known.popleft()
        assert asked == prefix, f"the second time asked for {prefix}, the first for {asked}"
        return made


class _Recording:
    """A transaction that keeps what it answered."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self.answers: deque[tuple[str, Any]] = deque()

    def __getattr__(self, name: str) -> Any:
        whole = getattr(self._tx, name)
        if name not in ("one", "all", "run", "put"):
            return whole

        def ask(sql: str, params: Any = ()) -> Any:
            answer = whole(sql, params)
            self.answers.append((sql, answer))
            return answer

        return ask


class _Replaying:
    """A transaction that is not there: it answers what was answered before."""

    shared = False

    def __init__(self, answers: deque[tuple[str, Any]]) -> None:
        self._answers = answers

    def _answer(self, sql: str, params: Any = ()) -> Any:
        del params
        asked, answer = self._answers.popleft()
        assert asked == sql, f"the second time read\n{sql}\nthe first\n{asked}"
        return answer

    one = all = run = put = _answer

    def after_commit(self, callback: Any) -> None:
        """Nothing of it is committed."""

    def lock(self, name: str) -> None:
        """Nobody else is there."""


def decide_twice(room: Room) -> list[str]:
    """From now on every decision of the room is made twice. The sources of those that were are gathered."""
    whole, made = room.join, list[str]()

    def join(tx: Tx, source: str, decide: Decide[T], *sites: str) -> T:
        def twice(tx: Tx, plan: Plan) -> T:
            recording: Any = _Recording(tx)
            ids = plan.ids = _Ids(room.foundation.ids)
            answer = decide(recording, plan)
            again = Plan(plan.moment, _Ids(None, ids.drawn), plan.source, plan.limits)
            replaying: Any = _Replaying(recording.answers)
            decide(replaying, again)
            assert again.facts == plan.facts, f"{source}: other facts the second time"
            assert again.effects == plan.effects, f"{source}: other effects the second time"
            made.append(source)
            return answer

        return whole(tx, source, twice, *sites)

    room.join = join  # type: ignore[method-assign]
    return made
