"""Bringing a database file to the schema that this program knows.

The usual start finds the right revision with one plain read and loads nothing else; a new file gets the
newest schema at once, without the migration machinery, and appears whole. A small file is looked through for
damage, because whoever starts can still be told; a large one shows it when the damaged page is met. What the
revisions and the newest schema contain is decided by the migration packages; that an upgrade is one
transaction with a copy before it, what the copy leaves out and how long it is kept, here.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from lineloop.kit.clock import SystemClock
from lineloop.kit.file_identity import refuse_several_names
from lineloop.kit.filesystem import refuse_network_filesystem
from lineloop.kit.sqlite.failures import primary_code, storage_failure
from lineloop.kit.storage_errors import (
    DatabaseBusyElsewhere,
    DatabaseCorrupt,
    DatabaseTooNew,
    DatabaseUnavailable,
)

__all__ = ["CHECKED_BYTES", "DatabaseTooNew", "damage_in", "ensure_schema"]

_BUSY_TIMEOUT_SECONDS = 5.0
# Looking through a file costs about 1.1 ms per MiB.
CHECKED_BYTES = 64 << 20
COPY_LIFE_SECONDS = 14 * 24 * 3600.0
# As the migration machinery makes it, so that later revisions find what they expect.
_VERSION_TABLE = """
CREATE TABLE alembic_version (
\tversion_num VARCHAR(32) NOT NULL,
\tCONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
)
"""


def ensure_schema(path: Path, *, package: str, head: str) -> None:
    """Create or upgrade the file to revision `head` of the migration package.

    `versions/` holds its scripts; its module `fresh`, when there is one, the newest schema as a whole. A file
    with data is first copied to `<file>.before-<head>`, without the rows of the tables that the package names
    in `NOT_COPIED`; a start that needs no upgrade removes copies older than two weeks. Blocks; call it before
    the database is opened. Raises DatabaseTooNew, NetworkFilesystem, DatabaseCorrupt, DatabaseBusyElsewhere,
    DatabaseUnavailable.
    """
    refuse_network_filesystem(path)
    refuse_several_names(path)
    try:
        found = _revision(path)
        if found is None and _create(path, package, head):
            return
        _refuse_damage(path)
        if found != head:
            _upgrade(path, package, head, found)
        else:
            _remove_old_copies(path)
    except sqlite3.Error as error:
        busy = primary_code(error) == sqlite3.SQLITE_BUSY
        failure = DatabaseBusyElsewhere() if busy else storage_failure(error) or DatabaseUnavailable()
        raise type(failure)(f"{path}: {error}") from error


def damage_in(path: Path) -> str | None:
    """What is wrong with the pages of a database file, in one line, or None. Raises sqlite3.Error."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        connection.execute(f"PRAGMA busy_timeout={int(_BUSY_TIMEOUT_SECONDS * 1000)}")
        try:
            found = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
        except sqlite3.DatabaseError as error:
            if not isinstance(storage_failure(error), DatabaseCorrupt):
                raise
            return str(error)
    return None if found == "ok" else " ".join(found.split())


def _refuse_damage(path: Path) -> None:
    if path.exists() and 0 < path.stat().st_size <= CHECKED_BYTES and (damage := damage_in(path)):
        raise DatabaseCorrupt(f"{path}: {damage}")


