"""Mistakes in usage and in a person's own file: one clear line and the right exit code, never a traceback."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lineloop.cli.commands import app
from lineloop.cli.failures import CommandFailed, Exit
from lineloop.cli.operator_file import load

Said = tuple[int, str]
Command = Callable[..., Said]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs a command on an empty data directory: its exit code and stderr."""
    # Logs are of the whole process; the runner's stderr is closed when the command has ended.
    monkeypatch.setattr("lineloop.cli.run.set_up_logs", lambda *_: None)

    def run(*words: str) -> Said:
        name = next(index for index, word in enumerate(words) if word in ("create", "chat", "run"))
        words = (*words[: name + 1], "--data-dir", str(tmp_path / "data"), *words[name + 1 :])
        answer = CliRunner().invoke(app, words)
        assert answer.exception is None or isinstance(answer.exception, SystemExit)
        assert not (tmp_path / "data").exists()
        return answer.exit_code, answer.stderr

    return run


@pytest.mark.parametrize("name", ["bad", "", "operator/", "/x", "a//b"])
def test_a_token_for_no_actor_is_a_mistake_in_usage(command: Command, name: str) -> None:
    code, said = command("token", "create", "--actor", name)
    assert (code, said.count("\n")) == (Exit.USAGE, 1)
    assert "--actor" in said


@pytest.mark.parametrize("name", ["zzz", "operator/", "user/local"])
def test_a_chat_with_nobody_is_a_mistake_in_usage(command: Command, name: str) -> None:
    code, said = command("chat", "hello", "--to", name)
    assert (code, said.count("\n")) == (Exit.USAGE, 1)
    assert "--to" in said


def test_a_missing_file_or_module_is_not_found(command: Command) -> None:
    assert command("run", "/nowhere/none.py") == (
        Exit.NOT_FOUND,
        "lineloop: there is no file /nowhere/none.py (not_found)\n",
    )
    assert command("run", "no_such_module_here")[0] == Exit.NOT_FOUND


BROKEN = {
    "raise ValueError('no luck')": "1: ValueError: no luck",
    "def f():\n    raise KeyError('k')\nf()": "2: KeyError: 'k'",
    "import no_such_module_here": "1: ModuleNotFoundError: No module named 'no_such_module_here'",
    "x = (": "1: SyntaxError: '(' was never closed",
    "import json\njson.loads('{')": "2: JSONDecodeError",
    "import sys\nsys.exit(0)": "2: the file ends the program (sys.exit(0))",
    "import sys\nsys.exit('bye')": "2: the file ends the program (sys.exit('bye'))",
    "raise SystemExit(7)": "1: the file ends the program (sys.exit(7))",
}


@pytest.mark.parametrize("text", BROKEN)
def test_an_operator_file_that_breaks_is_told_with_its_place(
    command: Command, tmp_path: Path, text: str
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(text)
    code, said = command("run", str(file))
    assert code == Exit.FAILED
    assert said.startswith(f"lineloop: {file}:{BROKEN[text]}")
    assert "Traceback" not in said
    assert "--debug" in said


def test_a_mistake_in_a_neighbour_of_the_file_is_told_with_its_own_place(tmp_path: Path) -> None:
    (tmp_path / "beside_mine.py").write_text("\n1 / 0\n")
    (tmp_path / "mine.py").write_text("import beside_mine\n")
    with pytest.raises(CommandFailed, match="ZeroDivisionError") as failed:
        load(str(tmp_path / "mine.py"), debug=False)
    assert failed.value.message.startswith(f"{tmp_path}/beside_mine.py:2: ")
    sys.path.remove(str(tmp_path))


def test_the_traceback_is_there_for_whoever_asks(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("1 / 0")
    code, said = command("run", "--debug", str(file))
    assert code == Exit.FAILED
    assert "Traceback" in said
    assert said.endswith(f"lineloop: {file}:1: ZeroDivisionError: division by zero\n")
