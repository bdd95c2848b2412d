"""`lineloop backup` and `lineloop restore`: one data directory at one moment, server and device together.

Decides what belongs to a backup, and that both databases are cut at the same moment: for as long as it takes
to begin two snapshots nobody writes to either, so that what one of them counts as sent or received is in the
other. What lies in the databases is nobody's business here. A server's database on PostgreSQL is not in the
backup: pg_dump takes it, before this command does.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

from lineloop.cli.data_files import DATABASES, DEVICE_DATABASE, ELSEWHERE, SERVER_DATABASE
from lineloop.cli.failures import CommandFailed, Exit
from lineloop.cli.running import READY, read_private, write_private
from lineloop.kit.clock import SystemClock, rfc3339
from lineloop.kit.datadir import DataDir
from lineloop.settings import Settings

MANIFEST = "backup.json"
FORMAT = 1
DATA = "data"
BLOBS = Path("server/blobs")
BUSY_SECONDS = 30.0
_PASSING = (".lock", "-wal", "-shm", "-journal", ".new")


def back_up(settings: Settings, target: Path) -> int:
    """Writes `target`, which appears when it is whole. Raises CommandFailed."""
    data_dir = settings.data_dir
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise CommandFailed(f"{target} exists already", Exit.USAGE, hint="Choose a new directory.")
    database, elsewhere = _server_database(data_dir)
    sources = {
        name: path
        for name, path in ((SERVER_DATABASE, database), (DEVICE_DATABASE, data_dir / DEVICE_DATABASE))
        if path is not None and path.is_file()
    }
    if not sources and elsewhere is None:
        raise CommandFailed(f"{data_dir} holds no data", Exit.NOT_FOUND)
    beside = target.with_name(f".{target.name}.new")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(mode=0o700, parents=True)
    _cut({path: beside / DATA / name for name, path in sources.items()})
    blobs = settings.blobs or (database.with_name("blobs") if database else data_dir / BLOBS)
    _copy_files(data_dir, beside / DATA)
    _copy_files(blobs, beside / DATA / BLOBS)
    manifest = {"format": FORMAT, "made_at": rfc3339(SystemClock().now_ms()), "server_elsewhere": elsewhere}
    write_private(beside / MANIFEST, manifest)
    if target.exists():
        target.rmdir()
    beside.replace(target)
    parts = " and ".join(name.parts[0] for name in sources) or "files"
    print(f"{parts} in {target}")
    if elsewhere:
        print(f"The server's own data is on {elsewhere}: keep a pg_dump of it beside this, made first.")
    return Exit.DONE


def restore(settings: Settings, source: Path, *, yes: bool) -> int:
    """Puts a backup in the place of the data directory; what was there is kept beside it.

    Raises CommandFailed, DataDirLocked while a system runs on it.
    """
    manifest = read_private(source / MANIFEST)
    if manifest.get("format") != FORMAT or not (source / DATA).is_dir():
        raise CommandFailed(f"{source} is not a backup of Lineloop", Exit.USAGE)
    data_dir = settings.data_dir
    held = [name for name in DATABASES if (data_dir / name).is_file()]
    if held and not yes:
        raise CommandFailed(
            f"{data_dir} holds data", Exit.REFUSED, hint="With --yes the backup takes its place."
        )
    beside = data_dir.with_name(f".{data_dir.name}.restored")
    shutil.rmtree(beside, ignore_errors=True)
    with ExitStack() as locks:
        for name in DATABASES:
            locks.enter_context(DataDir((data_dir / name).parent))
        _copy_files(source / DATA, beside, everything=True)
        if (beside / SERVER_DATABASE).is_file():
            _begin_anew(beside / SERVER_DATABASE)
        aside = data_dir.with_name(f"{data_dir.name}.before-{SystemClock().now_ms()}")
        data_dir.replace(aside)
        beside.replace(data_dir)
        if not held:
            shutil.rmtree(aside)
    print(f"{data_dir} is as it was at {manifest.get('made_at')}")
    if held:
        print(f"what it held before is in {aside}")
    if manifest.get("server_elsewhere"):
        print(f"Restore the server's own data on {manifest['server_elsewhere']} with pg_restore.")
    return Exit.DONE


def _server_database(data_dir: Path) -> tuple[Path | None, str | None]:
    """The file of the server's database, or on which database server it is."""
    noted = read_private(data_dir / ELSEWHERE)
    if isinstance(server := noted.get("server"), str):
        return None, server
    name = noted.get("database")
    return (Path(name) if isinstance(name, str) and name else data_dir / SERVER_DATABASE), None


def _cut(copies: dict[Path, Path]) -> None:
    """Copies each database as of one moment at which none of them had a writer."""
    try:
        with ExitStack() as stack:
            with ExitStack() as held:
                for path in copies:
                    writer = held.enter_context(closing(_opened(path)))
                    writer.execute("BEGIN IMMEDIATE")
                readers = {path: stack.enter_context(closing(_opened(path))) for path in copies}
                for reader in readers.values():
                    reader.execute("BEGIN")
                    reader.execute("SELECT count(*) FROM sqlite_master").fetchone()
            for path, target in copies.items():
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                with closing(sqlite3.connect(target)) as copy:
                    readers[path].backup(copy)
                target.chmod(0o600)
                _make_durable(target)
    except sqlite3.OperationalError as error:
        raise CommandFailed(f"the database cannot be copied: {error}", Exit.TEMPORARY) from error


def _opened(path: Path) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode=rw"
    return sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)


def _begin_anew(database: Path) -> None:
    """Without its epoch the server takes a new one when it starts, and whoever knew the old one resyncs."""
    from lineloop.server.app import EPOCH

    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("DELETE FROM meta WHERE name = :name", {"name": EPOCH})


def _copy_files(source: Path, target: Path, *, everything: bool = False) -> None:
    """Every lasting file; `everything`: also the databases. What vanishes meanwhile was passing."""
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in _lasting(source):
        name = path.relative_to(source)
        if not everything and name in (*DATABASES, Path(ELSEWHERE)):
            continue
        copy = target / name
        copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            shutil.copy2(path, copy)
        except FileNotFoundError:
            continue
        _make_durable(copy)


def _lasting(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
        passing = path.name in (READY, "lock") or path.name.endswith(_PASSING) or ".before-" in path.name
        if path.is_file() and not path.is_symlink() and not passing:
            yield path


def _make_durable(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
