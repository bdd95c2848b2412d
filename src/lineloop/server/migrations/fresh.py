"""The newest schema for a new database, in one go; the same as all revisions one after the other."""

from __future__ import annotations

from lineloop.server.migrations.first_ddl import first_statements
from lineloop.server.migrations.second_ddl import second_statements
from lineloop.server.migrations.third_ddl import third_statements


def fresh_statements(*, sqlite: bool = True) -> list[str]:
    """Creates every table and index of HEAD, on SQLite or on PostgreSQL."""
    return [
        *first_statements(sqlite=sqlite),
        *second_statements(sqlite=sqlite),
        *third_statements(sqlite=sqlite),
    ]
