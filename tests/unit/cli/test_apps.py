"""What `lineloop app` asks before it changes something, and how refusals end."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lineloop.cli.apps import run_app_command
from lineloop.cli.commands import settings_for
from lineloop.cli.failures import CommandFailed, Exit
from lineloop.settings import Settings

PROBE = Path(__file__).parents[2] / "fixtures/apps/probe"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return settings_for(tmp_path / "data")


class Terminal:
    """Stands for stdin and stderr of a terminal in which the person types one line."""

    def __init__(self, line: str) -> None:
        self._line = line

    def isatty(self) -> bool:
        return True

    def readline(self) -> str:
        return self._line


@pytest.mark.parametrize(
    ("verb", "arguments"), [("remove", {"app_scope": "pomodoro"}), ("install", {"source": str(PROBE)})]
)
async def test_without_a_terminal_nobody_can_agree_but_with_yes(
    settings: Settings, verb: str, arguments: dict[str, str]
) -> None:
    with pytest.raises(CommandFailed, match="--yes") as failed:
        await run_app_command(settings, verb, {**arguments, "yes": False}, as_json=False)
    assert failed.value.code is Exit.USAGE
    assert not settings.data_dir.exists()


@pytest.mark.parametrize("line", ["", "\n", "n\n", "no\n", "maybe\n"])
async def test_whoever_does_not_say_yes_in_the_terminal_is_refused(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(line))
    with pytest.raises(CommandFailed, match="nobody agreed") as failed:
        await run_app_command(settings, "remove", {"app_scope": "pomodoro", "yes": False}, as_json=False)
    assert failed.value.code is Exit.REFUSED
    assert "pomodoro" in capsys.readouterr().err


async def test_a_yes_in_the_terminal_removes_the_app(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(" Yes \n"))
    monkeypatch.setattr("lineloop.cli.device.set_up_quiet_logs", lambda _: None)
    arguments = {"app_scope": "pomodoro", "yes": False}
    assert await run_app_command(settings, "remove", arguments, as_json=False) == Exit.DONE
    assert capsys.readouterr().out.endswith("pomodoro: remove succeeded\n")
