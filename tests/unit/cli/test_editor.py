"""The line editor of the chat: keys in, text, caret and gestures out."""

from __future__ import annotations

from lineloop.cli.chat.editor import Action, Gesture, LineEditor


def typed(*pieces: str) -> tuple[LineEditor, list[Action]]:
    editor = LineEditor()
    actions = [action for piece in pieces for action in editor.feed(piece)]
    return editor, actions


def test_enter_submits_the_line_and_empties_it() -> None:
    editor, actions = typed("hello", "\r")
    assert actions == [Action(Gesture.SUBMIT, "hello")]
    assert editor.text == ""


def test_backspace_removes_one_wide_character_as_a_whole() -> None:
    editor, _ = typed("番茄\x7f")
    assert editor.text == "番"
    assert editor.layout(40, "› ").column == 4


def test_the_arrows_move_and_the_line_is_edited_in_the_middle() -> None:
    editor, _ = typed("tea", "\x1b[D\x1b[D", "h")
    assert (editor.text, editor.caret) == ("thea", 2)


def test_an_escape_sequence_may_arrive_in_pieces() -> None:
    editor, actions = typed("ab", "\x1b[", "D", "x")
    assert editor.text == "axb"
    assert actions == []


def test_a_lone_escape_is_the_wish_to_dismiss() -> None:
    _, actions = typed("\x1b")
    assert actions == [Action(Gesture.DISMISS)]


def test_control_c_and_control_d_are_gestures() -> None:
    _, actions = typed("\x03\x04")
    assert [action.gesture for action in actions] == [Gesture.INTERRUPT, Gesture.END]


def test_a_paste_with_line_breaks_does_not_submit() -> None:
    editor, actions = typed("\x1b[200~one\r\ntwo", "\tthree\x1b[201~")
    assert editor.text == "one\ntwo three"
    assert actions == []


def test_the_up_arrow_recalls_and_the_down_arrow_returns_to_the_draft() -> None:
    editor, _ = typed("first\r", "draft", "\x1b[A")
    assert editor.text == "first"
    editor.feed("\x1b[B")
    assert editor.text == "draft"


def test_a_long_line_wraps_without_cutting_a_wide_character() -> None:
    editor, _ = typed("一二三四五")
    layout = editor.layout(7, "› ")
    assert layout.rows == ["› 一二", "三四五"]
    assert (layout.row, layout.column) == (1, 6)


def test_words_and_line_ends_are_deleted_with_the_usual_keys() -> None:
    editor, _ = typed("one two three", "\x17")
    assert editor.text == "one two "
    editor.feed("\x01\x0b")
    assert editor.text == ""
