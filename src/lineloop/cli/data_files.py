"""The files of a data directory that a start depends on, and when one of them is refused.

Decides the names of the databases and what an empty one means: a new file never appears empty, so an empty
one beside data lost its content, and is not taken for a new beginning.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lineloop.cli.failures import CommandFailed
from lineloop.cli.running import read_private, write_private
from lineloop.kit.engines import Place, shown

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


def remember_database(data_dir: Path, database: Place | None) -> None:
    """Notes which database a server of this data directory uses, for commands that open it later.

    Of a URL only where it leads is noted: a password is not ours to keep.
    """
    noted: dict[str, Any] = {"database": str(database) if isinstance(database, Path) else None}
    if isinstance(database, str):
        noted["server"] = shown(database)
    if read_private(data_dir / ELSEWHERE) != noted and (database or (data_dir / ELSEWHERE).exists()):
        write_private(data_dir / ELSEWHERE, noted)


def remembered_database(data_dir: Path) -> Path | None:
    """The file that the last server of this directory used; None for the directory's own.

    Raises CommandFailed when it was on a database server, whose URL must be given again.
    """
    noted = read_private(data_dir / ELSEWHERE)
    if isinstance(server := noted.get("server"), str):
        raise CommandFailed(
            f"the server of this data directory keeps its data on {server}",
            hint="Start it, or give its database in LINELOOP_DATABASE.",
        )
    name = noted.get("database")
    return Path(name) if isinstance(name, str) and name else None
