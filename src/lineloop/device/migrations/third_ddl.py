"""What the third schema changes: one-time codes are rows, and every key that pages had ends.

Databases of the first schema held the plain digest of each key, and copies of them still do. Keys that came
from there are known to whoever reads such a copy, and cannot be told from later ones.
"""

from __future__ import annotations

SHELL_CODES_DDL = """
    CREATE TABLE shell_codes (
      runtime_id TEXT NOT NULL,
      name TEXT NOT NULL,
      page_check BLOB NOT NULL,
      device_key BLOB NOT NULL,
      made_at BIGINT NOT NULL,
      PRIMARY KEY (runtime_id, name)
    ) WITHOUT ROWID
    """


def third_statements() -> list[str]:
    """The statements, in order."""
    return ["DELETE FROM shell_keys", SHELL_CODES_DDL]
