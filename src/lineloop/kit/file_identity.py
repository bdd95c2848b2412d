"""One process for one database file, whatever names the file has.

SQLite keeps a database in several files that belong together by name (`x`, `x-wal`, `x-shm`). Two processes
that use one file under two names have two logs for it, and each overwrites what the other has acknowledged;
one process after a crash of the other does not see its log. Hence:

- a file with several names (hard links) is refused, on every system;
- on Linux the file itself is locked too, for a file that was renamed while it is in use. This is a `flock`,
  which Linux keeps apart from the `fcntl` locks that SQLite takes on the same file. Elsewhere (macOS) the two
  exclude each other, so there it is not taken, and a rename under a running process stays unnoticed.

Closing any descriptor of a file ends the `fcntl` locks that its process has on it. So the lock is given
back only after SQLite has closed it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Self

from lineloop.kit.storage_errors import DatabaseBusyElsewhere, DatabaseUnavailable


def refuse_several_names(path: Path) -> None:
    """Raises DatabaseUnavailable when the file has other names; one that does not exist passes."""
    try:
        names = path.stat().st_nlink
    except FileNotFoundError:
        return
    if names > 1:
        raise DatabaseUnavailable(
            f"{path} has {names} names (hard links), each of which would have a log of its own; "
            "keep one of them, or make a copy instead of a link"
        )


class FileIdentity:
    """Holds a database file for this process from `hold` to `close`.

    Raises DatabaseUnavailable for a file with several names.
    """

    def __init__(self, path: Path) -> None:
        refuse_several_names(path)
        self._path = path
        self._descriptor: int | None = None

    def hold(self) -> None:
        """Lock the file, if it exists and is not locked yet: before SQLite opens it, or once it is made.

        Raises DatabaseBusyElsewhere when another process holds it, OSError.
        """
        if sys.platform != "linux" or self._descriptor is not None:
            return
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        self._descriptor = descriptor
        if not _lock_exclusively(descriptor):
            self.close()
            raise DatabaseBusyElsewhere(f"{self._path} is in use, maybe under another name")

    def close(self) -> None:
        """Give the file back. Nothing of this process may have it open any more."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        self.hold()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


if sys.platform == "linux":
    import fcntl

    def _lock_exclusively(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
