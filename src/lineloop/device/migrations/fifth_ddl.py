"""What the fifth schema adds: the app that a person wants to see first."""

from __future__ import annotations


def fifth_statements() -> list[str]:
    """NULL stands for chat."""
    return ["ALTER TABLE device_state ADD COLUMN default_app TEXT"]
