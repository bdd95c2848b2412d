"""Runs the gates and the tests on two cores, and ends with one line that tells how many tests ran.

`python tools/tally.py check` or any names of PARTS. A gate passes or fails; a suite also counts its tests.
The run fails when any part failed, or when a suite ran no test. Each part's output is printed as one piece
when it ends.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
LANES = 2
PYTEST = [sys.executable, "-m", "pytest"]
TWO = ["-n", "2", "--dist", "worksteal"]
# Tests that start processes wait for them: a third worker computes meanwhile.
THREE = ["-n", "3", "--dist", "worksteal"]
QUICK = ["tests/unit", "tests/machines"]
TOGETHER = ["tests/contract", "tests/interaction"]
# What a server does, once more with its data on PostgreSQL.
ON_POSTGRES = [
    "tests/contract/server",
    "tests/contract/runs",
    "tests/contract/control",
    "tests/interaction/server",
    "tests/interaction/operators",
]
OUTSIDE = ["tests/faults", "tests/blackbox"]


@dataclass(frozen=True)
class Part:
    """One command. `counts`: which report its tests are read from; `lanes`: how many cores it keeps busy."""

    command: list[str]
    counts: Literal["nothing", "pytest", "vitest"] = "nothing"
    lanes: int = 1


class Outcome(NamedTuple):
    ok: bool
    passed: int = 0
    failed: int = 0
    skipped: int = 0


# In groups what takes one lane stands first, and of that the longest, so that both lanes end together.
PARTS: dict[str, Part] = {
    "types": Part([str(BIN / "pyright")]),
    # A sixth less work: the types of tests and benchmarks are looked at by `types`.
    "types-quick": Part([str(BIN / "pyright"), "src", "examples", "tools"]),
    "format": Part([str(BIN / "ruff"), "format", "--check", "."]),
    "lint": Part([str(BIN / "ruff"), "check", "."]),
    "imports": Part([str(BIN / "lint-imports")]),
    "generated": Part([sys.executable, "tools/generate.py", "--check"]),
    "requirements": Part([sys.executable, "tools/check_requirements.py"]),
    "web-types": Part(["npm", "run", "--silent", "typecheck"]),
    "web": Part(["npx", "vitest", "run"], "vitest"),
    # Beside `types-quick`, which ends last: one lane, though it has two workers for what waits.
    "quick": Part([*PYTEST, "-n", "2", "-m", "not slow", "--hypothesis-profile=quick", *QUICK], "pytest"),
    # Everything within one process, with all of Hypothesis' cases. In one run, because each run collects the
    # tests and imports what they need once more.
    "inside": Part([*PYTEST, *TWO, *QUICK, *TOGETHER], "pytest", lanes=2),
    "postgres": Part(
        [*PYTEST, *TWO, "-m", "not slow and not sqlite", "--database=postgres", *ON_POSTGRES],
        "pytest",
        lanes=2,
    ),
    "outside": Part([*PYTEST, *THREE, *OUTSIDE], "pytest", lanes=2),
    "faults": Part([*PYTEST, *THREE, "tests/faults"], "pytest", lanes=2),
    "blackbox": Part([*PYTEST, *THREE, "tests/blackbox"], "pytest", lanes=2),
    # Modules share a browser and a system.
    "browser": Part([*PYTEST, "-n", "2", "--dist", "loadfile", "tests/browser"], "pytest", lanes=2),
    "docs": Part([*PYTEST, "tests/docs"], "pytest"),
    "packaging": Part([*PYTEST, "tests/packaging"], "pytest"),
}
LONGEST_SECONDS = 600.0
# Process groups of the parts that run now: an interrupted run ends them.
STARTED: set[int] = set()
GATES = ["types", "format", "lint", "imports", "generated", "requirements", "web-types"]
GROUPS: dict[str, list[str]] = {
    "gates": GATES,
    "check": ["types-quick", "quick", *GATES[1:], "web"],
    "test": ["types", "packaging", "web", *GATES[1:], "docs", "inside", "postgres", "outside", "browser"],
}


@dataclass
class Tally:
    """What has run so far."""

    outcomes: dict[str, Outcome] = field(default_factory=dict[str, Outcome])

    def failures(self) -> list[str]:
        return [name for name, outcome in self.outcomes.items() if not outcome.ok]

    def closing_line(self) -> str:
        passed = sum(outcome.passed for outcome in self.outcomes.values())
        failed = sum(outcome.failed for outcome in self.outcomes.values())
        skipped = sum(outcome.skipped for outcome in self.outcomes.values())
        return f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else "")


def pytest_counts(report: Path) -> tuple[int, int, int]:
    """(passed, failed, skipped) of a JUnit report; zeros when the run wrote none."""
    if not report.exists() or not report.stat().st_size:
        return 0, 0, 0
    suites = ET.parse(report).getroot().iter("testsuite")
    total = failed = skipped = 0
    for suite in suites:
        total += int(suite.get("tests", 0))
        failed += int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        skipped += int(suite.get("skipped", 0))
    return max(total - failed - skipped, 0), failed, skipped


def vitest_counts(report: Path) -> tuple[int, int, int]:
    """(passed, failed, skipped) of vitest's JSON report; zeros when the run wrote none."""
    if not report.exists() or not report.stat().st_size:
        return 0, 0, 0
    numbers = json.loads(report.read_text(encoding="utf-8"))
    skipped = numbers["numPendingTests"] + numbers.get("numTodoTests", 0)
    return numbers["numPassedTests"], numbers["numFailedTests"], skipped


