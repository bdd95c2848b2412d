"""B8: how soon `lineloop up` answers, what it needs while idle, and how soon a reconcile wakes in process."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import psutil

from benchmarks.measure import Figures, Goal, Report, in_turn, row, single
from benchmarks.processes import free_port, listening, ready, start, stop

IDLE_SECONDS = 3.0
MIB = 1024 * 1024


class Starts:
    """Starts `lineloop up` again and again on one data directory; the first start also creates the
    databases.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.memory_mib: list[float] = []
        self.first_ms: float | None = None

    async def ours(self) -> Figures:
        ready_file, log = self._folder / "up.json", self._folder / "up.log"
        command = ["-m", "lineloop.cli", "up", "--data-dir", str(self._folder / "data"), "--server-port", "0"]
        command += ["--shell-port", "0", "--no-open", "--ready-file", str(ready_file)]
        begun = time.perf_counter()
        process = start(command, log)
        try:
            await ready(process, ready_file, log)
            taken = (time.perf_counter() - begun) * 1000
            if self.first_ms is None:
                self.first_ms = taken
            else:
                await asyncio.sleep(IDLE_SECONDS)
                self.memory_mib.append(resident_mib(process.pid))
        finally:
            stop(process)
        return {"ms": taken}

    async def theirs(self) -> Figures:
        port, log = free_port(), self._folder / "bare.log"
        begun = time.perf_counter()
        process = start([str(Path(__file__).parent / "bare_peer.py"), str(port)], log)
        try:
            await listening(port, process, log)
            return {"ms": (time.perf_counter() - begun) * 1000}
        finally:
            stop(process)


def resident_mib(pid: int) -> float:
    """Resident memory of a process and its children."""
    process = psutil.Process(pid)
    family = [process, *process.children(recursive=True)]
    return sum(member.memory_info().rss for member in family) / MIB


async def measure(folder: Path) -> Report:
    starts = Starts(folder)
    mine, other = await in_turn(starts.ours, starts.theirs)
    report = Report(
        "B8", "start, idle memory", "a bare uvicorn with Starlette and one route, until it accepts."
    )
    report.rows = [
        row("`lineloop up` until every part answers", "ms", "ms", mine, other, Goal("<=", 3.0)),
        single("the very first start, which creates the databases", "ms", [starts.first_ms or 0.0]),
        single("memory when idle, all processes", "MiB", starts.memory_mib, Goal("<=", 120.0)),
    ]
    return report
