"""Starts that cannot succeed: one clear message, the right exit code, no traceback, nothing half-made."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.blackbox.system import System, eventually

SERVER = Path("server/server.sqlite3")
DEVICE = Path("device/device.sqlite3")


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory that was used and stopped."""
    system = System(tmp_path_factory.mktemp("used")).start()
    try:
        for number in range(200):
            system.call("POST", "/conversations", {"name": f"{number} {'x' * 150}"})
        assert system.stop() == 0
    finally:
        system.close()
    return system.data_dir


@pytest.fixture
def data_dir(used: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(used, tmp_path / "data"))


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    point = tmp_path / "disk"
    point.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs", str(point)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("mounting needs root; the words of such errors are tested in tests/unit/cli")
    yield point
    subprocess.run(["umount", "-l", str(point)], check=True)


def lineloop(*arguments: str | Path, home: Path | None = None) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("LINELOOP_")}
    if home:
        clean |= {"HOME": str(home), "XDG_DATA_HOME": str(home / "share")}
    command = [sys.executable, "-m", "lineloop.cli", *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60, env=clean)


def refused(data_dir: str | Path, code: int = 1) -> str:
    """What `up` says about a data directory that it cannot use."""
    answer = lineloop("up", "--data-dir", data_dir, "--server-port", "0", "--no-open")
    assert answer.returncode == code, answer.stderr
    assert "Traceback" not in answer.stderr
    assert '"ready"' not in answer.stderr
    return answer.stderr


def doctor(data_dir: str | Path) -> str:
    """What `doctor` says about a data directory that cannot be used."""
    answer = lineloop("doctor", "--data-dir", data_dir)
    assert answer.returncode == 1, answer.stdout
    assert "Traceback" not in answer.stderr
    return "\n".join(line for line in answer.stdout.splitlines() if line.startswith("FAIL"))


def damage(database: Path) -> None:
    with database.open("r+b") as file:
        size = database.stat().st_size
        file.seek(8192)
        file.write(b"\xff" * (size - 8192))


def test_a_directory_that_cannot_be_made_is_named() -> None:
    assert "/proc/lineloop" in refused("/proc/lineloop")
    assert "/proc" in doctor("/proc/lineloop")


def test_a_file_in_the_place_of_the_directory_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("kept")
    assert f"{file} is not a directory" in refused(file)
    assert str(file) in doctor(file)
    assert f"{file} is not a directory" in refused(file / "below")
    assert file.read_text() == "kept"


@pytest.mark.parametrize("option", ["--data-dir", "--ready-file"])
def test_an_empty_path_is_a_mistake_in_usage(tmp_path: Path, option: str) -> None:
    answer = lineloop("up", option, "", home=tmp_path)
    assert answer.returncode == 2
    assert option in answer.stderr
    assert "Traceback" not in answer.stderr


def test_a_read_only_file_system_is_named(mounted: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(mounted)], check=True)
    assert f"{mounted}/data: Read-only file system" in refused(mounted / "data")
    assert str(mounted) in doctor(mounted / "data")


def test_a_full_disk_is_said_and_nothing_half_made_stays(mounted: Path) -> None:
    (mounted / "filler").write_bytes(bytes(40_000))
    said = refused(mounted / "data")
    assert "full" in said or "No space left" in said
    assert "MiB are free" in doctor(mounted / "data")
    databases = [path for path in mounted.rglob("*") if path.is_file() and ".sqlite3" in path.name]
    assert [path for path in databases if path.suffix != ".lock"] == []


@pytest.mark.parametrize("name", [SERVER, DEVICE])
def test_an_empty_database_beside_data_is_not_taken_for_a_new_one(data_dir: Path, name: Path) -> None:
    database = data_dir / name
    database.write_bytes(b"")
    said = refused(data_dir)
    assert f"{database} is empty" in said
    assert "backup" in said
    assert str(database) in doctor(data_dir)
    assert database.stat().st_size == 0
    copy = database.with_name(f"{database.name}.before-0009")
    copy.write_bytes(b"data")
    assert str(copy) in refused(data_dir)


def test_an_empty_database_without_any_data_is_a_new_one(tmp_path: Path) -> None:
    system = System(tmp_path)
    (system.data_dir / SERVER).parent.mkdir(parents=True)
    (system.data_dir / SERVER).write_bytes(b"")
    try:
        system.start()
        assert system.stop() == 0
    finally:
        system.close()


@pytest.mark.requirement("K9")
@pytest.mark.parametrize("name", [SERVER, DEVICE])
def test_a_database_with_damaged_pages_is_not_announced_as_ready(data_dir: Path, name: Path) -> None:
    damage(data_dir / name)
    said = refused(data_dir)
    assert "damaged" in said
    assert str(data_dir / name) in said
    assert str(name) in doctor(data_dir)


