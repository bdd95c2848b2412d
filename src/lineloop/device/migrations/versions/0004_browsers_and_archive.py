"""The browser that keeps a page's key has a name; a conversation has an owner and may be archived."""

from __future__ import annotations

from alembic import op

from lineloop.device.migrations.fourth_ddl import fourth_statements

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for statement in fourth_statements():
        op.execute(statement)


def downgrade() -> None:
    raise NotImplementedError("restore the backup that was made before the upgrade instead")
