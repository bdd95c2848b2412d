"""From whatever file there is to the schema of this program, or a clear refusal."""

from __future__ import annotations

import asyncio
import importlib
import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from lineloop.kit import schema
from lineloop.kit.clock import SystemClock
from lineloop.kit.database import DatabaseCorrupt
from lineloop.kit.schema import DatabaseTooNew, ensure_schema
from lineloop.kit.sqlite.database import SqliteDatabase
from lineloop.server.migrations import HEAD

SCRIPT = """
revision = "{revision}"
down_revision = {down!r}
from alembic import op

def upgrade():
    {body}
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A migration package with three revisions, of which the third fails halfway."""
    folder = tmp_path / "packages" / "sample_migrations"
    (folder / "versions").mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    bodies = {
        "0001": 'op.execute("CREATE TABLE notes(id INTEGER PRIMARY KEY, number INTEGER)")',
        "0002": 'op.execute("ALTER TABLE notes ADD COLUMN owner TEXT")',
        "0003": 'op.execute("CREATE TABLE half(x)"); op.execute("INSERT INTO nowhere VALUES (1)")',
    }
    down = None
    for revision, body in bodies.items():
        script = SCRIPT.format(revision=revision, down=down, body=body)
        (folder / "versions" / f"{revision}_step.py").write_text(script)
        down = revision
    monkeypatch.syspath_prepend(tmp_path / "packages")
    monkeypatch.delitem(sys.modules, "sample_migrations", raising=False)
    return "sample_migrations"


def query(path: Path, sql: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(sql).fetchall()


@pytest.mark.requirement("K20")
def test_a_missing_file_is_created_at_the_head_and_needs_no_backup(path: Path, package: str) -> None:
    ensure_schema(path, package=package, head="0002")
    assert query(path, "SELECT version_num FROM alembic_version") == [("0002",)]
    assert query(path, "SELECT id, number, owner FROM notes") == []
    assert list(path.parent.glob("*before*")) == []


@pytest.mark.requirement("K20")
def test_a_file_behind_is_copied_then_upgraded_and_keeps_its_data(path: Path, package: str) -> None:
    ensure_schema(path, package=package, head="0001")
    query(path, "INSERT INTO notes(number) VALUES (7)")
    ensure_schema(path, package=package, head="0002")
    assert query(path, "SELECT number, owner FROM notes") == [(7, None)]
    backup = path.with_name("kit.db.before-0002")
    assert query(backup, "SELECT * FROM notes") == [(1, 7)]
    assert query(backup, "SELECT version_num FROM alembic_version") == [("0001",)]


@pytest.mark.requirement("K20")
def test_a_copy_holds_nothing_of_the_tables_that_are_not_copied(path: Path, package: str) -> None:
    ensure_schema(path, package=package, head="0001")
    query(path, "CREATE TABLE keys (secret TEXT)")
    query(path, "INSERT INTO keys VALUES ('what-nobody-may-read')")
    query(path, "INSERT INTO notes(number) VALUES (7)")
    vars(importlib.import_module(package))["NOT_COPIED"] = ("keys", "of_another_version")
    ensure_schema(path, package=package, head="0002")
    backup = path.with_name("kit.db.before-0002")
    assert query(backup, "SELECT number FROM notes") == [(7,)]
    assert query(backup, "SELECT * FROM keys") == []
    assert b"what-nobody-may-read" not in backup.read_bytes()
    assert query(path, "SELECT * FROM keys") == [("what-nobody-may-read",)]


@pytest.mark.requirement("K20")
def test_a_copy_is_kept_for_two_weeks_and_removed_by_a_later_start(path: Path, package: str) -> None:
    ensure_schema(path, package=package, head="0001")
    ensure_schema(path, package=package, head="0002")
    backup = path.with_name("kit.db.before-0002")
    ensure_schema(path, package=package, head="0002")
    assert backup.exists()
    old = SystemClock().now_ms() / 1000 - schema.COPY_LIFE_SECONDS - 1
    os.utime(backup, (old, old))
    ensure_schema(path, package=package, head="0002")
    assert not backup.exists()


@pytest.mark.requirement("K20")
def test_a_file_in_use_with_a_log_is_copied_with_what_is_in_the_log(path: Path, package: str) -> None:
    ensure_schema(path, package=package, head="0001")

    async def write() -> None:
        database = await SqliteDatabase.open(path, clock=SystemClock())
        await database.write(lambda tx: tx.run("INSERT INTO notes(number) VALUES (8)"))
        ensure_schema(path, package=package, head="0002")
        await database.close()

    asyncio.run(write())
    assert query(path.with_name("kit.db.before-0002"), "SELECT number FROM notes") == [(8,)]
    assert query(path, "SELECT number, owner FROM notes") == [(8, None)]


@pytest.mark.requirement("K20")
def test_an_upgrade_that_fails_leaves_the_old_schema_whole(path: Path, package: str) -> None:
    ensure_schema(path, package=package, head="0001")
    with pytest.raises(Exception, match="nowhere"):
        ensure_schema(path, package=package, head="0003")
    assert query(path, "SELECT version_num FROM alembic_version") == [("0001",)]
    assert query(path, "SELECT name FROM sqlite_master WHERE name = 'half'") == []
    with pytest.raises(sqlite3.OperationalError):
        query(path, "SELECT owner FROM notes")


@pytest.mark.requirement("K20")
def test_a_file_from_a_newer_version_is_refused_untouched(path: Path, package: str) -> None:
    ensure_schema(path, package=package, head="0001")
    query(path, "UPDATE alembic_version SET version_num = '0009'")
    before = path.read_bytes()
    with pytest.raises(DatabaseTooNew) as caught:
        ensure_schema(path, package=package, head="0002")
    assert caught.value.revision == "0009"
    assert path.read_bytes() == before


@pytest.mark.requirement("K20")
def test_a_file_that_is_no_database_is_refused(path: Path, package: str) -> None:
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(DatabaseCorrupt):
        ensure_schema(path, package=package, head="0001")


@pytest.mark.requirement("K9", "K20")
def test_a_file_that_is_damaged_in_its_middle_is_refused_at_once(path: Path, package: str) -> None:
    ensure_schema(path, package=package, head="0002")
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50)"
    query(path, f"{numbers} INSERT INTO notes(owner) SELECT hex(randomblob(2000)) FROM n")
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(b"\xff" * 4096)
    with pytest.raises(DatabaseCorrupt, match=re.escape(str(path))):
        ensure_schema(path, package=package, head="0002")


