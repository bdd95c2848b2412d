"""What one process owns: a directory, or a file with a lock beside it.

It decides who may use them (one process at a time, on a local disk; a directory its user alone), and how a
file shows that the process which wrote it lives: by a lock, because numbers of processes are given again.
What lies in them is the business of whoever asks for paths.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from lineloop.kit.filesystem import refuse_network_filesystem

_LOCK_NAME = "lock"


class DataDirLocked(Exception):
    """Another process owns the directory or file; `pid` is its id, None when it could not be read."""

    def __init__(self, path: Path, pid: int | None) -> None:
        super().__init__(f"{path} is in use by process {pid if pid is not None else '(unknown)'}")
        self.path = path
        self.pid = pid


class FileLock:
    """The lock `<file>.lock` beside a file, held until `close` or the end of the process.

    Raises NetworkFilesystem, DataDirLocked, OSError.
    """

    def __init__(self, path: Path) -> None:
        # Links to one file would be several locks otherwise.
        path = Path(os.path.realpath(path))
        refuse_network_filesystem(path)
        self._descriptor: int | None = _locked(path.with_name(f"{path.name}.lock"), path)

    def close(self) -> None:
        """Give it free. The file of the lock stays: whoever removed it could remove the next owner's."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class DataDir:
    """An own directory (0700), made when missing and locked until `close` or the end of the process.

    Raises NetworkFilesystem, DataDirLocked, OSError.
    """

    def __init__(self, path: Path) -> None:
        refuse_network_filesystem(path)
        self.path = path
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.name == "posix":
            path.chmod(0o700)
        self._descriptor: int | None = _locked(path / _LOCK_NAME, path)

    def close(self) -> None:
        """Give the directory free."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def write_atomic(self, name: str | Path, data: bytes, mode: int = 0o600) -> Path:
        """Replace a file of the directory as a whole; after a crash there is the old or the new one."""
        target = self.path / name
        write_atomic(target, data, mode)
        return target


def _locked(file: Path, owned: Path) -> int:
    # The lock belongs to the open file, so it ends with the process however that ends. The pid in the
    # file is for people.
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _lock_exclusively(descriptor)
    except OSError:
        pid = _owner(descriptor)
        os.close(descriptor)
        raise DataDirLocked(owned, pid) from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    return descriptor


def hold(path: Path) -> int:
    """Locks a file that others ask about with `is_held`; close the descriptor to give it free.

    Waits for those who are just asking. Raises OSError.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        _lock_when_free(descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def is_held(path: Path) -> bool:
    """Whether a living process holds this file. False when there is none."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not _can_share(descriptor)
    finally:
        os.close(descriptor)


def write_atomic(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write `data` beside `path`, make it durable, then move it into place. Raises OSError."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if os.name == "posix":
                os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    if os.name == "posix":
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def _owner(descriptor: int) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        return int(os.pread(descriptor, 32, 0))
    return None


if sys.platform == "win32":
    import msvcrt

    def _lock_exclusively(descriptor: int) -> None:
        os.lseek(descriptor, 1024, os.SEEK_SET)  # beyond the pid, which others may want to read
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

    def _lock_when_free(descriptor: int) -> None:
        os.lseek(descriptor, 1024, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)

    def _can_share(descriptor: int) -> bool:
        try:
            _lock_exclusively(descriptor)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _lock_exclusively(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _lock_when_free(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX)

    def _can_share(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return False
        return True
