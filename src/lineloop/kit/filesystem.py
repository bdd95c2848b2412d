"""Which file system a path lives on.

Write-ahead logs and file locks need a local disk; here it is decided which kinds of file system are not one.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

_NETWORK_TYPES = frozenset(
    {
        "9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "glusterfs", "lustre", "ncpfs", "nfs", "nfs4",
        "smb3", "smbfs", "fuse.ceph", "fuse.curlftpfs", "fuse.davfs2", "fuse.glusterfs", "fuse.goofys",
        "fuse.rclone", "fuse.s3fs", "fuse.sshfs",
    }
)  # fmt: skip
# What the kernel shows as files: nothing can be kept there, although the rights seem to allow it.
_KERNEL_TYPES = frozenset(
    {
        "autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "efivarfs",
        "fusectl", "hugetlbfs", "mqueue", "nsfs", "proc", "pstore", "securityfs", "sysfs", "tracefs",
    }
)  # fmt: skip
_MOUNTINFO = Path("/proc/self/mountinfo")


class NetworkFilesystem(Exception):
    """The path is on a network file system, where locks and shared memory cannot be trusted."""

    def __init__(self, path: Path, kind: str) -> None:
        super().__init__(f"{path} is on a network file system ({kind}); choose a local disk")
        self.path = path
        self.kind = kind


def filesystem_of(path: Path, mountinfo: str | None = None) -> str | None:
    """The type of the file system that holds `path` (which need not exist yet), or None where the system does
    not tell (anything but Linux). `mountinfo` replaces the kernel's table."""
    if mountinfo is None:
        try:
            mountinfo = _MOUNTINFO.read_text(errors="surrogateescape")
        except OSError:
            return None
    where = os.path.realpath(path)
    best, kind = -1, None
    for line in mountinfo.splitlines():
        mount, _, source = line.partition(" - ")
        fields, tail = mount.split(" "), source.split(" ")
        if len(fields) < 5 or not tail[0]:
            continue
        point = _unescaped(fields[4])
        inside = where == point or where.startswith(point.rstrip("/") + "/")
        # Of two mounts on one point the later one is on top.
        if inside and len(point) >= best:
            best, kind = len(point), tail[0]
    return kind


def refuse_network_filesystem(path: Path) -> None:
    """Raises NetworkFilesystem when `path` is known to be on one."""
    kind = filesystem_of(path)
    if kind in _NETWORK_TYPES:
        raise NetworkFilesystem(path, kind)


def refuse_unusable_directory(path: Path) -> None:
    """Raises OSError, NetworkFilesystem when `path` is not, and cannot become, a directory to keep data in.

    Changes nothing, so a path that passes may still be refused by the system later.
    """
    refuse_network_filesystem(path)
    place = path
    while not os.path.lexists(place) and place != place.parent:
        place = place.parent
    if not place.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(place))
    if filesystem_of(place) in _KERNEL_TYPES:
        raise OSError(errno.EPERM, "the kernel's own files, no place for data", str(path))
    if not os.access(place, os.W_OK | os.X_OK):
        code = errno.EROFS if os.statvfs(place).f_flag & os.ST_RDONLY else errno.EACCES
        raise OSError(code, os.strerror(code), str(path))


def _unescaped(text: str) -> str:
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, char)
    return text
