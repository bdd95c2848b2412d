"""The first schema: calls and what they lead to, apps and their data."""

from __future__ import annotations

from alembic import op

from lineloop.device.migrations.first_ddl import first_statements

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    for statement in first_statements(sqlite=op.get_bind().dialect.name == "sqlite"):
        op.execute(statement)


def downgrade() -> None:
    raise NotImplementedError("the first schema has nothing before it; restore the backup instead")
