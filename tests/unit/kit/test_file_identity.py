"""One process for one database file, whatever names it has, without touching SQLite's own locks."""

from __future__ import annotations

import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from lineloop.kit.clock import SystemClock
from lineloop.kit.database import DatabaseBusyElsewhere, DatabaseUnavailable, Tx
from lineloop.kit.file_identity import FileIdentity
from lineloop.kit.schema import ensure_schema
from lineloop.kit.sqlite.database import SqliteDatabase

pytestmark = pytest.mark.requirement("K21")
only_linux = pytest.mark.skipif(sys.platform != "linux", reason="the file itself is locked on Linux only")


async def test_a_file_with_two_names_is_refused_under_both(made: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    other.hardlink_to(made)
    for path in (made, other):
        with pytest.raises(DatabaseUnavailable, match="2 names"):
            FileIdentity(path)
        with pytest.raises(DatabaseUnavailable, match="2 names"):
            await SqliteDatabase.open(path, clock=SystemClock())
        with pytest.raises(DatabaseUnavailable, match="2 names"):
            ensure_schema(path, package="lineloop.server.migrations", head="0001")
    other.unlink()
    await (await SqliteDatabase.open(made, clock=SystemClock())).close()


@only_linux
async def test_a_renamed_file_is_still_held(made: Path, tmp_path: Path) -> None:
    with FileIdentity(made):
        moved = tmp_path / "moved.db"
        os.rename(made, moved)  # noqa: PTH104
        with pytest.raises(DatabaseBusyElsewhere, match="in use"):
            FileIdentity(moved).hold()
    FileIdentity(moved).hold()


@only_linux
def test_a_file_is_held_once_it_exists(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    with FileIdentity(path) as identity:
        assert not path.exists()
        path.touch()
        identity.hold()
        identity.hold()
        with pytest.raises(DatabaseBusyElsewhere):
            FileIdentity(path).hold()


async def test_the_lock_leaves_the_locks_of_the_database_alone(made: Path) -> None:
    with FileIdentity(made) as identity:
        database = await SqliteDatabase.open(made, clock=SystemClock())
        identity.hold()

        def refused_elsewhere(tx: Tx) -> str:
            tx.run("INSERT INTO notes(owner, number) VALUES ('me', 1)")
            with closing(sqlite3.connect(made, timeout=0, isolation_level=None)) as other:
                try:
                    other.execute("BEGIN IMMEDIATE")
                except sqlite3.OperationalError as error:
                    return str(error)
            return "not refused"

        assert "locked" in await database.write(refused_elsewhere)
        with closing(sqlite3.connect(made, isolation_level=None)) as other:
            assert other.execute("SELECT count(*) FROM notes").fetchone()[0] == 1
            other.execute("INSERT INTO notes(owner, number) VALUES ('other', 1)")
        assert await database.read(lambda tx: tx.all("SELECT count(*) FROM notes")[0][0]) == 2
        await database.close()
