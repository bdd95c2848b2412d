"""What a place for bytes must be able to do.

A place is a name that is used once: bytes are written to it, kept, read, removed, and never replaced. So that
removing old bytes can never hit the same bytes stored anew.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

PART_BYTES = 256 * 1024


class BlobWriter(Protocol):
    """Bytes on their way to a place. Every method raises StorageUnavailable."""

    async def write(self, part: bytes) -> None: ...

    async def finish(self) -> None:
        """Returns when everything that was written is durable under the place's name."""
        ...

    async def discard(self) -> None:
        """Nothing of it is kept. Repeating it, also after `finish`, is harmless."""
        ...


class BlobStore(Protocol):
    """Bytes by the name of their place (see `new_place`)."""

    async def begin(self, place: str) -> BlobWriter: ...

    def read(self, place: str) -> AsyncIterator[bytes]:
        """The bytes in parts. Raises StorageUnavailable when they cannot be read."""
        ...

    async def remove(self, place: str) -> None:
        """Removing what is not there is harmless. Raises StorageUnavailable."""
        ...

    async def places(self, before_ms: int) -> list[str]:
        """Places begun before that time (UTC ms) which may not belong to any blob: some, not all at once."""
        ...


def new_place(now_ms: int, unique: str) -> str:
    """A name that says when it was begun and is never used again."""
    return f"{now_ms:016d}-{unique}"


def begun_before(place: str, before_ms: int) -> bool:
    return place[:16] < f"{before_ms:016d}"
