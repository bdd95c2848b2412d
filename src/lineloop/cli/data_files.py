"""The files of a data directory that a start depends on, and when one of them is refused.

Decides the names of the databases and what an empty one means: a new file never appears empty, so an empty
one beside data lost its content, and is not taken for a new beginning.
"""

from __future__ import annotations

from pathlib import Path

from lineloop.cli.failures import CommandFailed
from lineloop.cli.running import read_private, write_private

SERVER_DATABASE = Path("server/server.sqlite3")
DEVICE_DATABASE = Path("device/device.sqlite3")
DATABASES = (SERVER_DATABASE, DEVICE_DATABASE)
ELSEWHERE = "server.json"


def refuse_emptied(database: Path, data_dir: Path) -> None:
    """Raises CommandFailed when `database` is empty although something shows that there was data."""
    if not database.is_file() or database.stat().st_size:
        return
    copies = sorted(database.parent.glob(f"{database.name}.before-*"))
    others = [data_dir / name for name in DATABASES]
    log = database.with_name(f"{database.name}-wal")
    witnesses = [path for path in (*copies, log, *others) if path.is_file() and path.stat().st_size]
    if not witnesses:
        return
    begin_anew = f"or, to begin without what it held, remove {database}"
    hint = f"Put the copy {copies[-1]} in its place, {begin_anew}." if copies else ""
    raise CommandFailed(
        f"{database} is empty, but {witnesses[0]} shows that there was data",
        hint=hint or f"Put a backup of it in its place, {begin_anew}.",
    )


def directory_of(database: Path) -> Path:
    """Where a server on a database of its own keeps the rest: beside the file."""
    return database.with_name(f"{database.name}.lineloop")


def remember_database(data_dir: Path, database: Path | None) -> None:
    """Notes which file a server of this data directory uses, for commands that open it later."""
    if remembered_database(data_dir) != database:
        write_private(data_dir / ELSEWHERE, {"database": str(database) if database else None})


def remembered_database(data_dir: Path) -> Path | None:
    """The database that the last server of this directory used; None for the directory's own."""
    name = read_private(data_dir / ELSEWHERE).get("database")
    return Path(name) if isinstance(name, str) and name else None
