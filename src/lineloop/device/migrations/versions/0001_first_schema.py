"""The first schema: calls and what they lead to, apps and their data."""

from __future__ import annotations

from alembic import op

from lineloop.device.migrations.apps_ddl import APPS_DDL
from lineloop.device.migrations.core_ddl import CORE_DDL

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    for statement in (*CORE_DDL, *APPS_DDL):
        op.execute(statement)


def downgrade() -> None:
    raise NotImplementedError("the first schema has nothing before it; restore the backup instead")
