"""Which engine a database is opened with: a path is a SQLite file, a PostgreSQL URL is a server's.

Imports an engine when it is used, so that a start on SQLite loads nothing of PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from lineloop.kit.clock import Clock
from lineloop.kit.database import Database
from lineloop.kit.faults import Faults
from lineloop.kit.storage_errors import DatabaseUnavailable

POSTGRES_SCHEMES = ("postgresql://", "postgres://")

Place = Path | str


class DatabaseUrl(str):
    """A URL that does not show its password where values are shown: in logs, tracebacks, settings."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<database at {shown(self)}>"


def is_postgres(place: Place) -> bool:
    return isinstance(place, str) and place.startswith(POSTGRES_SCHEMES)


def shown(place: Place) -> str:
    """Where a database is, in words without its secrets."""
    return _postgres("connecting").shown(place) if is_postgres(place) else str(place)


def ensure_schema(place: Place, *, package: str, head: str) -> None:
    """Create the database's tables or bring them to `head`. Blocks; call it before the database is opened.

    Raises DatabaseTooNew and the other errors of kit.storage_errors.
    """
    if is_postgres(place):
        _postgres("schema").ensure_schema(DatabaseUrl(place), package=package, head=head)
        return
    from lineloop.kit import schema

    schema.ensure_schema(Path(place), package=package, head=head)


async def open_database(
    place: Place,
    *,
    clock: Clock,
    faults: Faults | None = None,
    on_fatal: Callable[[BaseException], None] | None = None,
) -> Database:
    """Open it on this loop. `on_fatal` is called on the loop when the process must stop.

    Raises the errors of kit.storage_errors.
    """
    if is_postgres(place):
        engine = _postgres("database").PostgresDatabase
        return await engine.open(DatabaseUrl(place), clock=clock, faults=faults, on_fatal=on_fatal)
    from lineloop.kit.sqlite.database import SqliteDatabase

    return await SqliteDatabase.open(Path(place), clock=clock, faults=faults, on_fatal=on_fatal)


def _postgres(module: str) -> Any:
    """Raises DatabaseUnavailable when the driver is not installed."""
    from importlib import import_module

    try:
        return import_module(f"lineloop.kit.postgres.{module}")
    except ImportError as error:
        raise DatabaseUnavailable('PostgreSQL needs its driver: pip install "lineloop[postgres]"') from error
