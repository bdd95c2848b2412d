"""What the sixth schema adds: which life of the server's database the cursors are of."""

from __future__ import annotations

SERVER_EPOCHS_DDL = """
    CREATE TABLE server_epochs (
      runtime_id TEXT NOT NULL PRIMARY KEY,
      epoch TEXT NOT NULL
    ) WITHOUT ROWID
    """


def sixth_statements() -> list[str]:
    """The statements, in order."""
    return [SERVER_EPOCHS_DDL]
