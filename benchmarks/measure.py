"""How a figure is taken: rounds in which both sides run in turn, medians of at least five, ratios.

Decides nothing about what is measured. Interleaving makes slow drifts of the machine hit both sides alike.
"""

from __future__ import annotations

import asyncio
import platform
import sqlite3
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import psutil

ROUNDS = 5

Figures = dict[str, float]
Side = Callable[[], Awaitable[Figures]]


@dataclass(frozen=True)
class Goal:
    """What a ratio or figure should be: at most (`<=`) or at least (`>=`) `value`."""

    sign: str
    value: float

    def met(self, figure: float) -> bool:
        return figure <= self.value if self.sign == "<=" else figure >= self.value

    def __str__(self) -> str:
        return f"{'≤' if self.sign == '<=' else '≥'} {self.value:g}"


@dataclass(frozen=True)
class Row:
    """One line of a report. `ours` and `theirs` are medians in `unit`; `theirs` None means an absolute
    figure.
    """

    what: str
    unit: str
    ours: float
    theirs: float | None
    goal: Goal | None
    spread: tuple[float, float] | None = None

    @property
    def ratio(self) -> float | None:
        return self.ours / self.theirs if self.theirs else None

    @property
    def met(self) -> bool | None:
        if self.goal is None:
            return None
        return self.goal.met(self.ours if self.ratio is None else self.ratio)


@dataclass
class Report:
    """One benchmark's outcome. `notes` are sentences; `yardstick` says what the other side is."""

    id: str
    title: str
    yardstick: str
    rows: list[Row] = field(default_factory=list[Row])
    notes: list[str] = field(default_factory=list[str])


async def in_turn(ours: Side, theirs: Side, rounds: int = ROUNDS) -> tuple[list[Figures], list[Figures]]:
    """Runs both sides `rounds` times, changing who goes first, after one round that does not count."""
    await ours()
    await theirs()
    left: list[Figures] = []
    right: list[Figures] = []
    for number in range(rounds):
        if number % 2:
            right.append(await theirs())
            left.append(await ours())
        else:
            left.append(await ours())
            right.append(await theirs())
    return left, right


def row(
    what: str, unit: str, name: str, ours: Sequence[Figures], theirs: Sequence[Figures], goal: Goal | None
) -> Row:
    """Medians of one figure, with the spread of the per-round ratios."""
    mine = [figures[name] for figures in ours]
    other = [figures[name] for figures in theirs]
    ratios = [a / b for a, b in zip(mine, other, strict=True)]
    return Row(
        what, unit, statistics.median(mine), statistics.median(other), goal, (min(ratios), max(ratios))
    )


def single(what: str, unit: str, figures: Sequence[float], goal: Goal | None = None) -> Row:
    """A figure without a yardstick."""
    return Row(what, unit, statistics.median(figures), None, goal, (min(figures), max(figures)))


async def latencies_ms(call: Callable[[int], Awaitable[object]], count: int, warm: int = 10) -> list[float]:
    """Times of `count` calls, one after the other, in milliseconds."""
    for number in range(warm):
        await call(-1 - number)
    times: list[float] = []
    for number in range(count):
        begun = time.perf_counter()
        await call(number)
        times.append((time.perf_counter() - begun) * 1000)
    return times


async def per_second(workers: Sequence[Callable[[int], Awaitable[object]]], each: int) -> float:
    """Calls per second when every worker makes `each` calls, one after the other, all workers at once."""

    async def work(call: Callable[[int], Awaitable[object]]) -> None:
        for number in range(each):
            await call(number)

    begun = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for call in workers:
            group.create_task(work(call))
    return len(workers) * each / (time.perf_counter() - begun)


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def flush_ms(folder: Path, count: int = 40) -> float:
    """Median time of one small durable write here: what a commit cannot be faster than."""
    import os

    times: list[float] = []
    with (folder / "flush-probe").open("wb", buffering=0) as file:
        for _ in range(count):
            begun = time.perf_counter()
            file.write(b"x" * 4096)
            os.fdatasync(file.fileno())
            times.append((time.perf_counter() - begun) * 1000)
    (folder / "flush-probe").unlink()
    return statistics.median(times)


def machine() -> list[str]:
    """Facts without which figures mean nothing."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [
            line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line
        ]
        model = names[0] if names else model
    memory = psutil.virtual_memory().total / 1024**3
    return [
        f"{psutil.cpu_count()} cores ({model}), {memory:.0f} GiB, {platform.system()} {platform.release()}",
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}",
        ", ".join(
            f"{name} {version(name)}" for name in ("uvicorn", "starlette", "websockets", "uvloop", "mcp")
        ),
    ]
