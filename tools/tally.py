"""Runs the gates and the tests on two cores, and ends with one line that tells how many tests ran.

`python tools/tally.py check` or any names of PARTS. A gate passes or fails; a suite also counts its tests.
The run fails when any part failed, or when a suite ran no test. A part is one line when it ends, with the
time that it took and how much of that was a processor's; what a failed one printed follows as one piece, and
what failed is named once more at the end.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
# Three for each of two cores: every part waits now and then, and another computes meanwhile.
LANES = 6
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
# Web tests that build an app or the shell: parts together.
BUILDS = ["**/build.test.ts", "**/size.test.ts", "**/budget.test.ts", "**/pomodoro/tests/manifest.test.ts"]


@dataclass(frozen=True)
class Part:
    """One command. `counts`: which report its tests are read from; `lanes`: how many of LANES it takes."""

    command: list[str]
    counts: Literal["nothing", "pytest", "vitest"] = "nothing"
    lanes: int = 1


class Outcome(NamedTuple):
    ok: bool
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    names: tuple[str, ...] = ()
    """Of the tests that failed."""


class Ended(NamedTuple):
    """How a command ended. `busy_seconds`: on a processor, with everything that it started."""

    code: int
    output: bytes
    busy_seconds: float


PARTS: dict[str, Part] = {
    "types": Part([str(BIN / "pyright")], lanes=2),
    # A sixth less work: the types of tests and benchmarks are looked at by `types`.
    "types-quick": Part([str(BIN / "pyright"), "src", "examples", "tools"], lanes=2),
    "format": Part([str(BIN / "ruff"), "format", "--check", "."]),
    "lint": Part([str(BIN / "ruff"), "check", "."]),
    "imports": Part([str(BIN / "lint-imports")]),
    "generated": Part([sys.executable, "tools/generate.py", "--check"]),
    "requirements": Part([sys.executable, "tools/check_requirements.py"]),
    "web-types": Part(["npm", "run", "--silent", "typecheck"]),
    "web": Part(["npx", "vitest", "run"], "vitest", lanes=2),
    "web-quick": Part(
        ["npx", "vitest", "run", *(word for path in BUILDS for word in ("--exclude", path))],
        "vitest",
        lanes=2,
    ),
    # Without workers: each would import and collect everything once more.
    "quick": Part(
        [*PYTEST, "-n", "0", "-m", "not slow", "--hypothesis-profile=quick", *QUICK], "pytest", lanes=2
    ),
    # Everything within one process, with all of Hypothesis' cases. In one run, because each run collects the
    # tests and imports what they need once more.
    "inside": Part([*PYTEST, *TWO, *QUICK, *TOGETHER], "pytest", lanes=3),
    "postgres": Part(
        [*PYTEST, *TWO, "-m", "not slow and not sqlite", "--database=postgres", *ON_POSTGRES],
        "pytest",
        lanes=3,
    ),
    "outside": Part([*PYTEST, *THREE, *OUTSIDE], "pytest", lanes=2),
    "faults": Part([*PYTEST, *THREE, "tests/faults"], "pytest", lanes=2),
    "blackbox": Part([*PYTEST, *THREE, "tests/blackbox"], "pytest", lanes=2),
    # Modules share a browser and a system.
    "browser": Part([*PYTEST, "-n", "2", "--dist", "loadfile", "tests/browser"], "pytest", lanes=3),
    "docs": Part([*PYTEST, "tests/docs"], "pytest", lanes=2),
    "packaging": Part([*PYTEST, "tests/packaging"], "pytest"),
}
LONGEST_SECONDS = 1200.0
# Process groups of the parts that run now: an interrupted run ends them.
STARTED: set[int] = set()
GATES = ["types", "format", "lint", "imports", "generated", "requirements", "web-types"]
# What is begun first is what ends last. Processes and browsers wait much, and are beside each other; what
# computes takes the rest of the time, and the short ones fill it up.
GROUPS: dict[str, list[str]] = {
    "gates": GATES,
    "check": ["types-quick", "quick", "web-quick", *GATES[1:]],
    "test": [
        *("outside", "browser", *GATES[1:-1], "packaging"),
        *("inside", "postgres", "types", "web", "web-types", "docs"),
    ],
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


def pytest_failures(report: Path) -> tuple[str, ...]:
    """The names of the tests that failed, from a JUnit report."""
    if not report.exists() or not report.stat().st_size:
        return ()
    cases = ET.parse(report).getroot().iter("testcase")
    failed = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    return tuple(f"{case.get('classname', '')}::{case.get('name', '')}" for case in failed)


def vitest_failures(report: Path) -> tuple[str, ...]:
    """The names of the tests that failed, from vitest's JSON report."""
    if not report.exists() or not report.stat().st_size:
        return ()
    files = json.loads(report.read_text(encoding="utf-8")).get("testResults", [])
    tests = [test for file in files for test in file["assertionResults"]]
    return tuple(test["fullName"] for test in tests if test["status"] == "failed")


def completed(command: list[str]) -> Ended:
    """Runs it. What hangs is ended with everything that it started, and that is a failure."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        STARTED.add(process.pid)
        hung = threading.Event()

        def end() -> None:
            hung.set()
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

        bell = threading.Timer(LONGEST_SECONDS, end)
        bell.daemon = True
        bell.start()
        try:
            _, status, used = os.wait4(process.pid, 0)
        finally:
            bell.cancel()
            STARTED.discard(process.pid)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        told = output.read()
    if hung.is_set():
        told += f"\nended after {LONGEST_SECONDS:.0f} s: something hangs".encode()
    return Ended(process.returncode, told, used.ru_utime + used.ru_stime)


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
        ended = completed([*part.command, *extra])
        counts = {"nothing": lambda _: (0, 0, 0), "pytest": pytest_counts, "vitest": vitest_counts}[
            part.counts
        ]
        passed, failed, skipped = counts(report)
        failures = {"nothing": lambda _: (), "pytest": pytest_failures, "vitest": vitest_failures}[
            part.counts
        ]
        names = failures(report)
    ran_none = part.counts != "nothing" and passed + failed == 0
    ok = ended.code == 0 and not failed and not ran_none
    verdict = "ok" if ok else "ran no test" if ran_none and ended.code in (0, 5) else "FAILED"
    told = f", {passed + failed} tests" if part.counts != "nothing" else ""
    told += f", {skipped} skipped" if skipped else ""
    took = f"{time.monotonic() - begun:.1f} s, {ended.busy_seconds:.1f} s on a processor"
    text = ended.output.decode(errors="replace").rstrip()
    # One piece: parts end beside each other.
    print(f"── {name}: {verdict}{told} ({took})" + (f"\n{text}" if text and not ok else ""), flush=True)
    return Outcome(ok, passed, failed, skipped, names)


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
        for outcome in tally.outcomes.values():
            print("".join(f"  {name}\n" for name in outcome.names), end="")
    print(f"{len(parts)} parts in {time.monotonic() - begun:.0f} s")
    print(tally.closing_line(), flush=True)
    return 1 if tally.failures() else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
