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


def _statements() -> Iterable[str]:
    yield from CONVERSATIONS_DDL
    yield from RUNS_DDL
    yield from RESOURCES_DDL


def upgrade() -> None:
    for statement in _statements():
        op.execute(statement)


def downgrade() -> None:
    raise NotImplementedError("the first schema has nothing before it; restore the backup instead")