@pytest.mark.requirement("K20")
def test_a_new_file_is_never_seen_half_made(
    tmp_path: Path, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[str]] = []
    link = os.link

    def look(source: Path, target: Path) -> None:
        seen.append([file.name for file in tmp_path.glob("new.db*")])
        link(source, target)

    monkeypatch.setattr(os, "link", look)
    ensure_schema(tmp_path / "new.db", package="lineloop.server.migrations", head=HEAD)
    assert seen == [[]]
    assert [file.name for file in tmp_path.iterdir() if file.is_file()] == ["new.db"]


@pytest.mark.requirement("K20")
def test_a_start_without_migration_loads_no_migration_library(path: Path, package: str) -> None:
    ensure_schema(path, package=package, head="0001")
    program = (
        "import sys; from pathlib import Path; from lineloop.kit.schema import ensure_schema; "
        f"ensure_schema(Path({str(path)!r}), package={package!r}, head='0001'); "
        "print(any(name in sys.modules for name in ('alembic', 'sqlalchemy')))"
    )
    outcome = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert outcome.stdout == "False\n"


@pytest.mark.parametrize("part", ["server", "device"])
def test_a_new_file_has_exactly_the_schema_that_all_revisions_make(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = f"lineloop.{part}.migrations"
    head: str = importlib.import_module(package).HEAD
    ensure_schema(tmp_path / "fresh.db", package=package, head=head)
    monkeypatch.setattr(schema, "_create", lambda *_: False)
    ensure_schema(tmp_path / "migrated.db", package=package, head=head)

    def content(name: str) -> dict[str, object]:
        with closing(sqlite3.connect(tmp_path / name)) as connection:
            rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()
            version = connection.execute("SELECT version_num FROM alembic_version").fetchall()
        made = {row[:3]: " ".join((row[3] or "").split()) for row in rows}
        return {"made": made, "version": version}

    assert content("fresh.db") == content("migrated.db")
    assert content("fresh.db")["version"] == [(head,)]


def test_a_new_file_needs_no_migration_machinery(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from lineloop.kit.schema import ensure_schema; "
        "from lineloop.device.migrations import HEAD; "
        "ensure_schema(Path(sys.argv[1]), package='lineloop.device.migrations', head=HEAD); "
        "assert not {'alembic', 'sqlalchemy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "new.db")], check=True)