@pytest.mark.parametrize("name", [SERVER, DEVICE])
def test_a_schema_of_a_newer_version_is_named(data_dir: Path, name: Path) -> None:
    with closing(sqlite3.connect(data_dir / name)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    assert "9999" in refused(data_dir)
    assert "9999" in doctor(data_dir)


def test_the_database_of_another_part_is_refused(data_dir: Path) -> None:
    answer = lineloop("serve", "--database", data_dir / DEVICE, "--port", "0")
    assert answer.returncode == 1
    assert "Traceback" not in answer.stderr


@pytest.mark.requirement("K9")
def test_damage_met_while_running_stops_the_process_with_a_message(tmp_path: Path) -> None:
    system = System(tmp_path).start()
    try:
        for number in range(300):
            system.call("POST", "/conversations", {"name": f"{number} {'x' * 150}"})
        database = system.data_dir / SERVER
        # The log holds everything new, so that the damage would wait for its checkpoint: emptied first.
        with closing(sqlite3.connect(database, timeout=10)) as connection:
            eventually(
                lambda: connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0, "checkpoint"
            )
        damage(database)

        def ended() -> bool:
            if system.alive:
                try:
                    system.call("GET", "/conversations?limit=200")
                except OSError:
                    pass
                except Exception as refusal:
                    assert "storage" in str(refusal)
            return not system.alive

        eventually(ended, "the end of the process")
        assert system.died() == 1
        said = system.log_file.read_text()
        assert "damaged" in said
        assert str(database) in said
        assert "Traceback" not in said
        assert not system.ready_file.exists()
    finally:
        system.close()


@pytest.mark.requirement("K21")
def test_a_database_has_one_server_whichever_way_it_is_named(tmp_path: Path) -> None:
    system = System(tmp_path).start()
    try:
        database = system.data_dir / SERVER
        answer = lineloop("serve", "--database", f"sqlite:///{database}", "--port", "0", home=tmp_path)
        assert answer.returncode == 75
        assert str(system.pid) in answer.stderr
        assert str(database) in answer.stderr
        assert not (tmp_path / "share").exists()
    finally:
        system.close()


@pytest.mark.requirement("K21")
def test_a_server_on_a_database_of_its_own_keeps_its_files_beside_it(tmp_path: Path) -> None:
    database, ready = tmp_path / "team.db", tmp_path / "ready.json"
    command = [sys.executable, "-m", "lineloop.cli", "serve", "--database", str(database), "--port", "0"]
    clean = {k: v for k, v in os.environ.items() if not k.startswith("LINELOOP_")}
    clean |= {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "share")}
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen([*command, "--ready-file", str(ready)], env=clean, stdout=log, stderr=log)
    try:
        eventually(ready.exists, "ready file")
        beside = tmp_path / "team.db.lineloop"
        assert (beside / "credentials.json").exists()
        assert not (tmp_path / "share").exists()
        server.send_signal(signal.SIGTERM)
        assert server.wait(15) == 0
        made = lineloop("token", "create", "--actor", "operator/x", "--data-dir", beside)
        assert made.returncode == 0, made.stderr
        with closing(sqlite3.connect(database)) as connection:
            assert connection.execute("SELECT count(*) FROM tokens").fetchone()[0] == 1
        assert not (beside / SERVER).exists()
    finally:
        server.kill()
        server.wait()


@pytest.mark.requirement("K21")
@pytest.mark.parametrize("part", [SERVER, DEVICE])
def test_a_database_with_a_second_name_is_used_under_neither(tmp_path: Path, part: Path) -> None:
    system = System(tmp_path).start()
    other = tmp_path / "other"
    try:
        (other / part.parent).mkdir(parents=True)
        (other / part).hardlink_to(system.data_dir / part)
        said = refused(other)
        assert "hard links" in said
        assert str(other / part) in said
        assert system.call("POST", "/conversations", {})["id"]
        assert system.stop() == 0
        assert "hard links" in refused(system.data_dir)
        (other / part).unlink()
        system.start()
    finally:
        system.close()


@pytest.mark.requirement("K21")
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a rename stays unnoticed")
@pytest.mark.parametrize("part", [SERVER, DEVICE])
def test_a_database_that_was_renamed_while_it_is_used_stays_with_its_process(
    tmp_path: Path, part: Path
) -> None:
    system = System(tmp_path).start()
    other = tmp_path / "other"
    try:
        (other / part.parent).mkdir(parents=True)
        (system.data_dir / part).rename(other / part)
        assert "another process" in refused(other, 75)
    finally:
        system.close()
