"""Ids in paths (spec/protocol.md §1.1)."""

from __future__ import annotations

from urllib.parse import quote

from lineloop.protocol.errors import NotFound


def segment(name: str) -> str:
    """An id as one segment of a path. Raises NotFound for what names nothing there, but another route."""
    if not name.strip(".") or "/" in name:
        raise NotFound(f"nothing has the id {name!r}")
    return quote(name, safe="")
