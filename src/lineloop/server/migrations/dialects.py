"""What the two databases spell differently in a table's definition."""

from __future__ import annotations

import re

_TEXT = re.compile(r"\bTEXT\b")


def for_postgres(statement: str) -> str:
    """Texts compare by their bytes, as on SQLite, whatever language the database was made for."""
    return _TEXT.sub('TEXT COLLATE "C"', statement)
