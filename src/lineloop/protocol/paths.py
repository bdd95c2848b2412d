"""Ids and actors in paths (spec/protocol.md §1.1)."""

from __future__ import annotations

from urllib.parse import quote

from lineloop.protocol.actors import Actor
from lineloop.protocol.errors import NotFound


def segment(name: str) -> str:
    """An id as one segment of a path. Raises NotFound for what names nothing there, but another route."""
    if not name.strip(".") or "/" in name:
        raise NotFound(f"nothing has the id {name!r}")
    return quote(name, safe="")


def actor_segments(actor: Actor) -> str:
    """An actor as two segments of a path, slashes of its kind encoded. Raises NotFound as `segment` does."""
    if not actor.kind.strip("."):
        raise NotFound(f"nothing has the kind {actor.kind!r}")
    return f"{quote(actor.kind, safe='')}/{segment(actor.key)}"
