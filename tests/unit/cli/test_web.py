"""The browser's door: when it is there, and how a browser is led to it."""

from __future__ import annotations

import stat
import webbrowser
from dataclasses import replace
from pathlib import Path

import pytest

from lineloop.cli import web
from lineloop.cli.failures import CommandFailed, Exit
from lineloop.cli.surroundings import Surroundings
from lineloop.device.host.web import shell_app
from lineloop.settings import Settings


@pytest.fixture
def around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Surroundings:
    """A machine on which the shell has not been built."""
    monkeypatch.setattr(web, "is_built", lambda: False)
    missing = tmp_path / "static"
    monkeypatch.setattr("lineloop.device.host.web.shell_app.load_static", lambda: _load(missing))
    return Surroundings.of(Settings(data_dir=tmp_path / "data"))


_really_load = shell_app.load_static


def _load(folder: Path) -> object:
    return _really_load(folder)


def test_a_shell_that_was_asked_for_and_not_built_is_said_with_its_remedy(around: Surroundings) -> None:
    with pytest.raises(CommandFailed) as failed:
        web.open_display(around, web.WEB, 0, stand_in=False)
    assert failed.value.code == Exit.FAILED
    assert "make web-build" in (failed.value.hint or "")


def test_without_a_wish_an_unbuilt_shell_is_left_out_and_said(
    around: Surroundings, capsys: pytest.CaptureFixture[str]
) -> None:
    assert web.open_display(around, None, 0, stand_in=False) is None
    assert "make web-build" in capsys.readouterr().err
    assert web.open_display(around, web.HEADLESS, 0, stand_in=False) is None


@pytest.mark.requirement("H08")
def test_a_browser_is_handed_a_private_file_and_never_the_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def note(url: str) -> bool:
        opened.append(url)
        return True

    monkeypatch.setattr(webbrowser, "open", note)
    settings = Settings(data_dir=tmp_path)
    link = "http://127.0.0.1:1/#code=secret"
    assert not web.show_in_browser(settings, link)
    assert opened == []
    assert web.show_in_browser(replace(settings, has_display=True), link)
    (address,) = opened
    assert "secret" not in address
    page = tmp_path / web.OPEN_PAGE
    assert address == page.as_uri()
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert link in page.read_text()
