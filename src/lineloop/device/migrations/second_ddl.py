"""What the second schema changes: of a page's key stands what checks it, not a digest that passes for it."""

from __future__ import annotations

SHELL_KEYS_DDL = """
    CREATE TABLE shell_keys (
      runtime_id TEXT NOT NULL,
      name TEXT NOT NULL,
      page_check BLOB NOT NULL,
      device_key BLOB NOT NULL,
      created_at BIGINT NOT NULL,
      used_at BIGINT NOT NULL,
      PRIMARY KEY (runtime_id, name)
    ) WITHOUT ROWID
    """


def second_statements() -> list[str]:
    """The statements; rows of the old table are the migration's affair."""
    return ["DROP TABLE shell_keys", SHELL_KEYS_DDL]
