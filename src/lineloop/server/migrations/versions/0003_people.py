"""People: who was taken out, invitations, refusals."""

from __future__ import annotations

from alembic import op

from lineloop.server.migrations.third_ddl import third_statements

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for statement in third_statements(sqlite=op.get_bind().dialect.name == "sqlite"):
        # As it stands: the migration machinery would take a colon in it for a parameter.
        op.get_bind().exec_driver_sql(statement)


def downgrade() -> None:
    raise NotImplementedError("restore the backup that was made before the upgrade instead")
