"""Where a process stands: the stack of every thread, and of every task of the loop that runs."""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import Any


def where_everything_stands() -> str:
    """As text. For the main thread, also from a signal handler."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    told: list[str] = []
    for number, frame in sys._current_frames().items():  # pyright: ignore[reportPrivateUsage]
        told += [f"thread {names.get(number, number)}:", "".join(traceback.format_stack(frame))]
    for task in _tasks():
        told += [f"task {task.get_name()}:", *_lines(task)]
    return "\n".join(told)


def _tasks() -> list[asyncio.Task[Any]]:
    try:
        return sorted(asyncio.all_tasks(), key=lambda task: task.get_name())
    except RuntimeError:
        return []  # no loop runs here


def _lines(task: asyncio.Task[Any]) -> Iterator[str]:
    """From the outermost coroutine to what it waits for; asyncio itself tells the outermost only."""
    step: Any = task.get_coro()
    while step is not None:
        frame = _first(step, "cr_frame", "gi_frame", "ag_frame")
        if isinstance(frame, FrameType):
            yield f"  {frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_qualname}"
        step = _first(step, "cr_await", "gi_yieldfrom", "ag_await")


def _first(thing: object, *names: str) -> Any:
    found = (getattr(thing, name, None) for name in names)
    return next((value for value in found if value is not None), None)
