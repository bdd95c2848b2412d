"""Tasks with an owner: none is forgotten, none dies unseen.

Whoever starts background work holds a `Tasks` and closes it. What to do about a crash is the owner's decision
(`on_crash`); that it is logged is decided here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

import structlog

T = TypeVar("T")

_SLOW_SECONDS = 5.0

_log = structlog.get_logger(__name__)


class Tasks:
    """A group of tasks that ends together.

    `on_crash(name, error)` is called on the loop when a task ends with an exception; cancellation is no
    crash.
    """

    def __init__(self, name: str, on_crash: Callable[[str, BaseException], None] | None = None) -> None:
        self._name = name
        self._on_crash = on_crash
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    def spawn(self, coro: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """Start `coro` as a task of this group. Raises RuntimeError once the group is closed."""
        if self._closed:
            coro.close()
            raise RuntimeError(f"tasks of {self._name} are closed; {name} was not started")
        task = asyncio.get_running_loop().create_task(coro, name=f"{self._name}/{name}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def __len__(self) -> int:
        return len(self._tasks)

    async def close(self) -> None:
        """Cancel everything and wait until it has ended. May be called by one of the tasks, which then
        survives.
        """
        self._closed = True
        current = asyncio.current_task()
        waiting = {task for task in self._tasks if task is not current}
        for task in waiting:
            task.cancel()
        while waiting:
            # Cancelled once only: a second one would break the cleaning up that the first began.
            done, waiting = await asyncio.wait(waiting, timeout=_SLOW_SECONDS)
            self._tasks -= done
            if waiting:
                names = sorted(task.get_name() for task in waiting)
                _log.warning("tasks_slow_to_end", group=self._name, tasks=names)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        _log.error("task_crashed", group=self._name, task=task.get_name(), exc_info=error)
        if self._on_crash is not None:
            self._on_crash(task.get_name(), error)
