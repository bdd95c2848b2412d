"""The server's schema, revision by revision. HEAD names the newest; the running server needs exactly that."""

from __future__ import annotations

HEAD = "0003"
