"""`python -m benchmarks [B1 …]`: measures all and writes docs/benchmarks.md, or prints the named ones."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvloop

from benchmarks import (
    b1_tool_call,
    b2_speak,
    b3_streaming,
    b4_viewers,
    b7_growth,
    b8_start,
    b9_shell,
    b9s_storage,
    report,
)
from benchmarks.measure import Report, flush_ms, machine

BENCHMARKS: dict[str, Callable[[Path], Awaitable[Report]]] = {
    "B1": b1_tool_call.measure,
    "B2": b2_speak.measure,
    "B3": b3_streaming.measure,
    "B4": b4_viewers.measure,
    "B7": b7_growth.measure,
    "B8": b8_start.measure,
    "B9": b9_shell.measure,
    "B9S": b9s_storage.measure,
}


async def main(names: list[str]) -> int:
    chosen = names or list(BENCHMARKS)
    unknown = [name for name in chosen if name not in BENCHMARKS]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    facts = machine()
    reports: list[Report] = []
    with tempfile.TemporaryDirectory(prefix="lineloop-bench-") as name:
        folder = Path(name)
        facts.append(f"one small durable write (fdatasync): {flush_ms(folder):.2f} ms, median")
        for benchmark in chosen:
            begun = time.monotonic()
            place = folder / benchmark
            place.mkdir()
            reports.append(await BENCHMARKS[benchmark](place))
            print(report.section(reports[-1]))
            print(f"{benchmark} took {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    if not names:
        report.write(reports, facts)
    return 0


if __name__ == "__main__":
    # One event loop for both sides' clients, the quick one.
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        sys.exit(runner.run(main(sys.argv[1:])))