def completed(command: list[str]) -> tuple[int, bytes]:
    """Exit code and output. What hangs is ended with everything that it started, and that is a failure."""
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    STARTED.add(process.pid)
    try:
        output, _ = process.communicate(timeout=LONGEST_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        output += f"\nended after {LONGEST_SECONDS:.0f} s: something hangs".encode()
    finally:
        STARTED.discard(process.pid)
    return process.returncode, output


def run(name: str, part: Part) -> Outcome:
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report"
        extra = {
            "nothing": [],
            # A folder of its own: runs beside this one clear the shared one.
            "pytest": [f"--junitxml={report}", f"--basetemp={Path(folder) / 'tests'}"],
            "vitest": ["--reporter=default", "--reporter=json", f"--outputFile.json={report}"],
        }[part.counts]
        code, output = completed([*part.command, *extra])
        counts = {"nothing": lambda _: (0, 0, 0), "pytest": pytest_counts, "vitest": vitest_counts}[
            part.counts
        ]
        passed, failed, skipped = counts(report)
    ran_none = part.counts != "nothing" and passed + failed == 0
    ok = code == 0 and not failed and not ran_none
    verdict = "ok" if ok else "ran no test" if ran_none and code in (0, 5) else "FAILED"
    told = f", {passed + failed} tests" if part.counts != "nothing" else ""
    text = output.decode(errors="replace").rstrip()
    print(f"── {name}: {verdict}{told} ({time.monotonic() - begun:.1f} s)", flush=True)
    if text and (not ok or part.counts != "nothing"):
        print(text, flush=True)
    return Outcome(ok, passed, failed, skipped)


def chosen(names: list[str]) -> list[str]:
    """Part names for group and part names, in order, each once. Raises SystemExit for an unknown one."""
    parts: list[str] = []
    for name in names or ["check"]:
        if name not in GROUPS and name not in PARTS:
            raise SystemExit(f"no part {name!r}; there are {', '.join([*GROUPS, *PARTS])}")
        parts += [part for part in GROUPS.get(name, [name]) if part not in parts]
    return parts


def run_all(
    names: Sequence[str], parts: Mapping[str, Part], run: Callable[[str, Part], Outcome]
) -> dict[str, Outcome]:
    """Runs each as soon as there are lanes for it; of those for which there are, the first named one."""
    waiting, outcomes = list(names), dict[str, Outcome]()
    running: dict[Future[Outcome], str] = {}
    with ThreadPoolExecutor(LANES) as threads:
        while waiting or running:
            for name in tuple(waiting):
                free = LANES - sum(parts[other].lanes for other in running.values())
                if parts[name].lanes <= free:
                    waiting.remove(name)
                    running[threads.submit(run, name, parts[name])] = name
            for ended in wait(running, return_when=FIRST_COMPLETED).done:
                outcomes[running.pop(ended)] = ended.result()
    return outcomes


def interrupt(*_: object) -> None:
    """Ends what runs, so that nothing is left behind and nobody waits for it. Raises KeyboardInterrupt."""
    for group in tuple(STARTED):
        os.killpg(group, signal.SIGTERM)
    raise KeyboardInterrupt


def main(names: list[str]) -> int:
    parts, begun = chosen(names), time.monotonic()
    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, interrupt)
    try:
        tally = Tally(run_all(parts, PARTS, run))
    except KeyboardInterrupt:
        return 130
    if tally.failures():
        print(f"failed: {', '.join(tally.failures())}")
    print(f"{len(parts)} parts in {time.monotonic() - begun:.0f} s")
    print(tally.closing_line(), flush=True)
    return 1 if tally.failures() else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
