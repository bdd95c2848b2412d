"""What reaches the terminal: widths and foreign control characters."""

from __future__ import annotations

import io

from rich.console import Console, ConsoleDimensions

from lineloop.cli.chat.editor import LineEditor
from lineloop.cli.chat.painter import clean, paint, plain
from lineloop.cli.chat.screen import Screen
from lineloop.cli.chat.transcript import Line, LineKind


def drawn(line: Line, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    with console.capture() as captured:
        console.print(paint(line))
    return [row.rstrip() for row in captured.get().splitlines()]


def test_chinese_wraps_by_cells_under_the_speaker() -> None:
    assert drawn(Line(LineKind.OTHER, "番茄钟已经开始", "bot"), 14) == ["bot › 番茄钟已", "      经开始"]


def test_what_others_say_cannot_move_the_cursor_or_bring_markup() -> None:
    assert clean("a\x1b[2Jb\x07\x9bc") == "a[2Jbc"
    assert drawn(Line(LineKind.OTHER, "[red]not markup[/red]", "x"), 60) == ["x › [red]not markup[/red]"]
    assert plain(Line(LineKind.YOU, "hi\x1b]0;t", "you")) == "you: hi]0;t"


def test_the_live_region_is_removed_before_new_lines_stay() -> None:
    out = io.StringIO()
    screen = Screen(Console(file=out, width=40, height=10, color_system=None, force_terminal=True))
    editor = LineEditor("abc", 3)
    screen.draw([], ["live one", "live two"], editor, "› ")
    first = out.getvalue()
    assert first.endswith("› abc\r\x1b[5C\x1b[?25h\x1b[?2026l")
    screen.draw(["stays"], [], editor, "› ")
    assert "\r\x1b[2A\x1b[Jstays\r\n› abc" in out.getvalue()[len(first) :]


def test_reading_direction_and_line_separators_are_not_passed_on() -> None:
    assert clean("a\u202eb\u2066c\u200fd\u2028e\ufefff\udc80g\tx\ny") == "abcdefg\tx\ny"
    assert clean("👩‍👧 e\u0301 שלום") == "👩‍👧 e\u0301 שלום"


def test_a_resized_terminal_is_drawn_anew_and_nothing_old_stays() -> None:
    out = io.StringIO()
    console = Console(file=out, width=40, height=10, color_system=None, force_terminal=True)
    screen = Screen(console)
    screen.draw(["stays"], ["status"], LineEditor("abc", 3), "› ")
    before = len(out.getvalue())
    console.size = ConsoleDimensions(20, 10)
    screen.draw([], ["status"], LineEditor("abc", 3), "› ")
    again = out.getvalue()[before:]
    assert "\x1b[H\x1b[2J" in again
    assert again.count("stays") == again.count("status") == 1
    before = len(out.getvalue())
    screen.draw([], ["status"], LineEditor("abc", 3), "› ")
    assert "stays" not in out.getvalue()[before:]


def test_a_paste_longer_than_the_screen_shows_the_rows_around_the_caret() -> None:
    out = io.StringIO()
    screen = Screen(Console(file=out, width=20, height=5, color_system=None, force_terminal=True))
    screen.draw([], ["status"], LineEditor("x" * 500, 500), "› ")
    assert out.getvalue().count("\r\n") == 3
