"""One-time codes are rows; keys of before let nobody in any more."""

from __future__ import annotations

from alembic import op

from lineloop.device.migrations.third_ddl import third_statements

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for statement in third_statements():
        op.execute(statement)


def downgrade() -> None:
    raise NotImplementedError("keys that ended cannot be made again; restore the backup instead")
