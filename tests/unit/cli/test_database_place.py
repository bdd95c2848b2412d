"""Which database `serve` uses, what is noted of it, and that no word shows a password."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lineloop.cli.data_files import ELSEWHERE, remember_database, remembered_database
from lineloop.cli.failures import CommandFailed, Exit
from lineloop.cli.serve import database_place

SECRET = "not-to-be-told"
URL = f"postgresql://me:{SECRET}@db.example/team"


def test_a_path_and_a_sqlite_url_are_files_and_a_postgresql_url_is_a_server(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    file = tmp_path / "x.db"
    assert database_place(None) is None
    assert database_place(str(file)) == file
    assert database_place(f"sqlite:///{file}") == file
    place = database_place(URL)
    assert place == URL
    assert SECRET not in repr(place)


def test_another_url_is_refused_without_repeating_it() -> None:
    with pytest.raises(CommandFailed) as caught:
        database_place(f"mysql://me:{SECRET}@db/x")
    assert caught.value.code is Exit.USAGE
    assert SECRET not in str(caught.value)


@pytest.mark.requirement("R10")
def test_of_a_server_only_the_place_is_noted_and_commands_ask_for_its_url(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    remember_database(tmp_path, None)
    assert not (tmp_path / ELSEWHERE).exists()
    remember_database(tmp_path, tmp_path / "x.db")
    assert remembered_database(tmp_path) == tmp_path / "x.db"
    remember_database(tmp_path, database_place(URL))
    assert SECRET not in (tmp_path / ELSEWHERE).read_text()
    with pytest.raises(CommandFailed, match=r"db\.example/team"):
        remembered_database(tmp_path)
    remember_database(tmp_path, None)
    assert remembered_database(tmp_path) is None


def test_a_server_on_sqlite_loads_nothing_of_postgresql() -> None:
    program = (
        "import sys, lineloop.cli.serve, lineloop.server.app; "
        "print([name for name in sys.modules if 'psycopg' in name or 'kit.postgres' in name])"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"
