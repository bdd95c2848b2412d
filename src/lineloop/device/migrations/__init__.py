"""The device's schema, revision by revision. HEAD names the newest; the running device needs exactly that."""

from __future__ import annotations

HEAD = "0006"
NOT_COPIED = ("shell_keys", "shell_codes")
"""A copy of before a migration tells nothing of who was let in: whoever goes back to it opens a new link."""
