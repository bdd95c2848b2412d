"""Bringing a PostgreSQL database to the schema that this program knows.

The usual start finds the right revision with one read. Whoever has to write does so under an advisory lock
and looks again then, so that servers that start together on one database do the work once. What the
revisions and the newest schema contain is decided by the migration packages; a backup before an upgrade is
the operator's (`pg_dump`, or `lineloop backup`).
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import psycopg
from psycopg.sql import SQL

from lineloop.kit.postgres.connecting import connect, shown
from lineloop.kit.postgres.failures import ConnectionLost, storage_failure
from lineloop.kit.postgres.transaction import lock_number
from lineloop.kit.storage_errors import DatabaseTooNew, DatabaseUnavailable

_VERSION_TABLE = """
CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
)
"""
_LOCK = lock_number("lineloop schema")

Connection = psycopg.Connection[Any]


def ensure_schema(url: str, *, package: str, head: str) -> None:
    """Create or upgrade the tables to revision `head` of the migration package. Blocks.

    Its module `fresh` gives the newest schema as a whole. Raises DatabaseTooNew, DatabaseUnavailable.
    """
    try:
        with connect(url) as connection:
            if _revision(connection) == head:
                return
            # Whoever came first may take long, and so may an index on a large table.
            connection.execute("SET lock_timeout = 0")
            connection.execute("SET statement_timeout = 0")
            connection.execute("SET idle_in_transaction_session_timeout = 0")
            connection.execute("SELECT pg_advisory_lock(%s)", (_LOCK,))
            found = _revision(connection)
            if found is None:
                _create(connection, package, head)
            elif found != head:
                _upgrade(connection, url, package, head, found)
    except ConnectionLost as error:
        raise DatabaseUnavailable(str(error)) from error
    except psycopg.Error as error:
        failure = storage_failure(error) or DatabaseUnavailable()
        raise type(failure)(f"{shown(url)}: {error}") from error


def revision_of(url: str) -> str | None:
    """The revision that a database has, None for an empty one. Raises ConnectionLost, DatabaseUnavailable."""
    with connect(url) as connection:
        return _revision(connection)


def _revision(connection: Connection) -> str | None:
    found = connection.execute("SELECT to_regclass('alembic_version') IS NOT NULL").fetchone()
    if found is None or not found[0]:
        return None
    row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    return row[0] if row is not None else None


def _create(connection: Connection, package: str, head: str) -> None:
    """The newest schema at once, in one transaction; loads no migration machinery."""
    statements: list[str] = importlib.import_module(f"{package}.fresh").fresh_statements(sqlite=False)
    with connection.transaction():
        for statement in (*statements, _VERSION_TABLE):
            connection.execute(SQL(statement))  # pyright: ignore[reportArgumentType]
        connection.execute("INSERT INTO alembic_version (version_num) VALUES (%s)", (head,))


def _upgrade(connection: Connection, url: str, package: str, head: str, found: str) -> None:
    # Imported late: a quarter of a second that a start without migration does not pay.
    import sqlalchemy.exc
    from alembic.config import Config
    from alembic.runtime.environment import EnvironmentContext
    from alembic.script import ScriptDirectory

    directory = Path(next(iter(importlib.import_module(package).__path__)))
    config = Config()
    config.set_main_option("script_location", str(directory).replace("%", "%%"))
    scripts = ScriptDirectory.from_config(config)
    if found not in {script.revision for script in scripts.walk_revisions()}:
        raise DatabaseTooNew(shown(url), found)

    def steps(revision: Any, _: Any) -> Any:
        return scripts._upgrade_revs(head, revision)  # pyright: ignore[reportPrivateUsage]

    connection.autocommit = False
    engine = sqlalchemy.create_engine(
        "postgresql+psycopg://", creator=lambda: connection, poolclass=sqlalchemy.StaticPool
    )
    try:
        with engine.connect() as bound, EnvironmentContext(config, scripts, fn=steps) as environment:
            environment.configure(connection=bound, transactional_ddl=True)
            with environment.begin_transaction():
                environment.run_migrations()
    except sqlalchemy.exc.DBAPIError as error:
        if isinstance(error.orig, psycopg.Error):
            raise error.orig from error
        raise
