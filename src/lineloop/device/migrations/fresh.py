"""The newest schema for a new SQLite file, in one go; the same as all revisions one after the other."""

from __future__ import annotations

from lineloop.device.migrations.apps_ddl import APPS_DDL
from lineloop.device.migrations.core_ddl import CORE_DDL


def fresh_statements() -> list[str]:
    """Creates every table and index of HEAD."""
    return [*CORE_DDL, *APPS_DDL]
