"""B8: how soon `lineloop up` answers, what it needs while idle, and how soon a reconcile wakes in process."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import psutil

from benchmarks.measure import Figures, Goal, Report, in_turn, row, single
from benchmarks.processes import free_port, listening, ready, start, stop
from lineloop import Loop, Operator, Turn
from lineloop.client.in_process import InProcessTransport
from lineloop.operators.worker import OperatorWorker
from lineloop.server.app import Server
from lineloop.server.settings import ServerSettings
from lineloop.server.wakeup.bus import MessageChanged

IDLE_SECONDS = 3.0
WAKES, WARM_WAKES = 110, 10
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


async def wake_ms(folder: Path) -> list[float]:
    """From the commit of a message, when its hint is published, to the operator's turn, in one process."""
    committed = turned = 0.0
    seen = asyncio.Event()
    operator = Operator("woken", display_name="Woken")

    @operator.reconcile
    async def reconcile(turn: Turn) -> None:
        nonlocal turned
        turned = time.perf_counter()
        await turn.commit((await turn.poll()).position)
        seen.set()

    def hear(hint: object) -> None:
        nonlocal committed
        if isinstance(hint, MessageChanged):
            committed = time.perf_counter()

    server = Server(ServerSettings(database=folder / "wake.sqlite3"))
    await server.start()

    def inside(token: str) -> Loop:
        return Loop(InProcessTransport(server.asgi, server.open_link, token), clock=server.clock)

    times: list[float] = []
    async with (
        inside(server.admin_token) as person,
        inside(server.local_token(operator.actor)) as loop,
        OperatorWorker(operator, loop),
    ):
        conversation = await person.create_conversation("wake")
        stop_hearing = server.bus.listen_all(hear)
        for number in range(WAKES):
            seen.clear()
            await person.conversation(conversation.id).speak(
                "wake", key=f"wake-{number}", target=operator.actor
            )
            await asyncio.wait_for(seen.wait(), 10)
            times.append((turned - committed) * 1000)
            await asyncio.sleep(0.02)  # the turn has ended: the next message finds an idle operator
        stop_hearing()
    await server.close()
    return times[WARM_WAKES:]


async def measure(folder: Path) -> Report:
    starts = Starts(folder)
    mine, other = await in_turn(starts.ours, starts.theirs)
    woken = await wake_ms(folder)
    report = Report(
        "B8", "start, idle memory, wake", "a bare uvicorn with Starlette and one route, until it accepts."
    )
    report.rows = [
        row("`lineloop up` until every part answers", "ms", "ms", mine, other, Goal("<=", 3.0)),
        single("the very first start, which creates the databases", "ms", [starts.first_ms or 0.0]),
        single("memory when idle, all processes", "MiB", starts.memory_mib, Goal("<=", 120.0)),
        single(
            "from a message's commit to the operator's turn, in one process", "ms", woken, Goal("<=", 1.0)
        ),
    ]
    return report
