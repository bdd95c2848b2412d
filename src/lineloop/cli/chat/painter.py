"""Colours and indents for transcript lines. Text is shown as it is; no markup in it counts."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from lineloop.cli.chat.harmless import clean
from lineloop.cli.chat.transcript import Line, LineKind

SPEAKER_STYLES = {LineKind.YOU: "bold cyan", LineKind.OTHER: "bold green", LineKind.DRAFT: "green"}


def paint(line: Line) -> RenderableType:
    match line.kind:
        case LineKind.YOU | LineKind.OTHER | LineKind.DRAFT:
            grid = Table.grid(padding=(0, 1, 0, 0))
            grid.add_column(no_wrap=True)
            grid.add_column(overflow="fold")
            grid.add_row(
                Text(f"{clean(line.speaker)} ›", style=SPEAKER_STYLES[line.kind]), Text(clean(line.text))
            )
            return grid
        case LineKind.CARD:
            title = Text(f"{clean(line.speaker)} asks", style="bold yellow")
            return Panel(
                Text(clean(line.text)), title=title, title_align="left", border_style="yellow", expand=False
            )
        case LineKind.TOOL:
            style = "red" if line.text.startswith("✗") else "magenta" if line.text.startswith("●") else "dim"
            return Padding(Text(clean(line.text), style=style), (0, 0, 0, 2))
        case LineKind.TROUBLE:
            return Padding(Text(clean(line.text), style="red"), (0, 0, 0, 2))
        case LineKind.NOTE:
            return Padding(Text(clean(line.text), style="dim italic"), (0, 0, 0, 2))


def paint_all(lines: Iterable[Line]) -> list[RenderableType]:
    return [paint(line) for line in lines]


def plain(line: Line) -> str:
    """The line for pipes and logs, without colour."""
    match line.kind:
        case LineKind.YOU | LineKind.OTHER | LineKind.DRAFT:
            return f"{clean(line.speaker)}: {clean(line.text)}"
        case LineKind.CARD:
            return f"{clean(line.speaker)} asks: {clean(line.text)}"
        case _:
            return f"  {clean(line.text)}"