def _revision(path: Path) -> str | None:
    if not path.exists() or path.stat().st_size == 0:
        return None
    with closing(sqlite3.connect(path, timeout=_BUSY_TIMEOUT_SECONDS)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchone():
            return None
        row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        return row[0] if row is not None else None


def _create(path: Path, package: str, head: str) -> bool:
    """Whether the file was new and now has the schema of `head`; one transaction."""
    newest = getattr(importlib.import_module(package), "HEAD", None)
    if newest != head or importlib.util.find_spec(f"{package}.fresh") is None:
        return False
    statements: list[str] = importlib.import_module(f"{package}.fresh").fresh_statements()
    if path.exists():
        return _fill(path, statements, head)
    # Made beside and linked, so that a process that dies here leaves no empty file: whoever finds one later
    # knows that it lost its content.
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    beside.unlink(missing_ok=True)
    try:
        _fill(beside, statements, head)
        os.link(beside, path)
    except OSError:
        # A file system without links, or somebody else was first.
        return _fill(path, statements, head)
    finally:
        beside.unlink(missing_ok=True)
    return True


def _fill(path: Path, statements: list[str], head: str) -> bool:
    with closing(sqlite3.connect(path, timeout=_BUSY_TIMEOUT_SECONDS, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        if connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
            connection.execute("ROLLBACK")
            return False
        for statement in (*statements, _VERSION_TABLE):
            connection.execute(statement)
        connection.execute("INSERT INTO alembic_version (version_num) VALUES (?)", (head,))
        connection.execute("COMMIT")
    return True


def _upgrade(path: Path, package: str, head: str, found: str | None) -> None:
    # Imported late: a quarter of a second that a start without migration does not pay.
    import sqlalchemy.event
    import sqlalchemy.exc
    from alembic.config import Config
    from alembic.runtime.environment import EnvironmentContext
    from alembic.script import ScriptDirectory

    directory = Path(next(iter(importlib.import_module(package).__path__)))
    config = Config()
    config.set_main_option("script_location", str(directory).replace("%", "%%"))
    scripts = ScriptDirectory.from_config(config)
    if found is not None and found not in {script.revision for script in scripts.walk_revisions()}:
        raise DatabaseTooNew(str(path), found)
    _back_up(path, head, getattr(importlib.import_module(package), "NOT_COPIED", ()))

    def steps(revision: Any, _: Any) -> Any:
        return scripts._upgrade_revs(head, revision)  # pyright: ignore[reportPrivateUsage]

    engine = sqlalchemy.create_engine(
        f"sqlite:///{path}", connect_args={"timeout": _BUSY_TIMEOUT_SECONDS}, poolclass=sqlalchemy.NullPool
    )
    sqlalchemy.event.listen(engine, "connect", _leave_transactions_to_us)
    sqlalchemy.event.listen(engine, "begin", _begin_immediate)
    try:
        with engine.connect() as connection, EnvironmentContext(config, scripts, fn=steps) as environment:
            environment.configure(connection=connection, transactional_ddl=True)
            with environment.begin_transaction():
                environment.run_migrations()
    except sqlalchemy.exc.DBAPIError as error:
        if isinstance(error.orig, sqlite3.Error):
            raise error.orig from error
        raise


def _leave_transactions_to_us(connection: Any, _: Any) -> None:
    # The driver would otherwise commit around DDL, and half a migration could stay.
    connection.isolation_level = None


def _begin_immediate(connection: Any) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _remove_old_copies(path: Path) -> None:
    """What people delete has to be gone some day, so a copy is kept while going back is likely.

    A copy that cannot be looked at or removed stands in nobody's way.
    """
    now = SystemClock().now_ms() / 1000
    for copy in path.parent.glob(f"{path.name}.before-*"):
        with suppress(OSError):
            if now - copy.stat().st_mtime > COPY_LIFE_SECONDS:
                copy.unlink()


def _back_up(path: Path, head: str, not_copied: tuple[str, ...]) -> None:
    """Copy a file that has tables, through SQLite, so that the log's content is in the copy too."""
    if not path.exists() or path.stat().st_size == 0:
        return
    target = path.with_name(f"{path.name}.before-{head}")
    beside = target.with_name(f".{target.name}.new")
    beside.unlink(missing_ok=True)
    with (
        closing(sqlite3.connect(path, timeout=_BUSY_TIMEOUT_SECONDS)) as source,
        closing(sqlite3.connect(beside)) as copy,
    ):
        if not source.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
            beside.unlink(missing_ok=True)
            return
        source.backup(copy)
        _leave_out(copy, not_copied)
    beside.chmod(0o600)
    beside.replace(target)


def _leave_out(copy: sqlite3.Connection, tables: tuple[str, ...]) -> None:
    """Empties these tables, as far as the copy has them, and rewrites it: no page keeps what stood there."""
    there = {row[0] for row in copy.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    emptied = [table for table in tables if table in there]
    for table in emptied:
        copy.execute(f'DELETE FROM "{table}"')
    copy.commit()
    if emptied:
        copy.execute("VACUUM")
