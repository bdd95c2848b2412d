"""Bytes in files: one directory, a bucket for each of 256 endings, a file per place.

A file appears under its name by rename, after its bytes are on the disk; the directory is synced before the
answer, so that a power cut loses nothing that was answered.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import BinaryIO, TypeVar

from lineloop.kit.faults import FaultInjected, Faults
from lineloop.protocol.errors import StorageUnavailable
from lineloop.protocol.fault_sites import FaultSite
from lineloop.server.blobs.port import PART_BYTES, begun_before

UNFINISHED = ".part"
BUFFER_BYTES = 1024 * 1024

T = TypeVar("T")


class FileBlobs:
    """Bytes under `folder`, which is made when it is first needed. Files are readable by their owner only."""

    def __init__(self, folder: Path, faults: Faults | None = None) -> None:
        self._folder = folder
        self._faults = faults or Faults.none()

    async def begin(self, place: str) -> FileWriter:
        path = self._path(place)
        return FileWriter(path, await _run(lambda: _opened(self._folder, path)), self._faults)

    async def read(self, place: str) -> AsyncGenerator[bytes, None]:
        file = await _run(lambda: self._path(place).open("rb"))
        try:
            while part := await _run(lambda: file.read(PART_BYTES)):
                yield part
        finally:
            file.close()

    async def remove(self, place: str) -> None:
        def both() -> None:
            self._faults.reach(FaultSite.SERVER_BLOB_REMOVAL_BEFORE)
            self._path(place).unlink(missing_ok=True)
            _unfinished(self._path(place)).unlink(missing_ok=True)
            self._faults.reach(FaultSite.SERVER_BLOB_REMOVAL_AFTER)

        await _run(both)

    async def places(self, before_ms: int) -> list[str]:
        return await _run(lambda: self._places(before_ms))

    def _places(self, before_ms: int) -> list[str]:
        if not self._folder.is_dir():
            return []
        found: list[str] = []
        for bucket in sorted(self._folder.iterdir()):
            if bucket.is_dir() and len(bucket.name) == 2:
                names = (file.name.removesuffix(UNFINISHED) for file in bucket.iterdir())
                found += [name for name in names if begun_before(name, before_ms)]
        return found

    def _path(self, place: str) -> Path:
        return self._folder / place[-2:] / place


class FileWriter:
    """Gathers what is written, so that a slow sender does not cost a thread's attention per packet."""

    def __init__(self, path: Path, file: BinaryIO, faults: Faults) -> None:
        self._path = path
        self._faults = faults
        self._file = file
        self._waiting = bytearray()

    async def write(self, part: bytes) -> None:
        self._waiting += part
        if len(self._waiting) >= BUFFER_BYTES:
            await self._flush()

    async def _flush(self) -> None:
        waiting, self._waiting = self._waiting, bytearray()
        await _run(lambda: self._file.write(waiting))

    async def finish(self) -> None:
        await self._flush()
        await _run(self._settle)

    def _settle(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._faults.reach(FaultSite.SERVER_BLOB_FILE_BEFORE)
        _unfinished(self._path).rename(self._path)
        _sync(self._path.parent)
        self._faults.reach(FaultSite.SERVER_BLOB_FILE_AFTER)

    async def discard(self) -> None:
        def drop() -> None:
            self._file.close()
            _unfinished(self._path).unlink(missing_ok=True)
            self._path.unlink(missing_ok=True)

        self._waiting.clear()
        await _run(drop)


def _opened(folder: Path, path: Path) -> BinaryIO:
    if not path.parent.is_dir():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _sync(folder)
        _sync(folder.parent)
    return os.fdopen(os.open(_unfinished(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def _unfinished(path: Path) -> Path:
    return path.with_name(path.name + UNFINISHED)


def _sync(folder: Path) -> None:
    """Names in a directory are durable when the directory is. Windows syncs them with the file."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


async def _run(work: Callable[[], T]) -> T:
    try:
        return await asyncio.to_thread(work)
    except (OSError, FaultInjected) as error:
        raise StorageUnavailable("the storage of attachments failed") from error
