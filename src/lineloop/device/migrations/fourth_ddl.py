"""What the fourth schema adds: which browser keeps a page's key; a conversation's owner and archive."""

from __future__ import annotations


def fourth_statements() -> list[str]:
    """Columns that tables of the person's own things get; what stands in them already keeps them empty."""
    return [
        "ALTER TABLE shell_keys ADD COLUMN browser TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE person_conversations ADD COLUMN owner TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE person_conversations ADD COLUMN archived_at TEXT",
    ]
