"""The directory of one process, and which disks it may be on."""

from __future__ import annotations

import asyncio
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lineloop.kit import filesystem
from lineloop.kit.clock import SystemClock
from lineloop.kit.database import NetworkFilesystem
from lineloop.kit.datadir import DataDir, DataDirLocked, FileLock, write_atomic
from lineloop.kit.filesystem import filesystem_of
from lineloop.kit.schema import ensure_schema
from lineloop.kit.sqlite.database import SqliteDatabase

Child = Callable[..., "subprocess.Popen[str]"]

MOUNTS = """\
1 0 8:1 / / rw shared:1 - ext4 /dev/sda1 rw
2 1 0:30 / /mnt/team\\040share rw - nfs4 host:/x rw
3 1 0:31 / /mnt/both rw - ext4 /dev/sdb rw
4 3 0:32 / /mnt/both rw - cifs //host/y rw
"""


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.requirement("K21")
def test_a_data_directory_is_made_for_its_user_alone(tmp_path: Path) -> None:
    with DataDir(tmp_path / "a" / "b") as directory:
        assert mode_of(directory.path) == 0o700
        assert (directory / "x") == tmp_path / "a" / "b" / "x"


@pytest.mark.requirement("K21")
def test_a_second_owner_is_refused_and_told_who_the_first_is(tmp_path: Path, child: Child) -> None:
    process = child("own_directory", tmp_path / "d")
    assert process.stdout is not None
    assert process.stdout.readline() == '"owned"\n'
    with pytest.raises(DataDirLocked) as caught:
        DataDir(tmp_path / "d")
    assert caught.value.pid == process.pid
    process.kill()
    process.wait()
    DataDir(tmp_path / "d").close()


@pytest.mark.requirement("K21")
def test_a_file_has_one_owner_under_whichever_name(tmp_path: Path, child: Child) -> None:
    file, link = tmp_path / "x.db", tmp_path / "link.db"
    link.symlink_to(file)
    process = child("own_file", link)
    assert process.stdout is not None
    assert process.stdout.readline() == '"owned"\n'
    with pytest.raises(DataDirLocked) as caught:
        FileLock(file)
    assert (caught.value.pid, caught.value.path) == (process.pid, file)
    process.kill()
    process.wait()
    FileLock(link).close()


@pytest.mark.requirement("K21")
def test_a_file_is_replaced_as_a_whole_with_its_mode(tmp_path: Path) -> None:
    with DataDir(tmp_path) as directory:
        path = directory.write_atomic("token", b"one")
        write_atomic(path, b"two", 0o644)
        assert (path.read_bytes(), mode_of(path)) == (b"two", 0o644)
        with pytest.raises(OSError):
            directory.write_atomic("missing/token", b"three")
        assert sorted(file.name for file in tmp_path.iterdir()) == ["lock", "token"]


@pytest.mark.requirement("K22")
@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/me", "ext4"),
        ("/mnt/team share/data", "nfs4"),
        ("/mnt/both/x", "cifs"),
        ("/mnt/bothx", "ext4"),
    ],
)
def test_the_file_system_of_a_path_is_the_deepest_and_topmost_mount(path: str, kind: str) -> None:
    assert filesystem_of(Path(path), MOUNTS) == kind


@pytest.mark.requirement("K22")
def test_a_network_file_system_is_refused_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(f"1 0 0:30 / {tmp_path} rw - nfs4 host:/x rw\n")
    monkeypatch.setattr(filesystem, "_MOUNTINFO", table)
    with pytest.raises(NetworkFilesystem):
        DataDir(tmp_path / "d")
    with pytest.raises(NetworkFilesystem):
        ensure_schema(tmp_path / "x.db", package="lineloop.kit", head="0001")
    with pytest.raises(NetworkFilesystem):
        asyncio.run(SqliteDatabase.open(tmp_path / "x.db", clock=SystemClock()))
    assert [file.name for file in tmp_path.iterdir()] == ["mountinfo"]
