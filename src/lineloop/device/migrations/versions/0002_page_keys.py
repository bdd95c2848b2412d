"""Pages prove their key instead of sending it: of each key stands what checks it."""

from __future__ import annotations

import hmac
from hashlib import sha256

import sqlalchemy as sa
from alembic import op

from lineloop.device.migrations.second_ddl import second_statements

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_KEEP = sa.text(
    "INSERT INTO shell_keys (runtime_id, name, page_check, device_key, created_at, used_at)"
    " VALUES (:runtime_id, :name, :page_check, :device_key, :created_at, :used_at)"
)


def upgrade() -> None:
    connection = op.get_bind()
    found = connection.execute(
        sa.text("SELECT runtime_id, digest, created_at, used_at FROM shell_keys")
    ).all()
    for statement in second_statements():
        op.execute(statement)
    for runtime_id, digest, created_at, used_at in found:
        about = {"runtime_id": runtime_id, "created_at": created_at, "used_at": used_at}
        connection.execute(_KEEP, {**about, **_checks(bytes.fromhex(digest))})


def _checks(root: bytes) -> dict[str, object]:
    """What the handshake of this revision keeps of a secret whose digest is `root`. It stands here as it was
    then: a migration does not change when the program does.
    """
    page_key = hmac.digest(root, b"lineloop shell page", "sha256")
    return {
        "name": hmac.digest(root, b"lineloop shell name", "sha256").hex()[:32],
        "page_check": sha256(page_key).digest(),
        "device_key": hmac.digest(root, b"lineloop shell device", "sha256"),
    }


def downgrade() -> None:
    raise NotImplementedError("checks cannot be turned back into digests; restore the backup instead")
