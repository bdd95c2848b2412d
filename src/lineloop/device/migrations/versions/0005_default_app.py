"""A person may choose the app that they see first."""

from __future__ import annotations

from alembic import op

from lineloop.device.migrations.fifth_ddl import fifth_statements

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for statement in fifth_statements():
        op.execute(statement)


def downgrade() -> None:
    raise NotImplementedError("a choice that was made is not forgotten; restore the backup instead")
