"""The first schema: conversations, runs, resources."""

from __future__ import annotations

from collections.abc import Iterable

from alembic import op

from lineloop.control.stores.sql import DDL as RESOURCES_DDL
from lineloop.server.migrations.conversations_ddl import CONVERSATIONS_DDL
from lineloop.server.migrations.runs_ddl import RUNS_DDL

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# Small rows under a key of several parts: on SQLite the key's tree then holds the row itself.
_CLUSTERED = ("patches", "consumers")


def _statements() -> Iterable[str]:
    yield from CONVERSATIONS_DDL
    yield from RUNS_DDL
    yield from RESOURCES_DDL


def upgrade() -> None:
    sqlite = op.get_bind().dialect.name == "sqlite"
    for statement in _statements():
        clustered = sqlite and any(f"CREATE TABLE {name} (" in statement for name in _CLUSTERED)
        op.execute(f"{statement.rstrip()} WITHOUT ROWID" if clustered else statement)


def downgrade() -> None:
    raise NotImplementedError("the first schema has nothing before it; restore the backup instead")
