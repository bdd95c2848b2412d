"""Which life of the server's database the device knows."""

from __future__ import annotations

from alembic import op

from lineloop.device.migrations.sixth_ddl import sixth_statements

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for statement in sixth_statements():
        op.execute(statement)


def downgrade() -> None:
    raise NotImplementedError(
        "a server that began anew cannot be told without it; restore the backup instead"
    )
