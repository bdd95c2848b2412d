"""All statements of the first schema, in order: calls and what they lead to, apps and their data."""

from __future__ import annotations

from lineloop.device.migrations.apps_ddl import APPS_DDL
from lineloop.device.migrations.core_ddl import CLUSTERED, CORE_DDL


def first_statements(*, sqlite: bool) -> list[str]:
    """The statements for SQLite, or for PostgreSQL."""
    statements: list[str] = []
    for statement in (*CORE_DDL, *APPS_DDL):
        clustered = sqlite and any(f"CREATE TABLE {name} (" in statement for name in CLUSTERED)
        statements.append(f"{statement.rstrip()} WITHOUT ROWID" if clustered else statement)
    return statements
