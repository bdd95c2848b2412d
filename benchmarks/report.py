"""Writes docs/benchmarks.md: figures as measured, goals met or missed, nothing rounded in our favour."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.measure import ROUNDS, Report, Row

PAGE = Path(__file__).parent.parent / "docs/benchmarks.md"

HEAD = """# Benchmarks
Written by `make bench`. Both sides of a comparison run in turn on the same machine, in one run; figures are
medians of at least {rounds} rounds. A ratio is ours divided by the yardstick's; the range is over the
rounds.
"""


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"


def line(row: Row) -> str:
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    if row.spread and row.ratio is not None:
        ratio += f" ({row.spread[0]:.2f} to {row.spread[1]:.2f})"
    theirs = "" if row.theirs is None else f"{number(row.theirs)} {row.unit}"
    goal = "" if row.goal is None else str(row.goal)
    met = {None: "", True: "met", False: "**missed**"}[row.met]
    return f"| {row.what} | {number(row.ours)} {row.unit} | {theirs} | {ratio} | {goal} | {met} |"


def section(report: Report) -> str:
    rows = "\n".join(line(row) for row in report.rows)
    notes = "".join(f"\n- {note}" for note in report.notes)
    return (
        f"## {report.id}: {report.title}\n\nYardstick: {report.yardstick}\n\n"
        "| measure | Lineloop | yardstick | ratio | goal | |\n|---|---|---|---|---|---|\n"
        f"{rows}\n{notes}\n"
    )


def page(reports: Sequence[Report], facts: Sequence[str], now: datetime) -> str:
    measured = "\n".join(f"- {fact}" for fact in facts)
    head = HEAD.format(rounds=ROUNDS) + f"Measured on {now:%Y-%m-%d}:\n\n{measured}\n\n"
    return head + "\n".join(section(report) for report in reports)


def write(reports: Sequence[Report], facts: Sequence[str]) -> None:
    PAGE.write_text(page(reports, facts, datetime.now(UTC)), encoding="utf-8")
