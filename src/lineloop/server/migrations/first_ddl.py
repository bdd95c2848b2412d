"""All statements of the first schema, in order: conversations, runs, resources."""

from __future__ import annotations

from lineloop.control.stores.sql import DDL as RESOURCES_DDL
from lineloop.server.migrations.conversations_ddl import CONVERSATIONS_DDL
from lineloop.server.migrations.dialects import for_postgres
from lineloop.server.migrations.runs_ddl import RUNS_DDL

# Small rows under a key of several parts: on SQLite the key's tree then holds the row itself.
_CLUSTERED = ("patches", "consumers")


def first_statements(*, sqlite: bool) -> list[str]:
    """The statements for SQLite, or for PostgreSQL."""
    statements: list[str] = []
    for statement in (*CONVERSATIONS_DDL, *RUNS_DDL, *RESOURCES_DDL):
        clustered = sqlite and any(f"CREATE TABLE {name} (" in statement for name in _CLUSTERED)
        statements.append(f"{statement.rstrip()} WITHOUT ROWID" if clustered else statement)
    return statements if sqlite else [for_postgres(statement) for statement in statements]
